//! The socket: takes connections, makes them TLS where that is asked for, and hands them on.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

use super::handler::Handler;
use super::limits::Limits;
use super::tls::Tls;
use super::{connection, inner::Inner};

/// The machine asks after a silent peer this often, so that one that vanished does not stay for ever.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// How long to wait when the machine has nothing left to accept a connection with.
const BREATH: Duration = Duration::from_millis(100);

/// Takes connections as long as somebody keeps the listener.
pub(super) async fn accept<H: Handler>(listener: Weak<TcpListener>, tls: Option<Tls>, inner: Arc<Inner<H>>) {
    while let Some(accepted) = next(&listener).await {
        match accepted {
            Ok((stream, from)) => {
                let welcome = welcome(stream, from, tls.clone(), Arc::clone(&inner));
                inner.spawn(welcome);
            }
            // The client is gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

/// The next connection; nothing when the listener is gone. Holds the listener only while it is asked.
async fn next(listener: &Weak<TcpListener>) -> Option<io::Result<(TcpStream, SocketAddr)>> {
    std::future::poll_fn(|context| match listener.upgrade() {
        Some(listener) => listener.poll_accept(context).map(Some),
        None => Poll::Ready(None),
    })
    .await
}

async fn welcome<H: Handler>(stream: TcpStream, from: SocketAddr, tls: Option<Tls>, inner: Arc<Inner<H>>) {
    let limits = Limits::REMOTE;
    // Events are small and should leave at once. A socket that cannot be set up so still works.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE));
    // A socket that does not know its own address is gone already.
    let local = stream.local_addr().ok();
    let Some(tls) = tls else {
        return connection::serve(TokioIo::new(stream), local, None, limits, inner).await;
    };
    match tls.accept(stream, limits.handshake).await {
        Ok((stream, peer)) => connection::serve(TokioIo::new(stream), local, peer, limits, inner).await,
        Err(error) => tracing::debug!(%from, %error, "no TLS connection came about"),
    }
}
