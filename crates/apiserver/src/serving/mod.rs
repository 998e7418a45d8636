//! Connections: from a socket, or from inside the process, to the handler of requests.
//!
//! ```text
//! listener ─► TLS (if any) ─┐
//!                           ├─► HTTP/1.1 or HTTP/2 ─► Handler
//! connector ────────────────┘                           ▲
//! service ──────────────────────────────────────────────┘
//! ```
//!
//! There are three ways to a [`Handler`]: over a socket; over an in-memory pipe with all of HTTP
//! ([`Connector`]); and as a function call without HTTP ([`InProcess`]). The last two need no
//! socket, so a paused clock stays exact. Nothing here depends on the Kubernetes API.
//!
//! Every task belongs to a [`Serving`]: [`Serving::stop`] awaits all of them, and dropping it
//! aborts all of them.
//!
//! The `mod` lines below are in layer order.

mod certificates;
mod handler;
mod guard;
mod limits;
mod tls;
mod connection_parts;
mod inner;
mod write_coalescer;
mod wake_gate;
mod streams;
mod unread_body;
mod connection;
mod listener;
mod in_process;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

pub use certificates::Certificates;
pub(crate) use certificates::ClientCertificate;
pub use connection_parts::{ConnectionParts, StreamTasks};
#[cfg(test)]
pub(crate) use handler::RequestBody;
pub(crate) use handler::{BoxError, Handler};
pub use in_process::{Connector, InProcess, InProcessStream};
pub(crate) use tls::Tls;

use crate::auth::PeerIdentity;
use inner::{Inner, Shutdown};

/// Serves a [`Handler`], with a socket or without. Dropping it closes the listener immediately and
/// ends every connection.
#[derive(Debug)]
pub(crate) struct Serving<H> {
    /// The only strong reference. Dropping it closes the port at once, even if the accept task does
    /// not run again.
    listener: Option<Arc<TcpListener>>,
    address: Option<SocketAddr>,
    /// Connectors and services hold weak references to it.
    inner: Arc<Inner<H>>,
}

impl<H: Handler> Serving<H> {
    /// Serves without a socket: requests arrive only through [`Self::connector`] and
    /// [`Self::service`].
    pub(crate) fn in_process(handler: H) -> Self {
        Self::with_parts(handler, ConnectionParts::default())
    }

    fn with_parts(handler: H, parts: ConnectionParts) -> Self {
        let (tasks, shutdown) = (TaskTracker::new(), Shutdown::default());
        let inner = Inner { handler: Arc::new(handler), tasks, shutdown, parts };
        Self { listener: None, address: None, inner: Arc::new(inner) }
    }

    /// Also listens on a socket, with TLS if given.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound.
    pub(crate) async fn bind(
        handler: H,
        address: SocketAddr,
        tls: Option<Tls>,
        parts: ConnectionParts,
    ) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address).await?);
        let mut serving = Self::with_parts(handler, parts);
        serving.address = Some(listener.local_addr()?);
        let accepting = listener::accept(Arc::downgrade(&listener), tls, Arc::clone(&serving.inner));
        serving.inner.spawn(accepting);
        serving.listener = Some(listener);
        Ok(serving)
    }

    /// Returns the address of the socket, if there is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the handler.
    pub(crate) fn handler(&self) -> &Arc<H> {
        &self.inner.handler
    }

    /// Returns a connector that makes connections without a socket.
    pub(crate) fn connector(&self) -> Connector {
        Connector::new(&self.inner)
    }

    /// Returns a service that takes requests without a connection.
    pub(crate) fn service(&self) -> InProcess {
        InProcess::new(&self.inner)
    }

    /// Returns a service like [`Self::service`] whose requests this handler answers, as those of a
    /// user.
    pub(crate) fn service_of(&self, handler: H, identity: PeerIdentity) -> InProcess {
        InProcess::of_component(&self.inner, handler, identity)
    }

    /// Stops serving: no new connections or requests are accepted, requests in flight get half a
    /// second, and the rest are cut. All tasks have ended when this returns.
    pub(crate) async fn stop(mut self) {
        self.listener = None;
        self.inner.shutdown.graceful.cancel();
        self.inner.tasks.close();
        let _ = tokio::time::timeout(limits::GRACE, self.inner.tasks.wait()).await;
        self.inner.shutdown.immediate.cancel();
        self.inner.tasks.wait().await;
    }
}

impl<H> Drop for Serving<H> {
    fn drop(&mut self) {
        self.inner.shutdown.graceful.cancel();
        self.inner.shutdown.immediate.cancel();
        self.inner.tasks.close();
    }
}
