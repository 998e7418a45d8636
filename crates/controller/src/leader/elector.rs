//! The elector: waits for the lease, runs a future while it holds it, and drops that future before
//! another candidate may lead.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube_core::Resource;
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard, watch};
use tokio::task::JoinSet;

use super::candidate::{Attempt, Candidate};
use super::election_state::{ElectionState, Unhealthy};
use super::term::{ElectionEnded, Leadership, Term, over};
use super::timing::ElectionTiming;
use crate::events::{EventRecorder, NewEvent};

/// A participant in the election for one Lease. Clones refer to the same elector.
///
/// A process may have many, each for a lease of its own, over one client.
///
/// ```
/// use dogwatch_controller::leader::LeaderElector;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let elector = LeaderElector::builder(client, "my-controller").build()?;
/// elector
///     .run_while_leading(|led| async move {
///         println!("{} leads, the lease changed hands {} times", led.identity(), led.transitions());
///         // The work. It is dropped when the lease is lost.
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderElector {
    pub(super) shared: Arc<ElectionState>,
    /// Held by the current run until it has released the lease, so that runs are serialised.
    pub(super) runs: Arc<Mutex<()>>,
    /// Held by the task that renews the lease.
    pub(super) candidate: Arc<Mutex<Candidate>>,
    pub(super) timing: ElectionTiming,
    pub(super) identity: Arc<str>,
    pub(super) release: bool,
    pub(super) events: Option<EventRecorder>,
}

impl LeaderElector {
    /// Waits until this elector holds the lease, then runs the future that `lead` returns for as
    /// long as it does.
    ///
    /// Failures while waiting are logged and retried for ever. While the future runs, a separate
    /// task renews the lease, so that on a multi-threaded runtime a long computation does not lose
    /// it. When the lease is lost, the future is dropped at once, and at the renew deadline at the
    /// latest, which is before another candidate may lead. Only a future that does not yield can
    /// overrun; [`Self::health`] then reports an error, and the future itself can check
    /// [`Leadership::is_leading`]. When the future completes, the lease is released and the output
    /// returned. For an orderly stop, let the future complete.
    ///
    /// Runs are serialised: a second call waits until the first has ended. Dropping this future
    /// drops the inner one and stops the renewals; the lease then expires by itself.
    ///
    /// # Errors
    /// Returns how the lease was lost. The elector may run again.
    pub async fn run_while_leading<F: Future>(
        &self,
        lead: impl FnOnce(Leadership) -> F,
    ) -> Result<F::Output, ElectionEnded> {
        self.run_until(std::future::pending(), lead).await
    }

    /// Like [`Self::run_while_leading`], but stops when `stop` resolves: the future is dropped, and
    /// then the lease is released.
    ///
    /// To stop only a standby and let a leader finish in its own time, keep `stop` pending while
    /// [`Self::is_leader`]; it is polled by the same task that begins to lead, so it never misses
    /// that moment.
    ///
    /// # Errors
    /// Returns how the lease was lost, or [`ElectionEnded::Stopped`].
    pub async fn run_until<F: Future>(
        &self,
        stop: impl Future<Output = ()>,
        lead: impl FnOnce(Leadership) -> F,
    ) -> Result<F::Output, ElectionEnded> {
        let mut stop = pin!(stop);
        let _run = tokio::select! {
            biased;
            () = &mut stop => return Err(ElectionEnded::Stopped),
            run = self.runs.lock() => run,
        };
        let acquired = tokio::select! {
            biased;
            () = &mut stop => None,
            acquired = self.acquire() => Some(acquired),
        };
        let Some((candidate, term, transitions)) = acquired else {
            // While another run holds the candidate, this one has sent nothing, and the lease and
            // its doubts are the other run's. Waiting for it here would make the stop wait as well.
            if let Ok(candidate) = self.candidate.try_lock() {
                self.release(candidate, true).await;
            }
            return Err(ElectionEnded::Stopped);
        };
        let leading = self.shared.lead(term);
        let lease = candidate.held.as_ref().map(|it| it.object_ref(&()));
        self.record(lease.as_ref(), "BecomeLeader", "became leader");
        let mut renewing = JoinSet::new();
        renewing.spawn(renew(candidate, leading.term.clone()));
        // Lets the renewals start before work that may not yield.
        tokio::task::yield_now().await;
        let term = leading.term.subscribe();
        let led =
            Leadership::new(term.clone(), self.shared.clock.clone(), Arc::clone(&self.identity), transitions);
        let outcome = {
            let check = led.clone();
            let mut work = pin!(lead(led));
            // Work that is polled again after the deadline makes no progress, even if no timer has
            // fired yet.
            let work = poll_fn(
                |context| if check.is_leading() { work.as_mut().poll(context) } else { Poll::Pending },
            );
            tokio::select! {
                biased;
                ended = over(term, &self.shared.clock) => Err(ended),
                () = &mut stop => Err(ElectionEnded::Stopped),
                output = work => Ok(output),
            }
        };
        renewing.shutdown().await;
        drop(leading);
        self.record(lease.as_ref(), "StopLeading", "stopped leading");
        match &outcome {
            Ok(_) | Err(ElectionEnded::Stopped | ElectionEnded::HandedOver { .. }) => {
                self.release(self.candidate.lock().await, false).await;
            }
            Err(ended) => tracing::warn!(identity = %self.identity, %ended, "stopped leading"),
        }
        outcome
    }

