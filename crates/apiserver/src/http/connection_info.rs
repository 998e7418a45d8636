//! The connection that a request arrived on.

use std::net::SocketAddr;

use super::body_meter::BodyMeter;

/// The connection of a request, stored in the extensions of the request. A request without one was
/// made by a function call in this process.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The server's address on the connection; `None` if the connection is an in-memory pipe.
    pub(super) local: Option<SocketAddr>,
    /// The request bodies of this connection that are in memory.
    pub(super) bodies: BodyMeter,
}

impl ConnectionInfo {
    /// Describes a new connection. Clones describe the same one.
    pub(crate) fn new(local: Option<SocketAddr>) -> Self {
        Self { local, bodies: BodyMeter::default() }
    }
}
