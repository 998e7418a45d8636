//! One endpoint for the rest of the crate: its identity, the state of its connection, and its load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::session::Link;
use super::state::Phase;
use crate::endpoints::EndpointId;
use crate::load::Load;

/// The state of the connection to an endpoint.
///
/// ```
/// use dogwatch_grpc::ConnectionState;
///
/// fn is_trying(state: ConnectionState) -> bool {
///     matches!(state, ConnectionState::Connecting | ConnectionState::Backoff)
/// }
/// assert!(is_trying(ConnectionState::Backoff) && !is_trying(ConnectionState::Ready));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// There is no connection, and none is wanted.
    Idle,
    /// A connection is being opened, or waits for its turn.
    Connecting,
    /// Connected, and open for calls.
    Ready,
    /// The last attempt failed; the next one waits for the backoff.
    Backoff,
    /// Connected, but only to finish the open calls.
    Draining,
    /// Closed for good.
    Closed,
}

impl ConnectionState {
    pub(crate) fn of(phase: Phase) -> Self {
        match phase {
            Phase::Idle => Self::Idle,
            Phase::Connecting { .. } => Self::Connecting,
            Phase::Ready { .. } => Self::Ready,
            Phase::Backoff { .. } => Self::Backoff,
            Phase::Draining { .. } => Self::Draining,
            Phase::Closed => Self::Closed,
        }
    }
}

/// An endpoint across sets and connections.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) id: EndpointId,
    pub(crate) load: Arc<Load>,
    /// The addresses to dial next; updated by the balancer.
    addresses: Mutex<Arc<[SocketAddr]>>,
    /// Written by the endpoint's task, read by the balancer; never locked by a call.
    status: Mutex<BackendStatus>,
}

/// The status of an endpoint at one moment.
#[derive(Debug, Clone)]
pub(crate) struct BackendStatus {
    pub(crate) state: ConnectionState,
    /// The connection, if it is open for calls.
    pub(crate) link: Option<Arc<Link>>,
    /// The time at which the connection of `link` was opened.
    pub(crate) ready_since: Option<Instant>,
    /// The health that the endpoint reports; true if health checking is off.
    pub(crate) healthy: bool,
    /// Set while the health check of this connection has no answer yet: until then the endpoint
    /// gets no calls.
    pub(crate) health_pending: bool,
    /// The error of the last attempt or of the last connection.
    pub(crate) error: Option<Arc<str>>,
}

impl Backend {
    /// Creates an endpoint without a connection.
    pub(crate) fn new(id: EndpointId, addresses: &[SocketAddr], seed: Duration, now: u32) -> Self {
        let status = BackendStatus {
            state: ConnectionState::Idle,
            link: None,
            ready_since: None,
            healthy: true,
            health_pending: false,
            error: None,
        };
        Self {
            id,
            load: Arc::new(Load::new(seed, now)),
            addresses: Mutex::new(addresses.into()),
            status: Mutex::new(status),
        }
    }

    pub(crate) fn status(&self) -> BackendStatus {
        self.status.lock().clone()
    }

    pub(crate) fn state(&self) -> ConnectionState {
        self.status.lock().state
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut BackendStatus)) {
        change(&mut self.status.lock());
    }

    pub(crate) fn addresses(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&self.addresses.lock())
    }

    /// Replaces the addresses. Returns false if the endpoint must be started anew, like a different
    /// endpoint with the same id: it is connected to, or dialling, an address that was removed, or
    /// waits for the backoff of other addresses.
    pub(crate) fn update_addresses(&self, addresses: &[SocketAddr]) -> bool {
        let before = std::mem::replace(&mut *self.addresses.lock(), addresses.into());
        let status = self.status.lock();
        match (&status.link, status.state) {
            (Some(link), _) => addresses.contains(&link.peer()),
            (None, ConnectionState::Connecting) => before.iter().all(|it| addresses.contains(it)),
            (None, ConnectionState::Backoff) => *before == *addresses,
            _ => true,
        }
    }
}
