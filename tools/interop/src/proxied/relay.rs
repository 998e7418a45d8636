//! A TCP relay on loopback whose connections can be cut, and which can be closed for a while. It
//! forwards bytes and knows neither TLS nor HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A relay to one address. Dropping it cuts all connections.
#[derive(Debug)]
pub(super) struct Relay {
    address: SocketAddr,
    cuts: watch::Sender<()>,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    is_open: AtomicBool,
    /// The connections that were cut.
    cut: AtomicU64,
}

impl Relay {
    /// Starts a relay to `HOST:PORT`.
    pub(super) async fn to(authority: String) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let (cuts, cut) = watch::channel(());
        let state = Arc::new(State { is_open: AtomicBool::new(true), cut: AtomicU64::new(0) });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.is_open.load(Ordering::SeqCst) {
                    tokio::spawn(relay(client, authority.clone(), cut.clone(), Arc::clone(&shared)));
                }
            }
        });
        Ok(Self { address, cuts, state, task })
    }

    /// The port on loopback.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts every open connection, possibly in the middle of a frame.
    pub(super) fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// Cuts every open connection, and closes new ones at once until [`Self::open`].
    pub(super) fn close(&self) {
        self.state.is_open.store(false, Ordering::SeqCst);
        self.cut();
    }

    /// Relays new connections again.
    pub(super) fn open(&self) {
        self.state.is_open.store(true, Ordering::SeqCst);
    }

    /// Returns the number of connections that were cut.
    pub(super) fn connections_cut(&self) -> u64 {
        self.state.cut.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(mut client: TcpStream, authority: String, mut cut: watch::Receiver<()>, state: Arc<State>) {
    cut.mark_unchanged();
    let Ok(mut server) = TcpStream::connect(authority).await else { return };
    // TLS records and HTTP/2 frames are small; Nagle's algorithm would delay them.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let cut_off = tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => false,
        changed = cut.changed() => changed.is_ok(),
    };
    state.cut.fetch_add(u64::from(cut_off), Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    /// Connects through the relay, and returns true if a byte arrives.
    async fn carries(relay: &Relay, server: &TcpListener) -> (bool, TcpStream) {
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).await.unwrap();
        let _ = client.write_all(b"x").await;
        let accepted = async {
            let (mut stream, _) = server.accept().await.unwrap();
            stream.read_u8().await.is_ok()
        };
        let ended = async {
            let mut byte = [0];
            matches!(client.read(&mut byte).await, Ok(0) | Err(_))
        };
        let carried = tokio::select! { carried = accepted => carried, _ = ended => false };
        (carried, client)
    }

    #[tokio::test]
    async fn connections_are_cut_and_refused_until_the_relay_is_open_again() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let relay = Relay::to(server.local_addr().unwrap().to_string()).await.unwrap();
        let test = async {
            let mut kept = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).await.unwrap();
            kept.write_all(b"x").await.unwrap();
            let (mut stream, _) = server.accept().await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            relay.close();
            assert!(kept.read_u8().await.is_err());
            assert_eq!(relay.connections_cut(), 1);
            assert!(!carries(&relay, &server).await.0);
            relay.open();
            assert!(carries(&relay, &server).await.0);
        };
        timeout(Duration::from_secs(30), test).await.unwrap();
    }
}
