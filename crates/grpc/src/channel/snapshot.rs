//! What calls see of a channel: who may be picked, or why nobody can be. Replaced as a whole, read without a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::meter::Meter;
use crate::connection::Link;
use crate::endpoints::Unavailable;
use crate::load::Load;
use crate::policy::{Group, Memory, Policy};
use crate::time::{CENTURY, after};

/// An endpoint that is ready, with all that a call needs of it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) link: Arc<Link>,
    pub(crate) load: Arc<Load>,
    pub(crate) meter: Meter,
}

impl Slot {
    /// Whether so many calls are with it that one more would wait in line.
    pub(crate) fn is_full(&self) -> bool {
        self.load.in_flight() as usize >= self.link.room()
    }
}

/// A channel at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) group: Group<Arc<Slot>>,
    /// Set if and only if the group is empty.
    pub(crate) unready: Option<Unready>,
}

impl Snapshot {
    /// A channel without an endpoint to call, for this reason.
    pub(crate) fn of_nobody(why: Why, policy: &Policy, memory: &Arc<Memory>) -> Self {
        let group = Group::new(Vec::new(), policy, None, Arc::clone(memory));
        Self { group, unready: Some(Unready { since: None, why, definite: false }) }
    }
}

/// Nobody can be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unready {
    /// Since when, for this kind of reason; `None` while nobody has asked for a connection.
    pub(crate) since: Option<Instant>,
    pub(crate) why: Why,
    /// There has never been an endpoint, and waiting does not help.
    pub(crate) definite: bool,
}

/// How long calls wait where waiting does not help: for a service that was created a moment ago, together with its caller.
const GRACE: Duration = Duration::from_secs(1);

impl Unready {
    /// Until when a call waits that began to at `asked`. Reasons may change, and each begins anew; the patience of a call does not.
    pub(crate) fn until(&self, asked: Instant, ready_timeout: Duration) -> Instant {
        if self.why == Why::Stopped {
            return asked;
        }
        let hopeless = self.definite && ready_timeout < CENTURY;
        let patience = if hopeless { ready_timeout.min(GRACE) } else { ready_timeout };
        after(self.since.map_or(asked, |it| it.min(asked)), patience)
    }
}

/// Why nobody can be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Why {
    /// The task of the channel is gone, and with it all of its connections.
    Stopped,
    /// The endpoints are not known yet.
    Unresolved,
    /// There is nothing to call.
    Nothing(Unavailable),
    /// Of those that are connected, all are unhealthy or ejected, or allow no streams; how many these are.
    Unfit { connected: usize },
    /// Nobody is connected; how many there are, and what the last attempt said.
    Unconnected { endpoints: usize, error: Option<Arc<str>> },
}

impl Why {
    /// Whether waiting longer for the one has anything to do with having waited for the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str(
                "the task of its channel has ended, as it does with the runtime that it was made on",
            ),
            Self::Unresolved => f.write_str("its endpoints are not known yet"),
            Self::Nothing(why) => why.fmt(f),
            Self::Unfit { connected } => {
                write!(f, "its {connected} connected endpoints are all unwell, left out, or take no calls")
            }
            Self::Unconnected { endpoints, error: None } => {
                write!(f, "none of its {endpoints} endpoints is connected yet")
            }
            Self::Unconnected { endpoints, error: Some(error) } => {
                write!(f, "none of its {endpoints} endpoints is connected: {error}")
            }
        }
    }
}
