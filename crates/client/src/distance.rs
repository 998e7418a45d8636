//! The distance to the server, by which the client decides whether to compress watches.

use url::Url;

use crate::config::Config;
use crate::loopback::is_loopback;

/// Returns true if responses come from another machine, so that compression saves more time than it
/// costs. A proxy on another machine makes the server distant; a proxy of the environment is not
/// used for a server on this one.
pub(crate) fn is_distant(config: &Config) -> bool {
    let is_elsewhere = |url: &Url| !url.host_str().is_some_and(is_loopback);
    is_elsewhere(&config.server) || config.proxy_url.as_ref().is_some_and(is_elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_distant_if_it_or_its_proxy_is_on_another_machine() {
        for (server, proxy, distant) in [
            ("https://10.0.0.1:6443", None, true),
            ("https://kubernetes.default.svc", None, true),
            ("https://127.0.0.1:6443", None, false),
            ("http://[::1]:8080", None, false),
            ("https://localhost:6443", None, false),
            ("https://localhost:6443", Some("http://127.0.0.1:3128"), false),
            ("https://localhost:6443", Some("http://proxy.test:3128"), true),
            ("https://10.0.0.1:6443", Some("http://127.0.0.1:3128"), true),
        ] {
            let mut config = Config::new(server.parse().expect("a URL"));
            config.proxy_url = proxy.map(|it| it.parse().expect("a URL"));
            assert_eq!(is_distant(&config), distant, "{server} {proxy:?}");
        }
    }
}
