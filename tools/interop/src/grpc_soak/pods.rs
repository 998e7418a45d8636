//! Pods: tonic servers on loopback addresses that share one port, since a port belongs to the whole
//! slice.
//!
//! On Linux, all of 127.0.0.0/8 is local. Nothing listens on other addresses or on all addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::FutureExt;
use futures_util::stream::select_all;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::echo::{CallCounts, EchoServer};

/// The number of attempts to find a port that is free on all addresses.
const ATTEMPTS: usize = 20;

/// Listeners on one port at several addresses, which do not accept connections yet.
pub(super) struct Listeners {
    pub(super) port: u16,
    listeners: Vec<(Ipv4Addr, TcpIncoming)>,
}

impl Listeners {
    /// Listens on each address.
    ///
    /// # Errors
    /// If no port is free on all of them.
    pub(super) fn open(addresses: &[Ipv4Addr]) -> Result<Self> {
        let Some((first, others)) = addresses.split_first() else {
            bail!("there are no addresses to listen on")
        };
        for _ in 0..ATTEMPTS {
            let first = listen(*first, 0)?;
            let port = first.1.local_addr()?.port();
            // The port is taken on one of the addresses: try another one.
            let Ok(others) = others.iter().map(|it| listen(*it, port)).collect::<Result<Vec<_>>>() else {
                continue;
            };
            return Ok(Self { port, listeners: [first].into_iter().chain(others).collect() });
        }
        bail!("no port is free on {} loopback addresses from {first} on", addresses.len())
    }

    /// Starts one pod per listener.
    pub(super) fn pods(self) -> Vec<Pod> {
        self.listeners.into_iter().map(|(address, incoming)| Pod::serve(address, incoming)).collect()
    }

    /// Starts one server for all listeners: a thousand endpoints cost only a listener each.
    /// Dropping the result stops the server.
    pub(super) fn shared_server(self) -> SharedServer {
        let counts = Arc::new(CallCounts::default());
        let (running, stopped) = oneshot::channel::<()>();
        let incoming = select_all(self.listeners.into_iter().map(|it| it.1));
        let server = Server::builder().add_service(EchoServer(Arc::clone(&counts)));
        tokio::spawn(server.serve_with_incoming_shutdown(incoming, stopped.map(drop)));
        SharedServer { counts, _running: running }
    }
}

fn listen(address: Ipv4Addr, port: u16) -> Result<(Ipv4Addr, TcpIncoming)> {
    let at = SocketAddr::from((address, port));
    let incoming = TcpIncoming::bind(at).with_context(|| format!("cannot listen on {at}"))?;
    Ok((address, incoming.with_nodelay(Some(true))))
}

/// One server at one address.
pub(super) struct Pod {
    pub(super) address: Ipv4Addr,
    pub(super) counts: Arc<CallCounts>,
    /// Dropping it shuts the server down as SIGTERM does.
    running: Option<oneshot::Sender<()>>,
}

impl Pod {
    fn serve(address: Ipv4Addr, incoming: TcpIncoming) -> Self {
        let counts = Arc::new(CallCounts::default());
        let (running, stopped) = oneshot::channel::<()>();
        let server = Server::builder().add_service(EchoServer(Arc::clone(&counts)));
        tokio::spawn(server.serve_with_incoming_shutdown(incoming, stopped.map(drop)));
        Self { address, counts, running: Some(running) }
    }

    /// Shuts down as on SIGTERM: refuses new connections, sends GOAWAY on the others, and finishes
    /// calls in flight.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }
}

/// One server at many addresses.
pub(super) struct SharedServer {
    pub(super) counts: Arc<CallCounts>,
    _running: oneshot::Sender<()>,
}

/// Returns `count` addresses from 127.0.0.2 on, 250 in each /24 network.
pub(super) fn addresses(count: usize) -> Vec<Ipv4Addr> {
    let address = |number: usize| Ipv4Addr::new(127, 0, (number / 250) as u8, (number % 250) as u8 + 2);
    (0..count).map(address).collect()
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
}
