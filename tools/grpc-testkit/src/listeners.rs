//! Listeners on one port at several loopback addresses: the pods of an endpoint slice share its
//! ports.
//!
//! On Linux, all of 127.0.0.0/8 is local.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use tonic::transport::server::TcpIncoming;

/// The number of attempts to find a port that is free on all addresses.
const ATTEMPTS: usize = 100;

/// Returns `count` addresses from 127.0.0.2 on, 250 in each /24 network.
pub fn addresses(count: usize) -> Vec<Ipv4Addr> {
    let address = |number: usize| Ipv4Addr::new(127, 0, (number / 250) as u8, (number % 250) as u8 + 2);
    (0..count).map(address).collect()
}

/// Listens on one port at each address. Connections are not accepted yet.
///
/// # Errors
/// If an address is not local, or no port is free on all of them.
pub fn listeners_on_one_port(addresses: &[Ipv4Addr]) -> io::Result<Vec<TcpListener>> {
    let Some((first, others)) = addresses.split_first() else { return Ok(Vec::new()) };
    for _ in 0..ATTEMPTS {
        let first = TcpListener::bind((*first, 0))?;
        let port = first.local_addr()?.port();
        let others = others.iter().map(|it| TcpListener::bind((*it, port)));
        match others.collect::<io::Result<Vec<_>>>() {
            Ok(others) => return Ok([first].into_iter().chain(others).collect()),
            // Another process uses the port on one of the addresses: try another port.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    let count = addresses.len();
    Err(io::Error::other(format!("no port is free on {count} loopback addresses from {first} on")))
}

/// Returns the connections of a listener, with `TCP_NODELAY`.
///
/// # Errors
/// If the listener cannot be registered with the runtime.
///
/// # Panics
/// Panics outside of a tokio runtime.
pub fn incoming(listener: TcpListener) -> io::Result<TcpIncoming> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(TcpIncoming::from(listener).with_nodelay(Some(true)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn addresses_are_distinct_and_on_loopback() {
        let all = addresses(1_100);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1_100);
        assert!(all.iter().all(|it| it.is_loopback() && !it.is_broadcast() && it.octets()[3] > 1));
        assert_eq!((all[0], all[250]), (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 1, 2)));
    }

    #[test]
    fn listeners_share_a_port_and_have_the_addresses_in_order() {
        let addresses = addresses(5);
        let listeners = listeners_on_one_port(&addresses).unwrap();
        let bound: Vec<_> = listeners.iter().map(|it| it.local_addr().unwrap()).collect();
        assert!(bound.iter().all(|it| it.port() == bound[0].port()), "{bound:?}");
        assert!(bound.iter().map(|it| it.ip()).eq(addresses), "{bound:?}");
        assert!(listeners_on_one_port(&[]).unwrap().is_empty());
    }

    #[test]
    fn an_address_that_is_not_local_is_an_error_at_once() {
        // TEST-NET-1 of RFC 5737.
        let foreign = Ipv4Addr::new(192, 0, 2, 1);
        let error = listeners_on_one_port(&[Ipv4Addr::LOCALHOST, foreign]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
