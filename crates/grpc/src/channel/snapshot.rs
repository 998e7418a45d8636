//! The snapshot of a channel for calls: the endpoints to pick from, or the reason why there are
//! none. Replaced as a whole, read without a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::metrics::EndpointMetrics;
use crate::connection::Link;
use crate::endpoints::Unavailable;
use crate::load::Load;
use crate::policy::{Group, Policy, PolicyState};
use crate::time::{CENTURY, after};

/// A ready endpoint, with everything that a call needs.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) link: Arc<Link>,
    pub(crate) load: Arc<Load>,
    pub(crate) metrics: EndpointMetrics,
}

impl Slot {
    /// Returns true if one more call would be queued.
    pub(crate) fn is_full(&self) -> bool {
        self.load.in_flight() as usize >= self.link.max_calls()
    }
}

/// The state of a channel at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) group: Group<Arc<Slot>>,
    /// Set if and only if the group is empty.
    pub(crate) unready: Option<Unready>,
}

impl Snapshot {
    /// Creates a snapshot without endpoints to call, for this reason.
    pub(crate) fn without_endpoints(
        why: UnreadyReason,
        policy: &Policy,
        policy_state: &Arc<PolicyState>,
    ) -> Self {
        let group = Group::new(Vec::new(), policy, None, Arc::clone(policy_state));
        Self { group, unready: Some(Unready { since: None, why, definite: false }) }
    }
}

/// The state in which no endpoint can be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unready {
    /// The time since which this kind of reason holds; `None` while no connection was asked for.
    pub(crate) since: Option<Instant>,
    pub(crate) why: UnreadyReason,
    /// True if there has never been an endpoint, and waiting does not help.
    pub(crate) definite: bool,
}

/// The time for which calls wait although waiting does not help: for a service that was created a
/// moment ago, together with its caller.
const GRACE: Duration = Duration::from_secs(1);

impl Unready {
    /// Returns the time until which a call waits that started to wait at `asked`. A new kind of
    /// reason restarts `since`; the limit of a call stays.
    pub(crate) fn until(&self, asked: Instant, ready_timeout: Duration) -> Instant {
        if self.why == UnreadyReason::Stopped {
            return asked;
        }
        let definite = self.definite && ready_timeout < CENTURY;
        let limit = if definite { ready_timeout.min(GRACE) } else { ready_timeout };
        after(self.since.map_or(asked, |it| it.min(asked)), limit)
    }
}

/// The reason why no endpoint can be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UnreadyReason {
    /// The task of the channel has ended, and with it all of its connections.
    Stopped,
    /// The endpoints are not known yet.
    Unresolved,
    /// There is no endpoint to call.
    Nothing(Unavailable),
    /// The connected endpoints, of this number, are all unhealthy or ejected, or allow no streams.
    Unfit { connected: usize },
    /// None of the endpoints, of this number, is connected; with the last error.
    Unconnected { endpoints: usize, error: Option<Arc<str>> },
}

impl UnreadyReason {
    /// Returns true if both are the same kind of reason, so that the time waited for one counts for
    /// the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for UnreadyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str(
                "the task of its channel has ended, together with the runtime that the channel was built on",
            ),
            Self::Unresolved => f.write_str("its endpoints are not known yet"),
            Self::Nothing(why) => why.fmt(f),
            Self::Unfit { connected } => {
                write!(
                    f,
                    "its {connected} connected endpoints are all unhealthy, ejected, or accept no calls"
                )
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
