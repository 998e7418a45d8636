//! The listening socket: accepts connections, performs the TLS handshake where configured, and
//! serves them.

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

/// The TCP keep-alive interval, so that the connections of vanished peers end.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The pause after an error of `accept`, such as running out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections until the listener is dropped.
pub(super) async fn accept<H: Handler>(listener: Weak<TcpListener>, tls: Option<Tls>, inner: Arc<Inner<H>>) {
    while let Some(accepted) = next(&listener).await {
        match accepted {
            Ok((stream, from)) => {
                let serving = serve_socket(stream, from, tls.clone(), Arc::clone(&inner));
                inner.spawn(serving);
            }
            // The client has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Returns the next connection, or `None` if the listener is dropped. Holds a reference to the
/// listener only while polling.
async fn next(listener: &Weak<TcpListener>) -> Option<io::Result<(TcpStream, SocketAddr)>> {
    std::future::poll_fn(|context| match listener.upgrade() {
        Some(listener) => listener.poll_accept(context).map(Some),
        None => Poll::Ready(None),
    })
    .await
}

async fn serve_socket<H: Handler>(
    stream: TcpStream,
    from: SocketAddr,
    tls: Option<Tls>,
    inner: Arc<Inner<H>>,
) {
    let limits = Limits::REMOTE;
    // Events are small and should leave at once. A socket without the option still works.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE));
    // A socket without a local address is already closed.
    let local = stream.local_addr().ok();
    let Some(tls) = tls else {
        return connection::serve(TokioIo::new(stream), local, None, limits, inner).await;
    };
    match tls.accept(stream, limits.handshake).await {
        Ok((stream, peer)) => connection::serve(TokioIo::new(stream), local, peer, limits, inner).await,
        Err(error) => tracing::debug!(%from, %error, "TLS handshake failed"),
    }
}
