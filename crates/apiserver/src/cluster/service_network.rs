//! The network from which services get their addresses.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The longest prefix: a network has at least eight addresses, as for kube-apiserver
/// (k8s.io/kubernetes v1.36.4 pkg/controlplane/services.go).
const LONGEST_PREFIX: u32 = 29;

/// An IPv4 network from which services get their addresses. Defaults to 10.96.0.0/16.
///
/// Services get neither its first address nor its last one. The address after the first is that of
/// the service of the API server.
///
/// ```
/// use dogwatch_apiserver::ServiceNetwork;
///
/// let network: ServiceNetwork = "10.0.0.0/24".parse()?;
/// assert_eq!(network.to_string(), "10.0.0.0/24");
/// assert!("10.0.0.0/30".parse::<ServiceNetwork>().is_err(), "it has four addresses only");
/// # Ok::<(), dogwatch_apiserver::InvalidServiceNetwork>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    first: u32,
    prefix: u32,
}

/// A text that is not a network for services.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a network for services: {why}")]
pub struct InvalidServiceNetwork {
    text: String,
    why: &'static str,
}

impl ServiceNetwork {
    /// Returns the address of this number, counted from the first address of the network.
    pub(super) fn address(self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.first | number)
    }

    /// Returns the number of the last address.
    pub(super) fn last(self) -> u32 {
        u32::MAX.checked_shr(self.prefix).unwrap_or(0)
    }

    /// Returns the address of the service of the API server.
    pub(crate) fn of_api_server(self) -> Ipv4Addr {
        self.address(1)
    }

    /// Returns the number of an address in this network.
    pub(super) fn number(self, address: Ipv4Addr) -> Option<u32> {
        let number = u32::from(address) ^ self.first;
        (number <= self.last()).then_some(number)
    }
}

impl Default for ServiceNetwork {
    fn default() -> Self {
        Self { first: u32::from(Ipv4Addr::new(10, 96, 0, 0)), prefix: 16 }
    }
}

impl FromStr for ServiceNetwork {
    type Err = InvalidServiceNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |why| InvalidServiceNetwork { text: text.to_owned(), why };
        let (address, prefix) =
            text.split_once('/').ok_or_else(|| invalid("it must have the form 10.96.0.0/16"))?;
        if address.contains(':') || text.contains(',') {
            return Err(invalid("this server has one IPv4 network for services"));
        }
        let address: Ipv4Addr =
            address.parse().map_err(|_| invalid("it does not begin with an IPv4 address"))?;
        let is_plain = !prefix.is_empty() && prefix.bytes().all(|it| it.is_ascii_digit());
        let prefix = prefix.parse::<u32>().ok().filter(|it| is_plain && (1..=LONGEST_PREFIX).contains(it));
        let prefix = prefix.ok_or_else(|| invalid("the length of its prefix must be between 1 and 29"))?;
        let mask = !u32::MAX.checked_shr(prefix).unwrap_or(0);
        Ok(Self { first: u32::from(address) & mask, prefix })
    }
}

impl fmt::Display for ServiceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.first), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_an_ipv4_address_and_a_prefix() {
        for (text, expected) in [
            ("10.0.0.0/24", Some("10.0.0.0/24")),
            ("10.0.0.77/24", Some("10.0.0.0/24")),
            ("0.0.0.0/1", Some("0.0.0.0/1")),
            ("192.168.255.248/29", Some("192.168.255.248/29")),
            ("10.0.0.0", None),
            ("10.0.0.0/0", None),
            ("10.0.0.0/30", None),
            ("10.0.0.0/+8", None),
            ("10.0.0/8", None),
            ("10.0.0.0/99999999999", None),
            ("fd00::/108", None),
            ("10.0.0.0/16,fd00::/108", None),
        ] {
            let network = text.parse::<ServiceNetwork>().ok().map(|it| it.to_string());
            assert_eq!(network.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_numbered_from_the_first() {
        let network: ServiceNetwork = "10.1.2.0/24".parse().unwrap();
        assert_eq!((network.last(), network.of_api_server()), (255, Ipv4Addr::new(10, 1, 2, 1)));
        assert_eq!(network.number(network.address(200)), Some(200));
        assert_eq!(network.number(Ipv4Addr::new(10, 1, 3, 0)), None);
    }
}
