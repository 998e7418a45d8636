//! Shared test support: certificates, scripted servers, proxies, and a network that can be cut.
//!
//! Everything listens on a free port of 127.0.0.1 and stops when its value is dropped.

mod certs;
mod forwarder;
mod proxy;
mod server;

pub(crate) use certs::{Authority, Leaf};
pub(crate) use forwarder::Forwarder;
pub(crate) use proxy::{ConnectProxy, SocksProxy};
pub(crate) use server::{Body, Peer, Server, ServerSetup, empty, endless, streamed, text};

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Waits at most a minute, so that a test fails instead of hanging.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("timed out after a minute")
}

/// A task that is aborted when the value is dropped.
#[derive(Debug)]
pub(crate) struct Running(JoinHandle<()>);

impl Running {
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Binds a port and calls `serve` for every connection, concurrently.
pub(crate) async fn listen<F>(mut serve: impl FnMut(TcpStream) -> F + Send + 'static) -> (SocketAddr, Running)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let running = Running::spawn(async move {
        // The set aborts the connections with the listener.
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream));
        }
    });
    (address, running)
}

/// Returns a port on which no one listens.
pub(crate) async fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("a bound socket")
}
