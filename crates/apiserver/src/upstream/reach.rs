//! The addresses that the server connects to: the loopback, unless others are allowed.
//!
//! Objects choose these addresses: the status of a node or a pod, and endpoints. Without the limit,
//! a client that may write such an object could reach every machine that this one can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that the server may connect to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Addresses of the loopback, and the name `localhost` with the names below it.
    #[default]
    Loopback,
    /// These and the addresses of other machines, and names, which are resolved.
    Anywhere,
}

impl Reach {
    /// Returns true if the server may connect to this address or name. The addresses of a name are
    /// not known here: [`Self::permits_address`] decides about each.
    pub(crate) fn permits(self, host: &str) -> bool {
        match host.parse::<IpAddr>() {
            Ok(address) => self.permits_address(address),
            Err(_) => self == Self::Anywhere || is_localhost(host),
        }
    }

    /// Returns true if the server may connect to this address. As in kube-apiserver, addresses that
    /// only have a meaning on one link are not allowed, such as that of the metadata service of a
    /// cloud (`ResourceLocation` in k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/strategy.go
    /// asks for a global unicast address). The loopback, which it rejects, is where the kubelets of
    /// a test are.
    pub(crate) fn permits_address(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_of_link = match address {
            IpAddr::V4(it) => it.is_link_local() || it.is_broadcast(),
            IpAddr::V6(it) => it.is_unicast_link_local(),
        };
        let is_unicast = !is_of_link && !address.is_unspecified() && !address.is_multicast();
        address.is_loopback() || (self == Self::Anywhere && is_unicast)
    }

    /// Returns the reason why the server does not connect to this address or name, with the next
    /// step.
    pub(crate) fn refusal(self, host: &str) -> String {
        match self {
            Self::Loopback => format!(
                "address not allowed: {host} is not a loopback address, and the server connects to others only with \
                 --allow-remote-backends (in a program, ApiServerBuilder::allow_remote_backends)"
            ),
            Self::Anywhere => format!("address not allowed: {host} is not a global unicast address"),
        }
    }
}

/// Returns the addresses of the name `localhost` and of the names below it, without a resolver
/// (RFC 6761, 6.3); none for other names.
pub(super) fn localhost_addresses(name: &str) -> Option<[IpAddr; 2]> {
    is_localhost(name).then_some([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)])
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|it| it.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_is_reached_by_default() {
        for (host, by_default, with_others) in [
            ("127.0.0.1", true, true),
            ("127.8.9.1", true, true),
            ("::1", true, true),
            ("::ffff:127.0.0.1", true, true),
            ("localhost", true, true),
            ("node-1.LocalHost.", true, true),
            ("node-1", false, true),
            ("localhost.attacker.example", false, true),
            ("10.244.0.7", false, true),
            ("2001:db8::1", false, true),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("fe80::1", false, false),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("224.0.0.1", false, false),
            ("255.255.255.255", false, false),
        ] {
            let permitted = (Reach::Loopback.permits(host), Reach::Anywhere.permits(host));
            assert_eq!(permitted, (by_default, with_others), "{host}");
        }
    }

    #[test]
    fn localhost_needs_no_resolver() {
        let found = localhost_addresses("a.localhost").map(|it| it.map(|it| it.is_loopback()));
        assert_eq!(found, Some([true, true]));
        assert_eq!(localhost_addresses("a.example"), None);
    }
}
