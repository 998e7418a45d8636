//! Addresses of servers and proxies: parsing, and detection of unencrypted connections to other
//! machines.

use url::Url;

use super::redact;
use crate::loopback::is_loopback;

/// Parses the URL of a server. A bare `host` or `host:port` gets its scheme from `tls`. A path is
/// kept as the prefix of all requests; a query and a fragment are dropped.
pub(super) fn server(text: &str, tls: bool) -> Result<Url, String> {
    let shown = redact::address(text);
    let bare = !text.contains("://");
    let scheme = if tls { "https://" } else { "http://" };
    let whole = if bare { format!("{scheme}{text}") } else { text.to_owned() };
    let mut url = Url::parse(&whole).map_err(|error| format!("{shown:?} is not an address: {error}"))?;
    if bare && url.path() != "/" {
        return Err(format!("{shown:?} has a path but no scheme; write https:// in front of it"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{shown:?} is neither an http:// nor an https:// address"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a user or password; set username and password of the user instead".to_owned());
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Parses the URL of a proxy, which may contain a user and password.
pub(super) fn proxy(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| url.has_host());
    url.filter(|url| matches!(url.scheme(), "http" | "https" | "socks5")).ok_or_else(|| {
        format!("{:?} is not an http://, https:// or socks5:// address", redact::address(text))
    })
}

/// Returns true if data sent to this address leaves the machine unencrypted.
pub(super) fn is_exposed(url: &Url) -> bool {
    let loopback = url.host_str().is_some_and(is_loopback);
    url.scheme() != "https" && !loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_url_or_a_host_and_port() {
        let cases = [
            ("https://anything.com:8080/foo/bar", true, "https://anything.com:8080/foo/bar"),
            ("http://anything.com:8080/foo/bar/", true, "http://anything.com:8080/foo/bar/"),
            ("http://anything.com:8080//", true, "http://anything.com:8080//"),
            ("https://anything.com/a?b=c#d", false, "https://anything.com/a"),
            ("anything.com:8080", false, "http://anything.com:8080/"),
            ("anything.com:8080", true, "https://anything.com:8080/"),
            ("anything", false, "http://anything/"),
            ("anything/", false, "http://anything/"),
            ("127.0.0.1:6443", true, "https://127.0.0.1:6443/"),
            ("[::1]:6443", true, "https://[::1]:6443/"),
        ];
        for (text, tls, url) in cases {
            assert_eq!(server(text, tls).unwrap().as_str(), url, "{text}");
        }
    }

    #[test]
    fn an_invalid_server_is_rejected_with_the_reason() {
        let cases = [
            ("ftp://host", "\"ftp://host\" is neither an http:// nor an https:// address"),
            ("host:80/foo", "\"host:80/foo\" has a path but no scheme; write https:// in front of it"),
            ("https://", "\"https://\" is not an address: empty host"),
            ("https://host:x", "\"https://host:x\" is not an address: invalid port number"),
            (
                "https://a:b@host",
                "contains a user or password; set username and password of the user instead",
            ),
            ("https://a:b@host:x", "\"https://[REDACTED]@host:x\" is not an address: invalid port number"),
        ];
        for (text, message) in cases {
            assert_eq!(server(text, true).unwrap_err(), message);
        }
    }

    #[test]
    fn a_proxy_has_one_of_three_schemes() {
        for text in ["http://example.com", "https://example.com:1", "socks5://me:secret@example.com"] {
            assert!(proxy(text).is_ok(), "{text}");
        }
        for text in
            ["socks6://example.com", "example.com", "chewbacca@example.com", "example.com:80", "http://"]
        {
            assert!(proxy(text).is_err(), "{text}");
        }
        let message = proxy("ftp://me:secret@example.com").unwrap_err();
        assert_eq!(
            message,
            "\"ftp://[REDACTED]@example.com\" is not an http://, https:// or socks5:// address"
        );
    }

    #[test]
    fn kc_7_only_plain_http_to_another_machine_is_exposed() {
        let cases = [
            ("https://example.com", false),
            ("http://example.com", true),
            ("http://localhost:8080", false),
            ("http://LOCALHOST.", false),
            ("http://a.localhost", false),
            ("http://notlocalhost", true),
            ("http://127.8.9.1", false),
            ("http://128.0.0.1", true),
            ("http://[::1]:80", false),
            ("http://[::ffff:127.0.0.1]", false),
            ("http://[fe80::1]", true),
            ("http://0.0.0.0", true),
        ];
        for (text, exposed) in cases {
            assert_eq!(is_exposed(&Url::parse(text).unwrap()), exposed, "{text}");
        }
    }
}
