//! What a request knows of the connection it came over.

use std::net::SocketAddr;

use super::body_meter::BodyMeter;

/// The connection of a request, among the extensions of the request. A request without one was made
/// by a call in this process.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The server's own address on it; none where the connection is a pipe in this process.
    pub(super) local: Option<SocketAddr>,
    /// The request bodies of this connection that are in memory.
    pub(super) bodies: BodyMeter,
}

impl ConnectionInfo {
    /// Describes a new connection. Clones are the same one.
    pub fn new(local: Option<SocketAddr>) -> Self {
        Self { local, bodies: BodyMeter::default() }
    }
}
