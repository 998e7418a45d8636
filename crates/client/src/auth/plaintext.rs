//! Protection against credentials in clear text: they are sent over TLS, or only within this
//! machine (rule KC-7).

use url::Url;

use super::error::AuthError;
use crate::config::Config;
use crate::loopback;

/// Returns true if an address is https, or http to a loopback host, so that others cannot read the
/// headers of a request.
///
/// A name other than `localhost` never counts as loopback, whatever it resolves to.
///
/// ```
/// use dogwatch_client::auth::may_carry_credentials;
///
/// assert!(may_carry_credentials(&"https://10.0.0.1:6443".parse()?));
/// assert!(may_carry_credentials(&"http://127.0.0.1:8080".parse()?));
/// assert!(!may_carry_credentials(&"http://10.0.0.1:8080".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn may_carry_credentials(server: &Url) -> bool {
    match server.scheme() {
        "https" => true,
        "http" => is_loopback(server),
        _ => false,
    }
}

/// Rejects settings that would send credentials in clear text without allowing it explicitly.
pub(super) fn check(config: &Config) -> Result<(), AuthError> {
    if config.allow_plaintext_credentials {
        return Ok(());
    }
    // Plaintext through a proxy is plaintext to the proxy.
    let proxy_overhears = config.server.scheme() == "http"
        && config.proxy_url.as_ref().is_some_and(|proxy| !is_loopback(proxy));
    if may_carry_credentials(&config.server) && !proxy_overhears {
        return Ok(());
    }
    Err(AuthError::Plaintext { server: address(&config.server) })
}

/// Returns scheme, host and port: the parts of an address that may appear in an error.
pub(super) fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(loopback::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kc_7_credentials_travel_over_tls_or_stay_on_this_machine() {
        let cases = [
            ("https://10.0.0.1:6443", true),
            ("https://example.com/prefix", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:8080", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://localhost:8001", true),
            ("http://LOCALHOST.", true),
            ("http://a.localhost", true),
            ("http://10.0.0.1:8080", false),
            ("http://[2001:db8::1]", false),
            ("http://example.com", false),
            ("http://localhost.example.com", false),
            ("http://notlocalhost", false),
            ("ftp://127.0.0.1", false),
        ];
        for (address, expected) in cases {
            let url = Url::parse(address).expect("a valid address");
            assert_eq!(may_carry_credentials(&url), expected, "{address}");
        }
    }

    #[test]
    fn kc_7_a_remote_proxy_makes_a_loopback_server_remote() {
        let mut config = Config::new(Url::parse("http://localhost:8001").unwrap());
        assert!(check(&config).is_ok());
        config.proxy_url = Some(Url::parse("http://127.0.0.1:3128").unwrap());
        assert!(check(&config).is_ok());
        config.proxy_url = Some(Url::parse("http://proxy.example.com:3128").unwrap());
        assert!(matches!(check(&config), Err(AuthError::Plaintext { .. })));
        config.allow_plaintext_credentials = true;
        assert!(check(&config).is_ok());
    }

    #[test]
    fn an_address_in_an_error_carries_no_user_information() {
        let url = Url::parse("http://admin:hunter2@example.com:8080/path?token=x").unwrap();
        assert_eq!(address(&url), "http://example.com:8080");
    }
}
