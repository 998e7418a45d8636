//! IP addresses and networks (k8s.io/apiserver v0.36.4 pkg/cel/library/{ip,cidr}.go).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with the length of its prefix. The bits behind the prefix are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

/// Parses an address. IPv4 addresses within IPv6 are not allowed.
///
/// # Errors
/// The message of kube-apiserver.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let Ok(ip) = text.parse::<IpAddr>() else {
        let reason = if text.contains('%') {
            "IP address with zone value is not allowed".to_owned()
        } else {
            format!(
                "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
            )
        };
        return Err(reason);
    };
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        ip => Ok(ip),
    }
}

/// Parses a network.
///
/// # Errors
/// The message of kube-apiserver.
pub(crate) fn parse_cidr(text: &str) -> Result<Cidr, String> {
    parse_prefix(text).map_err(|why| {
        // The prefix occurs twice, as in kube-apiserver.
        let context = "network address parse error during conversion from string";
        format!("{context}: {context}: netip.ParsePrefix({text:?}): {why}")
    })
}

/// Parses a network like `ParsePrefix` of Go's `net/netip`.
fn parse_prefix(text: &str) -> Result<Cidr, String> {
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| "no '/'".to_owned())?;
    let parsed: Result<IpAddr, _> = address.parse();
    let address = parsed.map_err(|_| format!("ParseAddr({address:?}): unable to parse IP"))?;
    let is_plain = !bits.is_empty()
        && bits.bytes().all(|it| it.is_ascii_digit())
        && (bits == "0" || !bits.starts_with('0'));
    let bad = || format!("bad bits after slash: {bits:?}");
    let max = if address.is_ipv4() { 32 } else { 128 };
    if !is_plain {
        return Err(bad());
    }
    let prefix = bits.parse().ok().filter(|it| *it <= max).ok_or("prefix length out of range")?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        address => Ok(Cidr { address, prefix }),
    }
}

impl Cidr {
    /// Returns the network without the bits behind the prefix.
    pub(crate) fn masked(self) -> Self {
        Self { address: cut(self.address, self.prefix), prefix: self.prefix }
    }

    /// Returns true if the address is in the network.
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4() && cut(self.address, self.prefix) == cut(ip, self.prefix)
    }

    /// Returns true if every address of the other network is in this one.
    pub(crate) fn contains_network(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }
}

/// Sets the bits behind a prefix to zero.
fn cut(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

/// Returns a property of an address, by the function that reads it.
pub(crate) fn is(ip: IpAddr, function: &str) -> bool {
    let local_unicast = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    match function {
        "isUnspecified" => ip.is_unspecified(),
        "isLoopback" => ip.is_loopback(),
        "isLinkLocalUnicast" => local_unicast,
        "isLinkLocalMulticast" => match ip {
            IpAddr::V4(v4) => v4.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        },
        _ => {
            !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !local_unicast && !is_broadcast
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_shares_their_prefix() {
        let net = |text: &str| parse_cidr(text).unwrap();
        assert!(net("10.0.0.0/8").contains(parse_ip("10.1.2.3").unwrap()));
        assert!(!net("10.0.0.0/8").contains(parse_ip("11.1.2.3").unwrap()));
        assert!(net("::/0").contains(parse_ip("fe80::1").unwrap()));
        assert!(!net("0.0.0.0/0").contains(parse_ip("fe80::1").unwrap()));
        assert!(net("10.0.0.0/8").contains_network(net("10.5.0.0/16")));
        assert!(!net("10.5.0.0/16").contains_network(net("10.0.0.0/8")));
        assert_eq!(net("192.168.1.7/24").masked().address.to_string(), "192.168.1.0");
        for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "::ffff:1.2.3.4/96", "x/8"] {
            assert!(parse_cidr(text).is_err(), "{text}");
        }
        assert!(parse_ip("::ffff:1.2.3.4").is_err() && parse_ip("01.2.3.4").is_err());
    }

    #[test]
    fn addresses_have_the_properties_of_their_ranges() {
        for (ip, function, expected) in [
            ("224.0.0.5", "isLinkLocalMulticast", true),
            ("169.254.1.1", "isLinkLocalUnicast", true),
            ("fe80::1", "isLinkLocalUnicast", true),
            ("8.8.8.8", "isGlobalUnicast", true),
            ("255.255.255.255", "isGlobalUnicast", false),
            ("127.0.0.1", "isLoopback", true),
            ("::", "isUnspecified", true),
        ] {
            assert_eq!(is(parse_ip(ip).unwrap(), function), expected, "{ip} {function}");
        }
    }
}
