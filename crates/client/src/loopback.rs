//! Hosts of this machine, by their names: data that is sent to them stays on it.
//!
//! One definition for all: a host that may get credentials in clear text must not be reached
//! through a proxy.

use std::net::IpAddr;

/// Returns true for loopback addresses, IPv4 addresses mapped to IPv6 included, and for `localhost`
/// and the names below it. An IPv6 address may have brackets.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let name = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "api.localhost",
            "127.0.0.1",
            "127.8.9.10",
            "::1",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", ".", "mylocalhost", "localhost.example", "10.0.0.1", "[::ffff:10.0.0.1]", "[fe80::1]"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
