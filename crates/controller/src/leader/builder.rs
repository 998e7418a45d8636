//! What one may choose about an election.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::{Api, Client};
use k8s_openapi::api::coordination::v1::Lease;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::Mutex;

use super::candidate::Candidate;
use super::clock::Clock;
use super::decide::Memory;
use super::elector::LeaderElector;
use super::identity::{unique_identity, unique_instance};
use super::lock::LeaseLock;
use super::meter::Meter;
use super::shared::{Shared, Tell};
use super::timing::{ElectionTiming, InvalidElection};
use crate::events::EventRecorder;

/// What can be chosen about an election. Each method says what happens without it.
#[must_use]
pub struct LeaderElectorBuilder {
    place: Place,
    name: String,
    identity: Option<String>,
    timing: ElectionTiming,
    labels: BTreeMap<String, String>,
    release: bool,
    waits_to_create: bool,
    on_new_leader: Option<Tell>,
    coordinated: bool,
    events: Option<EventRecorder>,
    clock: Option<Clock>,
    seed: Option<u64>,
}

enum Place {
    Server(Api<Lease>),
    Other(Arc<dyn LeaseLock>),
}

impl LeaderElector {
    /// An elector for the lease of this name, in the client's own namespace unless another is set.
    pub fn builder(client: Client, lease: impl Into<String>) -> LeaderElectorBuilder {
        LeaderElectorBuilder::new(Place::Server(Api::default_namespaced(client)), lease.into())
    }

    /// An elector for a lease that is kept elsewhere than on a server.
    pub fn over(lock: impl LeaseLock, lease: impl Into<String>) -> LeaderElectorBuilder {
        LeaderElectorBuilder::new(Place::Other(Arc::new(lock)), lease.into())
    }
}

impl LeaderElectorBuilder {
    fn new(place: Place, name: String) -> Self {
        Self {
            place,
            name,
            identity: None,
            timing: ElectionTiming::default(),
            labels: BTreeMap::new(),
            release: true,
            waits_to_create: false,
            on_new_leader: None,
            coordinated: false,
            events: None,
            clock: None,
            seed: None,
        }
    }

    /// The namespace of the lease. The client's own otherwise; without meaning for a lease that is kept elsewhere.
    pub fn namespace(mut self, namespace: &str) -> Self {
        if let Place::Server(api) = self.place {
            self.place = Place::Server(api.within(namespace));
        }
        self
    }

    /// Sets who we are in the Lease; defaults to the name of the host and a random part. Each replica should have its own.
    ///
    /// Two processes with the same identity do not both lead: each elector writes a random instance into an annotation of the Lease, and
    /// waits until a Lease of another instance expires. So does a process that was restarted under the same identity and could not
    /// release the Lease before. Where a coordinator decides, or a holder writes no instance, as client-go does, the identity alone
    /// counts.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long others wait after the last renewal before they take the lease. 15 s otherwise.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// How long a leader goes on without a successful renewal. 10 s otherwise.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// How far apart attempts are at most. 2 s otherwise.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    /// A label for the Lease, beside those it has. None otherwise.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Whether the lease is given back when the work ends or is stopped, so that another can lead at once. It is otherwise.
    ///
    /// Turn it off where something the future began, such as a thread, may outlive it.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Makes a Lease that is missing only after it was missing for a whole lease duration. Without it, one that was never seen is
    /// made at once, as client-go does.
    ///
    /// Somebody may have deleted the Lease of a leader, which finds out at its next renewal and makes it again. A replica that starts
    /// in between, or that saw the Lease last when it was its own, would lead at the same time for up to a retry period. The wait
    /// costs a lease duration once in the life of a Lease, and excludes that, unless the Lease is deleted again and again between
    /// two looks at it.
    pub fn wait_before_creating(mut self) -> Self {
        self.waits_to_create = true;
        self
    }

    /// Told when another identity holds the lease than before, our own too. It is called by the election itself, so it must not
    /// block; see [`LeaderElector::leaders`] otherwise.
    pub fn on_new_leader(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Box::new(tell));
        self
    }

    /// Leaves it to a coordinator whose the lease is (rule LE-5): it is renewed while it is ours, never made or taken, and given back
    /// when the coordinator prefers another. Elections are free otherwise.
    ///
    /// The coordinator is part of an API server with the feature gate `CoordinatedLeaderElection`, and chooses among those who
    /// [stand for election](super::Candidacy).
    pub fn coordinated(mut self) -> Self {
        self.coordinated = true;
        self
    }

    /// Tells of the Lease, as events, when this elector became leader and when it stopped. Nothing is told otherwise.
    pub fn events(mut self, recorder: EventRecorder) -> Self {
        self.events = Some(recorder);
        self
    }

    #[cfg(test)]
    pub(super) fn simulated(mut self, clock: Clock, seed: u64) -> Self {
        self.clock = Some(clock);
        self.seed = Some(seed);
        self
    }

    /// The elector. Nothing is sent yet.
    ///
    /// # Errors
    /// When the durations do not fit together, or a name is missing (rule LE-1).
    pub fn build(self) -> Result<LeaderElector, InvalidElection> {
        self.timing.validate()?;
        let identity = self.identity.unwrap_or_else(unique_identity);
        if identity.is_empty() {
            return Err(InvalidElection::NoIdentity);
        }
        if self.name.is_empty() {
            return Err(InvalidElection::NoName);
        }
        let clock = self.clock.unwrap_or_else(Clock::new);
        let lease_duration = Duration::from_secs(u64::from(self.timing.lease_seconds().unsigned_abs()));
        let shared = Arc::new(Shared::new(clock, Meter::new(&self.name), lease_duration, self.on_new_leader));
        let lock: Arc<dyn LeaseLock> = match self.place {
            Place::Server(api) => Arc::new(api),
            Place::Other(lock) => lock,
        };
        // A coordinator gives the Lease to an identity, and leaves annotations of earlier holders.
        let instance = if self.coordinated { String::new() } else { unique_instance() };
        let candidate = Candidate {
            lock,
            name: self.name,
            timing: self.timing,
            labels: self.labels,
            shared: Arc::clone(&shared),
            memory: Memory::new(identity.clone(), lease_duration).instance(instance),
            held: None,
            in_doubt: false,
            waits_to_create: self.waits_to_create,
            missing: None,
            coordinated: self.coordinated,
            random: self.seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64),
        };
        Ok(LeaderElector {
            shared,
            candidate: Arc::new(Mutex::new(candidate)),
            timing: self.timing,
            identity: identity.into(),
            release: self.release,
            events: self.events,
        })
    }
}

impl fmt::Debug for LeaderElectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElectorBuilder")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
