//! The state of an election that the rest of the program sees: the leader, our own leadership, and
//! its health.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::clock::Clock;
use super::metrics::ElectionMetrics;
use super::term::{ElectionEnded, Term};

/// An error for a leader that should have stopped and has not: its future does not yield, so it
/// cannot be dropped.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::LeaderElector;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let elector = LeaderElector::builder(client, "my-controller").build()?;
/// // In a liveness probe:
/// match elector.health(Duration::from_secs(20)) {
///     Ok(()) => println!("ok"),
///     Err(unhealthy) => return Err(unhealthy.into()), // restart the process
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease expired {since:?} ago and the leader's work is still running")]
#[non_exhaustive]
pub struct Unhealthy {
    /// The time since the lease expired.
    pub since: Duration,
}

/// The callback for a new leader.
pub(super) type NewLeaderCallback = Box<dyn Fn(&str) + Send + Sync>;

/// The state of an election. Read by all handles, written by the election.
pub(super) struct ElectionState {
    pub(super) clock: Clock,
    pub(super) meter: ElectionMetrics,
    lease_duration: Duration,
    leader: watch::Sender<Option<Arc<str>>>,
    on_new_leader: Option<NewLeaderCallback>,
    /// Present as long as a future leads: from before its first poll until it is dropped.
    term: Mutex<Option<watch::Receiver<Term>>>,
}

/// Publishes a term, and ends it when dropped. It must be dropped after the future that leads.
pub(super) struct Leading {
    shared: Arc<ElectionState>,
    pub(super) term: watch::Sender<Term>,
}

impl ElectionState {
    pub(super) fn new(
        clock: Clock,
        meter: ElectionMetrics,
        lease_duration: Duration,
        on_new_leader: Option<NewLeaderCallback>,
    ) -> Self {
        let leader = watch::Sender::new(None);
        Self { clock, meter, lease_duration, leader, on_new_leader, term: Mutex::new(None) }
    }

    /// Records the observed holder of the lease, if any.
    pub(super) fn saw(&self, holder: Option<&str>) {
        let changed = self.leader.send_if_modified(|leader| {
            let changed = leader.as_deref() != holder;
            if changed {
                *leader = holder.map(Arc::from);
            }
            changed
        });
        if let (true, Some(holder), Some(callback)) = (changed, holder, &self.on_new_leader) {
            callback(holder);
        }
    }

    pub(super) fn leader(&self) -> Option<Arc<str>> {
        self.leader.borrow().clone()
    }

    pub(super) fn leaders(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.leader.subscribe()
    }

    pub(super) fn is_leader(&self) -> bool {
        let term = self.term();
        term.is_some_and(|term| term.over.is_none() && self.clock.now() < term.until)
    }

    /// Checks that a leader has stopped when it had to (rule LE-5).
    pub(super) fn health(&self, tolerance: Duration) -> Result<(), Unhealthy> {
        let Some(term) = self.term() else { return Ok(()) };
        let expiry = term.renewed.saturating_add(self.lease_duration);
        let now = self.clock.now();
        if now <= expiry.saturating_add(tolerance) {
            return Ok(());
        }
        Err(Unhealthy { since: now.saturating_sub(expiry) })
    }

    /// Begins a term.
    pub(super) fn lead(self: &Arc<Self>, term: Term) -> Leading {
        let term = watch::Sender::new(term);
        *self.term.lock() = Some(term.subscribe());
        self.meter.leads(true);
        Leading { shared: Arc::clone(self), term }
    }

    fn term(&self) -> Option<Term> {
        let receiver = self.term.lock().clone();
        receiver.map(|it| it.borrow().clone())
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.term.send_modify(|term| {
            term.over.get_or_insert(ElectionEnded::Stopped);
        });
        *self.shared.term.lock() = None;
        self.shared.meter.leads(false);
    }
}

impl fmt::Debug for ElectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectionState")
            .field("leader", &self.leader())
            .field("is_leader", &self.is_leader())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Arc<ElectionState> {
        Arc::new(ElectionState::new(
            Clock::new(),
            ElectionMetrics::new("lock"),
            Duration::from_secs(15),
            None,
        ))
    }

    fn term() -> Term {
        Term { renewed: Duration::ZERO, until: Duration::from_secs(10), over: None, failure: None }
    }

    /// The upstream table of the health checker: not leading, leading, expired within and beyond
    /// the tolerance.
    #[tokio::test(start_paused = true)]
    async fn le_5_health_checker() {
        let shared = shared();
        let tolerance = Duration::from_secs(5);
        assert_eq!(shared.health(tolerance), Ok(()), "a standby is healthy");
        let leading = shared.lead(term());
        assert_eq!(shared.health(tolerance), Ok(()));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(shared.health(tolerance), Ok(()), "expired, within the tolerance");
        tokio::time::advance(Duration::from_secs(1)).await;
        let late = shared.health(tolerance).expect_err("beyond it");
        assert_eq!(late.to_string(), "the lease expired 6s ago and the leader's work is still running");
        leading.term.send_modify(|term| term.renewed = Duration::from_secs(21));
        assert_eq!(shared.health(tolerance), Ok(()), "renewed");
        drop(leading);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(shared.health(tolerance), Ok(()), "a leader that has stopped is healthy");
    }

    #[tokio::test(start_paused = true)]
    async fn is_leader_is_false_from_the_deadline_on_even_before_a_timer_fires() {
        let shared = shared();
        let _leading = shared.lead(term());
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(shared.is_leader());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!shared.is_leader());
    }

    #[tokio::test]
    async fn le_3_the_callback_runs_once_for_each_new_leader() {
        let called = Arc::new(Mutex::new(Vec::new()));
        let callback = {
            let called = Arc::clone(&called);
            Box::new(move |it: &str| called.lock().push(it.to_owned()))
        };
        let shared = ElectionState::new(
            Clock::new(),
            ElectionMetrics::new("lock"),
            Duration::from_secs(15),
            Some(callback),
        );
        let mut leaders = shared.leaders();
        for holder in [Some("a"), Some("a"), None, Some("b"), Some("b")] {
            shared.saw(holder);
        }
        assert_eq!(*called.lock(), ["a", "b"]);
        assert_eq!(leaders.borrow_and_update().as_deref(), Some("b"));
    }
}
