//! Connections: from a socket, or from inside the process, to whatever answers requests.
//!
//! ```text
//! listener ─► TLS (if any) ─┐
//!                           ├─► HTTP/1.1 or HTTP/2 ─► Handler
//! connector ────────────────┘                           ▲
//! service ──────────────────────────────────────────────┘
//! ```
//!
//! Three ways lead to a [`Handler`]: over a socket, over a pipe in memory with everything that HTTP is
//! ([`Connector`]), and by a call without any of it ([`InProcess`]). The last two need no socket, so a paused clock stays
//! exact. Nothing here knows the API.
//!
//! Every task belongs to a [`Serving`]: [`Serving::stop`] awaits all of them, dropping it ends all of them.
//!
//! The `mod` lines below are in layer order.

mod certificates;
mod handler;
mod guard;
mod limits;
mod tls;
mod inner;
mod gathered;
mod turn;
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

pub use certificates::{Certificates, ClientCertificate};
pub use handler::{BoxError, Handler, RequestBody};
pub use in_process::{Connector, InProcess, InProcessStream};
pub use limits::Limits;
pub use tls::Tls;

use inner::{Ending, Inner};

/// Serves a [`Handler`], with a socket or without. Dropping it closes the listener at once and ends every connection.
#[derive(Debug)]
pub struct Serving<H> {
    /// The only strong reference: whoever drops it closes the port, whether the accepting task runs again or not.
    listener: Option<Arc<TcpListener>>,
    address: Option<SocketAddr>,
    /// What connectors and services look at; they do not keep it.
    inner: Arc<Inner<H>>,
}

impl<H: Handler> Serving<H> {
    /// Serves without a socket: only [`Self::connector`] and [`Self::service`] lead here.
    pub fn in_process(handler: H) -> Self {
        let inner =
            Inner { handler: Arc::new(handler), tasks: TaskTracker::new(), ending: Ending::default() };
        Self { listener: None, address: None, inner: Arc::new(inner) }
    }

    /// Serves on a socket too, in the clear or with TLS.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(handler: H, address: SocketAddr, tls: Option<Tls>) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address).await?);
        let mut serving = Self::in_process(handler);
        serving.address = Some(listener.local_addr()?);
        let accepting = listener::accept(Arc::downgrade(&listener), tls, Arc::clone(&serving.inner));
        serving.inner.spawn(accepting);
        serving.listener = Some(listener);
        Ok(serving)
    }

    /// The address of the socket, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What answers.
    pub fn handler(&self) -> &Arc<H> {
        &self.inner.handler
    }

    /// Makes connections without a socket.
    pub fn connector(&self) -> Connector {
        Connector::new(&self.inner)
    }

    /// Takes requests without a connection.
    pub fn service(&self) -> InProcess<H> {
        InProcess::new(&self.inner)
    }

    /// Ends it: no new connections or requests from now on, half a second for what is under way, and the rest is cut.
    /// When this returns, nothing of it runs any more.
    pub async fn stop(mut self) {
        self.listener = None;
        self.inner.ending.soon.cancel();
        self.inner.tasks.close();
        let _ = tokio::time::timeout(limits::GRACE, self.inner.tasks.wait()).await;
        self.inner.ending.now.cancel();
        self.inner.tasks.wait().await;
    }
}

impl<H> Drop for Serving<H> {
    fn drop(&mut self) {
        self.inner.ending.soon.cancel();
        self.inner.ending.now.cancel();
        self.inner.tasks.close();
    }
}
