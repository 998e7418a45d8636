//! Attempts to acquire, renew and release the lease: the requests that [`decide`] asks for, without
//! loops or timers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use rand::Rng;
use rand::rngs::StdRng;

use super::decide::{ElectionStep, Memory, decide, decide_coordinated};
use super::election_state::ElectionState;
use super::lock::LeaseLock;
use super::record::{self, Entry};
use super::timing::ElectionTiming;

/// The maximum number of attempts of a release after conflicts, each with a new read, and the pause
/// between them (as rule RT-1).
const RELEASE_ATTEMPTS: u32 = 5;
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// A contender for the lease, with all it knows about it. It lives as long as the elector, over
/// many terms.
pub(super) struct Candidate {
    pub(super) lock: Arc<dyn LeaseLock>,
    pub(super) name: String,
    pub(super) timing: ElectionTiming,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) shared: Arc<ElectionState>,
    pub(super) memory: Memory,
    /// The lease as our own last write left it, if nothing has failed since.
    pub(super) held: Option<Lease>,
    /// Set when a write was sent and its outcome is unknown.
    pub(super) in_doubt: bool,
    /// Set when a missing lease is created only after it was missing for a whole lease duration.
    pub(super) waits_to_create: bool,
    /// The times, by our own clock, since when every read found no lease, and of the last such
    /// read.
    pub(super) missing: Option<(Duration, Duration)>,
    /// Set when a coordinator chooses the holder.
    pub(super) coordinated: bool,
    pub(super) random: StdRng,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// We hold the lease.
    Held {
        /// The time at which the write was sent. Other candidates count from a later time.
        sent: Duration,
        transitions: i32,
    },
    /// Another candidate holds the lease.
    HeldByAnother {
        holder: Option<Arc<str>>,
        /// The time at which it may be taken.
        until: Duration,
    },
    /// We hold the lease, and the coordinator wants to give it to another candidate.
    HandOver { to: Arc<str> },
    /// The outcome is unknown.
    Failed(Error),
}

impl Candidate {
    /// Attempts to acquire the lease, also from another holder.
    pub(super) async fn acquire(&mut self) -> Attempt {
        self.attempt(None).await.unwrap_or_else(Attempt::Failed)
    }

    /// Attempts to renew our lease before the deadline. It never takes the lease from another
    /// holder.
    pub(super) async fn renew(&mut self, deadline: Duration) -> Attempt {
        if let Some(lease) = self.held.take() {
            let lease = record::renewed(lease, &self.entry());
            match self.write(Some(deadline), lease, LeaseLock::update).await {
                Ok(held) => return held,
                Err(error) => {
                    self.shared.meter.slowpath();
                    tracing::debug!(lease = self.name, %error, "cannot renew the lease, rereading it");
                }
            }
        }
        self.attempt(Some(deadline)).await.unwrap_or_else(Attempt::Failed)
    }

    /// Releases the lease, if we hold it on the server and not only in our memory (rule LE-4).
    ///
    /// A candidate that took it meanwhile keeps it: both the holder that is read and the version of
    /// the write ensure that.
    pub(super) async fn release(&mut self) {
        self.held = None;
        let give_up = self.shared.clock.now().saturating_add(self.timing.renew_deadline);
        let mut outcome = self.try_release(give_up).await;
        for _ in 1..RELEASE_ATTEMPTS {
            if !outcome.as_ref().is_err_and(Error::is_conflict) {
                break;
            }
            tokio::time::sleep(RELEASE_PAUSE).await;
            outcome = self.try_release(give_up).await;
        }
        match outcome {
            Ok(true) => tracing::info!(lease = self.name, "released the lease"),
            Ok(false) => {
                tracing::debug!(lease = self.name, "another candidate holds the lease, nothing to release")
            }
            Err(error) => {
                tracing::warn!(lease = self.name, %error, "cannot release the lease; it will expire")
            }
        }
    }

    /// Returns the time to wait before the next attempt: between half a retry period and a whole
    /// one, so that candidates that started together drift apart.
    pub(super) fn pause(&mut self) -> Duration {
        self.timing.retry_period.mul_f64(self.random.random_range(0.5..=1.0))
    }

    async fn try_release(&mut self, give_up: Duration) -> Result<bool, Error> {
        let lock = Arc::clone(&self.lock);
        let fetched = self.bounded(Some(give_up), lock.get(&self.name)).await?;
        let Some(lease) = fetched.filter(|it| self.memory.is_ours(it)) else {
            self.in_doubt = false;
            return Ok(false);
        };
        let lease = record::released(lease, self.shared.clock.wall());
        let written = self.bounded(Some(give_up), lock.update(lease)).await?;
        self.in_doubt = false;
        self.saw(Some(&written));
        Ok(true)
    }

