//! Attempts to get, keep and give back the lease: the requests that [`decide`] asks for, and nothing that lasts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use rand::Rng;
use rand::rngs::StdRng;

use super::decide::{Memory, Step, decide, decide_coordinated};
use super::lock::LeaseLock;
use super::record::{self, Entry};
use super::shared::Shared;
use super::timing::ElectionTiming;

/// How often a release is tried against conflicts, each after a new read, and how far apart (as rule RT-1).
const RELEASE_ATTEMPTS: u32 = 5;
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// One who wants the lease, with all it knows about it. It lives as long as the elector, over many terms.
pub(super) struct Candidate {
    pub(super) lock: Arc<dyn LeaseLock>,
    pub(super) name: String,
    pub(super) timing: ElectionTiming,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) shared: Arc<Shared>,
    pub(super) memory: Memory,
    /// The lease as our own last write left it, where nothing has failed since.
    pub(super) held: Option<Lease>,
    /// A write was sent and it is not known whether it was carried out.
    pub(super) in_doubt: bool,
    /// Whether a lease that is missing is made only after it was missing for a whole lease duration.
    pub(super) waits_to_create: bool,
    /// Since when every look found no lease, and when the last one was, by our own clock.
    pub(super) missing: Option<(Duration, Duration)>,
    /// Whose the lease is, a coordinator decides.
    pub(super) coordinated: bool,
    pub(super) random: StdRng,
}

/// What came of an attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The lease is ours.
    Held {
        /// When the write was sent that made it so. Others count from a later time.
        sent: Duration,
        transitions: i32,
    },
    /// It is not.
    Anothers {
        holder: Option<Arc<str>>,
        /// When it may be taken.
        until: Duration,
    },
    /// It is ours, and is to be another's.
    Promised { to: Arc<str> },
    /// It is not known.
    Failed(Error),
}

impl Candidate {
    /// Tries to get the lease, whoever had it.
    pub(super) async fn acquire(&mut self) -> Attempt {
        self.attempt(None).await.unwrap_or_else(Attempt::Failed)
    }

    /// Tries to keep the lease, which is ours, before the deadline. It is never taken from another in here.
    pub(super) async fn renew(&mut self, deadline: Duration) -> Attempt {
        if let Some(lease) = self.held.take() {
            let lease = record::renewed(lease, &self.entry());
            match self.write(Some(deadline), lease, LeaseLock::update).await {
                Ok(held) => return held,
                Err(error) => {
                    self.shared.meter.slowpath();
                    tracing::debug!(lease = self.name, %error, "cannot renew the lease, reading it again");
                }
            }
        }
        self.attempt(Some(deadline)).await.unwrap_or_else(Attempt::Failed)
    }

    /// Gives the lease back, if it is ours on the server and not only in our memory (rule LE-4).
    ///
    /// Another that took it meanwhile keeps it: both the holder that is read and the version of the write see to that.
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
            Ok(false) => tracing::debug!(lease = self.name, "the lease is not ours, nothing to release"),
            Err(error) => {
                tracing::warn!(lease = self.name, %error, "cannot release the lease, it will expire")
            }
        }
    }

    /// How long to wait before the next attempt: from half a retry period to a whole one, so that candidates that began
    /// together do not stay together.
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

    /// Reads, decides, and writes. Whoever leads already has a deadline.
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
                "another process holds the lease under the identity of this one, or held it until it ended without a release"
            );
        }
        match step {
            Step::Wait { until } => Ok(Attempt::Anothers { holder: holder(), until }),
            Step::HandOver => {
                let to = observed.as_ref().and_then(record::preferred).unwrap_or_default();
                Ok(Attempt::Promised { to: to.into() })
            }
            // A leader makes its own lease again at once; all others may be looking at the place of a lease whose holder does not
            // know yet that it is gone, and what they remember of it may be old.
            Step::Create if deadline.is_none() && self.waits_to_create && now < self.may_create(now) => {
                Ok(Attempt::Anothers { holder: None, until: self.may_create(now) })
            }
            Step::Take if deadline.is_some() => Ok(Attempt::Anothers { holder: holder(), until: now }),
            Step::Create => {
                let lease = record::created(&self.name, &self.entry(), self.memory.next_transitions());
                self.write(deadline, lease, LeaseLock::create).await
            }
            Step::Renew => {
                let lease = record::renewed(observed.unwrap_or_default(), &self.entry());
                self.write(deadline, lease, LeaseLock::update).await
            }
            Step::Take => {
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
            // A server that refuses has not carried it out. One that failed, or was asked twice, may have.
            Err(Error::Refused(status)) if status.code < 500 => self.in_doubt = false,
            Err(_) => {}
        }
        let written = outcome?;
        self.saw(Some(&written));
        let transitions = record::transitions(&written);
        self.held = Some(written);
        Ok(Attempt::Held { sent, transitions })
    }

    /// When a lease that is missing may be made. Its last holder has made it again by then, or stopped: it counts a renew deadline
    /// from a renewal that was before the deletion, and a lease duration is longer than that on any two clocks that the
    /// election allows.
    fn may_create(&self, now: Duration) -> Duration {
        let since = self.missing.map_or(now, |(since, _)| since);
        since.saturating_add(self.timing.lease_duration)
    }

    fn saw(&mut self, lease: Option<&Lease>) {
        let now = self.shared.clock.now();
        // In a longer time without a look, the lease may have been made and deleted once more.
        let lasting = self.timing.retry_period.saturating_mul(2);
        self.missing = match (lease, self.missing) {
            (Some(_), _) => None,
            (None, Some((since, last))) if now.saturating_sub(last) <= lasting => Some((since, now)),
            (None, _) => Some((now, now)),
        };
        self.memory.remember(lease, self.shared.clock.now());
        self.shared.saw(lease.and_then(record::holder));
    }

    /// Waits for a request no longer than one may take, nor beyond the deadline.
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
