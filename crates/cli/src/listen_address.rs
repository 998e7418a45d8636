//! The parsers of flags that name an address to listen on, or the name of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses an address to listen on. A port alone, and `localhost`, mean loopback.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = |port: &str| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)));
    let found = match text.strip_prefix("localhost:") {
        Some(port) => on_loopback(port),
        None => text.parse().ok().or_else(|| on_loopback(text)),
    };
    found.ok_or_else(|| {
        "expected ADDR:PORT, localhost:PORT or PORT, for example 127.0.0.1:8080 or 8080".to_owned()
    })
}

/// Parses a host name or an address without a port.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-');
    let is_host = text.parse::<IpAddr>().is_ok() || (!text.is_empty() && text.chars().all(is_name));
    if is_host {
        Ok(text.to_owned())
    } else {
        Err("expected a name or an address, without a port".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_abbreviated() {
        for (text, expected) in [
            ("8080", Some("127.0.0.1:8080")),
            ("localhost:8080", Some("127.0.0.1:8080")),
            ("0.0.0.0:1", Some("0.0.0.0:1")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("65536", None),
            ("nowhere", None),
            ("localhost", None),
            ("127.0.0.1", None),
            (":8080", None),
        ] {
            assert_eq!(address(text).ok().map(|it| it.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_advertised_host_is_a_name_or_an_address() {
        for text in ["box.lan", "192.0.2.1", "2001:db8::1"] {
            assert!(host(text).is_ok(), "{text}");
        }
        for text in ["", "box.lan:6443", "https://box.lan", "b x"] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