    /// Reads, decides, and writes. A leader passes its deadline.
    async fn attempt(&mut self, deadline: Option<Duration>) -> Result<Attempt, Error> {
        let lock = Arc::clone(&self.lock);
        let observed = self.bounded(deadline, lock.get(&self.name)).await?;
        let now = self.shared.clock.now();
        let decide = if self.coordinated { decide_coordinated } else { decide };
        let step = decide(&self.memory, observed.as_ref(), now);
        self.saw(observed.as_ref());
        let holder = || observed.as_ref().and_then(record::holder).map(Arc::from);
        let of_our_identity =
            observed.as_ref().filter(|it| record::holder(it) == Some(self.memory.identity()));
        if of_our_identity.is_some_and(|it| !self.memory.is_ours(it)) {
            tracing::warn!(
                lease = self.name,
                identity = self.memory.identity(),
                "the lease is held under this process's identity by another process, or by an earlier one that exited without a release"
            );
        }
        match step {
            ElectionStep::Wait { until } => Ok(Attempt::HeldByAnother { holder: holder(), until }),
            ElectionStep::HandOver => {
                let to = observed.as_ref().and_then(record::preferred).unwrap_or_default();
                Ok(Attempt::HandOver { to: to.into() })
            }
            // A leader recreates its own lease at once; a standby may see a lease missing whose
            // holder does not know yet that it was deleted, and the standby's memory of it may be
            // old.
            ElectionStep::Create
                if deadline.is_none() && self.waits_to_create && now < self.may_create(now) =>
            {
                Ok(Attempt::HeldByAnother { holder: None, until: self.may_create(now) })
            }
            ElectionStep::Take if deadline.is_some() => {
                Ok(Attempt::HeldByAnother { holder: holder(), until: now })
            }
            ElectionStep::Create => {
                let lease = record::created(&self.name, &self.entry(), self.memory.next_transitions());
                self.write(deadline, lease, LeaseLock::create).await
            }
            ElectionStep::Renew => {
                let lease = record::renewed(observed.unwrap_or_default(), &self.entry());
                self.write(deadline, lease, LeaseLock::update).await
            }
            ElectionStep::Take => {
                let lease = record::taken(observed.unwrap_or_default(), &self.entry());
                self.write(deadline, lease, LeaseLock::update).await
            }
        }
    }

    async fn write(
        &mut self,
        deadline: Option<Duration>,
        lease: Lease,
        send: for<'l> fn(&'l (dyn LeaseLock + 'static), Lease) -> BoxFuture<'l, Result<Lease, Error>>,
    ) -> Result<Attempt, Error> {
        let lock = Arc::clone(&self.lock);
        let sent = self.shared.clock.now();
        self.in_doubt = true;
        let outcome = self.bounded(deadline, send(&*lock, lease)).await;
        match &outcome {
            Ok(_) => self.in_doubt = false,
            // A rejected request was not carried out. One that failed, or was sent twice, may have
            // been.
            Err(Error::Refused(status)) if status.code < 500 => self.in_doubt = false,
            Err(_) => {}
        }
        let written = outcome?;
        self.saw(Some(&written));
        let transitions = record::transitions(&written);
        self.held = Some(written);
        Ok(Attempt::Held { sent, transitions })
    }

    /// Returns the time at which a missing lease may be created. By then its last holder has
    /// recreated it or has stopped: it counts its renew deadline from a renewal before the
    /// deletion, and a lease duration is longer than that on any two clocks within the tolerated
    /// skew.
    fn may_create(&self, now: Duration) -> Duration {
        let since = self.missing.map_or(now, |(since, _)| since);
        since.saturating_add(self.timing.lease_duration)
    }

    fn saw(&mut self, lease: Option<&Lease>) {
        let now = self.shared.clock.now();
        // During a longer time without a read, the lease may have been created and deleted once
        // more.
        let lasting = self.timing.retry_period.saturating_mul(2);
        self.missing = match (lease, self.missing) {
            (Some(_), _) => None,
            (None, Some((since, last))) if now.saturating_sub(last) <= lasting => Some((since, now)),
            (None, _) => Some((now, now)),
        };
        self.memory.remember(lease, self.shared.clock.now());
        self.shared.saw(lease.and_then(record::holder));
    }

    /// Awaits a request, within the request timeout and the deadline.
    async fn bounded<T>(
        &self,
        deadline: Option<Duration>,
        request: BoxFuture<'_, Result<T, Error>>,
    ) -> Result<T, Error> {
        let now = self.shared.clock.now();
        let longest = self.timing.request_timeout();
        let limit = deadline.map_or(longest, |it| it.saturating_sub(now).min(longest));
        tokio::select! {
            biased;
            answer = request => answer,
            () = self.shared.clock.sleep_until(now.saturating_add(limit)) => Err(Error::TimedOut(limit)),
        }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            identity: self.memory.identity(),
            instance: self.memory.instance_name(),
            lease_seconds: self.timing.lease_seconds(),
            labels: &self.labels,
            now: self.shared.clock.wall(),
        }
    }
}
