//! One term of a leader: until when it lasts, and how it ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use tokio::sync::watch;

use super::clock::Clock;

/// How an election ended without the work being done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The lease could not be renewed in time. Others may hold it soon; the same elector may try again.
    #[error("the lease could not be renewed before the renew deadline")]
    NotRenewed {
        /// What the last attempt met with; `None` when it was under way at the deadline.
        source: Option<Arc<Error>>,
    },
    /// The lease is another's, or somebody cleared it, although it was renewed in time: somebody edited it.
    #[error("the lease was taken by {}", .by.as_deref().unwrap_or("nobody"))]
    Taken {
        /// Who holds it now.
        by: Option<Arc<str>>,
    },
    /// A coordinator wants another to lead.
    #[error("the lease is to be held by {to}")]
    HandedOver {
        /// Who is to lead.
        to: Arc<str>,
    },
    /// The caller wanted it to stop.
    #[error("the election was stopped")]
    Stopped,
}

/// Where a term stands.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// When the last successful renewal was sent. Others count from later than this.
    pub(super) renewed: Duration,
    /// When the leader stops unless it is renewed before: `renewed` and the renew deadline.
    pub(super) until: Duration,
    /// Set when it is over before that.
    pub(super) over: Option<Ended>,
    /// What the last attempt to renew met with, where it failed.
    pub(super) failure: Option<Arc<Error>>,
}

/// Says that this process leads, to the future that it leads with and to whomever that hands it on.
///
/// The future itself is dropped when the lease is lost. Tasks that it spawned are not: let them end with [`Self::lost`], or hold
/// them in a `JoinSet`, which ends them when it is dropped with the future.
#[derive(Clone)]
pub struct Led {
    term: watch::Receiver<Term>,
    clock: Clock,
    identity: Arc<str>,
    transitions: i32,
}

impl Led {
    pub(super) fn new(
        term: watch::Receiver<Term>,
        clock: Clock,
        identity: Arc<str>,
        transitions: i32,
    ) -> Self {
        Self { term, clock, identity, transitions }
    }

    /// Whether this term still lasts, by the clock: false from the renew deadline on, even where nothing has noticed yet.
    pub fn is_leading(&self) -> bool {
        let term = self.term.borrow();
        term.over.is_none() && self.clock.now() < term.until
    }

    /// Waits until this term is over: lost, stopped, or the work done.
    pub async fn lost(&self) {
        over(self.term.clone(), &self.clock).await;
    }

    /// How often the lease has changed hands. It grows with every change, so what is stamped with it can be told from what
    /// an earlier leader wrote.
    pub fn transitions(&self) -> i32 {
        self.transitions
    }

    /// Who leads: the identity of this elector.
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

impl fmt::Debug for Led {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Led")
            .field("identity", &self.identity)
            .field("transitions", &self.transitions)
            .field("is_leading", &self.is_leading())
            .finish_non_exhaustive()
    }
}

/// Waits for the end of a term, and says how it ended.
pub(super) async fn over(mut term: watch::Receiver<Term>, clock: &Clock) -> Ended {
    loop {
        let now = term.borrow_and_update().clone();
        if let Some(ended) = now.over {
            return ended;
        }
        let renewal = async {
            if term.changed().await.is_err() {
                // Nobody renews it any more; it lasts until its deadline.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = renewal => {}
            () = clock.sleep_until(now.until) => return Ended::NotRenewed { source: now.failure },
        }
    }
}
