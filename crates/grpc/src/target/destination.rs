//! The destination of a channel: a service of a cluster, a host in DNS, or a list of addresses.
//!
//! | form | destination |
//! |---|---|
//! | `dns:///host:port`, `dns:host:port`, `localhost:port` | the addresses of a host |
//! | `static:///10.0.0.1:50051,[fd00::1]:50051`, `10.0.0.1:50051` | these addresses |
//! | anything else | a service, as [`Target`] parses it |

use std::net::SocketAddr;
use std::str::FromStr;

use super::{Target, TargetError, TargetProblem, is_host};

/// The destination of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    Service(Target),
    /// The addresses of a host, by DNS.
    Host {
        host: String,
        port: u16,
    },
    /// At least one address.
    Addresses(Vec<SocketAddr>),
}

impl Destination {
    /// Parses addresses with ports.
    pub(crate) fn addresses(
        addresses: impl IntoIterator<Item = impl ToString>,
    ) -> Result<Vec<SocketAddr>, TargetError> {
        let address = |text: String| {
            text.trim().parse().map_err(|_| TargetError {
                problem: TargetProblem::BadAddress(text.trim().to_owned()),
                target: text,
            })
        };
        addresses.into_iter().map(|it| address(it.to_string())).collect()
    }
}

impl FromStr for Destination {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let failed = |problem| TargetError { target: text.to_owned(), problem };
        let of = |scheme: &str| {
            let (before, rest) = text.split_once(':')?;
            before.eq_ignore_ascii_case(scheme).then_some(rest)
        };
        if let Some(rest) = of("dns") {
            return host(rest).map_err(failed);
        }
        if let Some(rest) = of("static") {
            let list = rest.strip_prefix("///").unwrap_or(rest);
            let addresses = Self::addresses(list.split(',')).map_err(|error| failed(error.problem))?;
            return Ok(Self::Addresses(addresses));
        }
        if !is_host(text) {
            return text.parse().map(Self::Service);
        }
        match text.parse() {
            Ok(address) => Ok(Self::Addresses(vec![address])),
            Err(_) => host(text).map_err(failed),
        }
    }
}

/// Parses a host and its port, with or without leading slashes. gRPC allows the address of a DNS
/// server between the slashes; the system's resolver takes none, so it is rejected.
fn host(text: &str) -> Result<Destination, TargetProblem> {
    let wrong = || TargetProblem::BadHost(text.to_owned());
    let named = match text.strip_prefix("//") {
        Some(rest) => rest.strip_prefix('/').ok_or_else(wrong)?,
        None => text,
    };
    let (host, port) = named.rsplit_once(':').ok_or_else(wrong)?;
    let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
    let port = port.parse().ok().filter(|it| *it > 0).ok_or_else(wrong)?;
    if let Ok(address) = named.parse::<SocketAddr>() {
        return Ok(Destination::Addresses(vec![address]));
    }
    match !host.is_empty() && host.len() <= 253 && host.chars().all(allowed) {
        true => Ok(Destination::Host { host: host.to_owned(), port }),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats a host as `name host:port`, addresses with commas between them, a service as it was
    /// written, or the problem.
    fn describe(text: &str) -> String {
        match text.parse::<Destination>() {
            Ok(Destination::Service(target)) => target.to_string(),
            Ok(Destination::Host { host, port }) => format!("name {host}:{port}"),
            Ok(Destination::Addresses(all)) => {
                all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            Err(error) => format!("! {}", error.problem()),
        }
    }

    #[test]
    fn every_form_is_parsed() {
        for (text, expected) in [
            ("dns:///greeter.example.com:443", "name greeter.example.com:443"),
            ("DNS:greeter:50051", "name greeter:50051"),
            ("dns:///127.0.0.1:50051", "127.0.0.1:50051"),
            ("dns:///[::1]:50051", "[::1]:50051"),
            ("localhost:50051", "name localhost:50051"),
            ("127.0.0.1:50051", "127.0.0.1:50051"),
            ("[::1]:50051", "[::1]:50051"),
            ("static:///10.0.0.1:1,10.0.0.2:2", "10.0.0.1:1,10.0.0.2:2"),
            ("static:10.0.0.1:1, [fd00::1]:2", "10.0.0.1:1,[fd00::1]:2"),
            ("kubernetes:///greeter.shop:grpc", "kubernetes://shop/greeter:grpc"),
            ("greeter:50051", "kubernetes:///greeter:50051"),
            ("kubernetes:///localhost:50051", "kubernetes:///localhost:50051"),
        ] {
            assert_eq!(describe(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_destinations_are_rejected_with_the_reason() {
        for (text, expected) in [
            ("dns:///greeter", "\"///greeter\" is not a host with a port"),
            ("dns:///greeter:grpc", "\"///greeter:grpc\" is not a host with a port"),
            ("dns:///greeter:0", "\"///greeter:0\" is not a host with a port"),
            ("dns://8.8.8.8/greeter:80", "\"//8.8.8.8/greeter:80\" is not a host with a port"),
            ("dns:///a b:80", "\"///a b:80\" is not a host with a port"),
            ("localhost", "\"localhost\" is not a host with a port"),
            ("127.0.0.1", "\"127.0.0.1\" is not a host with a port"),
            ("static:///greeter:80", "\"greeter:80\" is not an address with a port"),
            ("static:///", "\"\" is not an address with a port"),
            ("static:///10.0.0.1:1,", "\"\" is not an address with a port"),
            ("xds:///greeter", "the scheme \"xds\" is not one of kubernetes"),
        ] {
            assert!(describe(text).starts_with(&format!("! {expected}")), "{text}: {}", describe(text));
        }
    }

    #[test]
    fn localhost_and_addresses_are_not_services() {
        for text in ["localhost:50051", "localhost", "127.0.0.1:50051", "127.0.0.1", "[::1]:80", "::1"] {
            let error = text.parse::<Target>().expect_err(text);
            assert_eq!(*error.problem(), TargetProblem::NotAService(text.to_owned()));
        }
    }
}