    /// Returns true if this elector leads: a future runs, and its renew deadline has not passed.
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// Returns the last observed holder of the lease; `None` before the first read and if the lease
    /// has no holder.
    pub fn leader(&self) -> Option<Arc<str>> {
        self.shared.leader()
    }

    /// Returns a receiver of the holder of the lease. It is updated every retry period while the
    /// election runs.
    ///
    /// It is tokio's receiver because the newest value is all there is to read, and a crate that
    /// runs on tokio only hides nothing by wrapping it. An informer's
    /// [`HealthWatch`](dogwatch_informer::HealthWatch) is a type of its own because it combines
    /// several receivers, and its changes are a stream because each of them counts.
    pub fn leaders(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.shared.leaders()
    }

    /// Returns the identity of this elector in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Checks that a leader whose lease has expired has stopped (rule LE-5). Intended for a
    /// liveness probe.
    ///
    /// # Errors
    /// Returns an error if a future that should have been dropped still runs when the lease has
    /// been expired for longer than `tolerance`.
    pub fn health(&self, tolerance: Duration) -> Result<(), Unhealthy> {
        self.shared.health(tolerance)
    }

    /// Attempts until this elector holds the lease.
    async fn acquire(&self) -> (OwnedMutexGuard<Candidate>, Term, i32) {
        let mut candidate = Arc::clone(&self.candidate).lock_owned().await;
        let clock = &self.shared.clock;
        loop {
            let mut next = clock.now().saturating_add(candidate.pause());
            match candidate.acquire().await {
                Attempt::Held { sent, transitions } => {
                    let until = sent.saturating_add(self.timing.renew_deadline);
                    if clock.now() < until {
                        tracing::info!(identity = %self.identity, transitions, "became leader");
                        let term = Term { renewed: sent, until, over: None, failure: None };
                        return (candidate, term, transitions);
                    }
                    // The response took too long to be usable. We hold the lease, so the next
                    // attempt renews it.
                    next = clock.now();
                }
                Attempt::HeldByAnother { until, .. } => next = next.min(until),
                // The term would end before it has begun.
                Attempt::HandOver { .. } => {}
                // Losing the race to another candidate is the normal case of an election.
                Attempt::Failed(error) if error.is_conflict() || error.is_already_exists() => {
                    tracing::debug!(identity = %self.identity, %error, "another candidate wrote the lease first");
                }
                Attempt::Failed(error) => {
                    tracing::warn!(identity = %self.identity, %error, "cannot acquire the lease, retrying");
                }
            }
            clock.sleep_until(next).await;
        }
    }

    /// Records an event about the lease, if a recorder is set.
    fn record(&self, lease: Option<&ObjectReference>, action: &str, what: &str) {
        if let (Some(events), Some(lease)) = (&self.events, lease) {
            let note =
                NewEvent::normal("LeaderElection", action).message(format!("{} {what}", self.identity));
            events.record_for(lease.clone(), note);
        }
    }

    async fn release(&self, mut candidate: MutexGuard<'_, Candidate>, only_in_doubt: bool) {
        candidate.held = None;
        if self.release && (candidate.in_doubt || !only_in_doubt) {
            candidate.release().await;
        }
    }
}

/// Renews the lease every retry period until the term is over, and publishes the outcome in the
/// term.
async fn renew(mut candidate: OwnedMutexGuard<Candidate>, term: watch::Sender<Term>) {
    let clock = candidate.shared.clock.clone();
    let timing = candidate.timing;
    let mut last = term.borrow().renewed;
    loop {
        clock.sleep_until(last.saturating_add(timing.retry_period)).await;
        last = clock.now();
        let deadline = term.borrow().until;
        match candidate.renew(deadline).await {
            Attempt::Held { sent, .. } => term.send_modify(|term| {
                term.renewed = sent;
                term.until = sent.saturating_add(timing.renew_deadline);
                term.failure = None;
            }),
            Attempt::HeldByAnother { holder, .. } => {
                term.send_modify(|term| term.over = Some(ElectionEnded::Taken { by: holder }));
                return;
            }
            Attempt::HandOver { to } => {
                term.send_modify(|term| term.over = Some(ElectionEnded::HandedOver { to }));
                return;
            }
            Attempt::Failed(error) => {
                tracing::warn!(%error, "cannot renew the lease");
                term.send_modify(|term| term.failure = Some(Arc::new(error)));
            }
        }
        if term.borrow().until <= clock.now() {
            return;
        }
    }
}

impl fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElector")
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .field("leader", &self.leader())
            .field("is_leader", &self.is_leader())
            .finish_non_exhaustive()
    }
}
