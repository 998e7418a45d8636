//! One endpoint as the rest of the crate sees it: who it is, how its connection stands, and its numbers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::session::Link;
use super::state::Phase;
use crate::endpoints::EndpointId;
use crate::load::Load;

/// How the connection to an endpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// No connection, and none is wanted.
    Idle,
    /// A connection is being made, or waits for its turn.
    Connecting,
    /// Connected, and open for calls.
    Ready,
    /// The last attempt failed; the next one waits.
    Backoff,
    /// Connected, but only to finish the calls that are there.
    Draining,
    /// Gone for good.
    Closed,
}

impl State {
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
    /// Where to dial next; the balancer follows the set.
    addresses: Mutex<Arc<[SocketAddr]>>,
    /// Written by the endpoint's task, read by the balancer; never on the way of a call.
    standing: Mutex<Standing>,
}

/// How an endpoint stands at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) state: State,
    /// The connection, if it is open for calls.
    pub(crate) link: Option<Arc<Link>>,
    /// When the connection of `link` was made.
    pub(crate) ready_since: Option<Instant>,
    /// What the endpoint says of itself; true unless it was asked.
    pub(crate) healthy: bool,
    /// It was asked, and has not answered yet on this connection: it takes no calls before it has.
    pub(crate) asked: bool,
    /// Why the last attempt failed or the last connection ended.
    pub(crate) error: Option<Arc<str>>,
}

impl Backend {
    /// An endpoint that nobody has connected to yet.
    pub(crate) fn new(id: EndpointId, addresses: &[SocketAddr], seed: Duration, now: u32) -> Self {
        let standing = Standing {
            state: State::Idle,
            link: None,
            ready_since: None,
            healthy: true,
            asked: false,
            error: None,
        };
        Self {
            id,
            load: Arc::new(Load::new(seed, now)),
            addresses: Mutex::new(addresses.into()),
            standing: Mutex::new(standing),
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.lock().clone()
    }

    pub(crate) fn state(&self) -> State {
        self.standing.lock().state
    }

    pub(crate) fn stand(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.standing.lock());
    }

    pub(crate) fn addresses(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&self.addresses.lock())
    }

    /// Follows the set to other addresses. False when that takes a new start, as for another endpoint under the same name: it is
    /// connected to, or just dials, an address that is no longer among them, or waits before it dials the old ones again.
    pub(crate) fn moves_to(&self, addresses: &[SocketAddr]) -> bool {
        let before = std::mem::replace(&mut *self.addresses.lock(), addresses.into());
        let standing = self.standing.lock();
        match (&standing.link, standing.state) {
            (Some(link), _) => addresses.contains(&link.peer()),
            (None, State::Connecting) => before.iter().all(|it| addresses.contains(it)),
            (None, State::Backoff) => *before == *addresses,
            _ => true,
        }
    }
}
