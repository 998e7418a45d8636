//! The connection that a request arrived on.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use parking_lot::Mutex;

use super::body_meter::BodyMeter;

/// The connection of a request, stored in the extensions of the request. A request without one was
/// made by a function call in this process.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The server's address on the connection; `None` if the connection is an in-memory pipe.
    pub(super) local: Option<SocketAddr>,
    /// The request bodies of this connection that are in memory.
    pub(super) bodies: BodyMeter,
    /// The use of the connection after it has switched protocols.
    pub(super) after_switch: AfterSwitch,
}

impl ConnectionInfo {
    /// Describes a new connection. Clones describe the same one.
    pub(crate) fn new(local: Option<SocketAddr>) -> Self {
        Self { local, bodies: BodyMeter::default(), after_switch: AfterSwitch::default() }
    }

    /// Takes the future to run when the connection has switched protocols, if it has. It belongs
    /// into the task of the connection, so that it ends with the server.
    pub(crate) fn take_after_switch(&self) -> Option<BoxFuture<'static, ()>> {
        self.after_switch.0.lock().take()
    }
}

/// The slot for the future that uses a connection after it has switched protocols. Clones share it.
#[derive(Clone, Default)]
pub(super) struct AfterSwitch(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl AfterSwitch {
    /// Sets the future. A connection that switches protocols has no other request.
    pub(super) fn set(&self, future: impl Future<Output = ()> + Send + 'static) {
        *self.0.lock() = Some(Box::pin(future));
    }
}

impl fmt::Debug for AfterSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterSwitch").finish_non_exhaustive()
    }
}
