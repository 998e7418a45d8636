//! The builder of a leader elector.

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
use super::election_state::{ElectionState, NewLeaderCallback};
use super::elector::LeaderElector;
use super::identity::{unique_identity, unique_instance};
use super::lock::LeaseLock;
use super::metrics::ElectionMetrics;
use super::timing::{ElectionTiming, InvalidElection};
use crate::events::EventRecorder;

/// Builds a [`LeaderElector`].
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
/// let elector = LeaderElector::builder(client, "my-controller")
///     .identity("replica-1")
///     .lease_duration(Duration::from_secs(30))
///     .renew_deadline(Duration::from_secs(20))
///     .on_new_leader(|holder| println!("{holder} leads"))
///     .build()?;
/// let leader = elector.run_while_leading(|led| async move { led.identity().to_owned() }).await?;
/// assert_eq!(leader, "replica-1");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct LeaderElectorBuilder {
    store: LeaseStore,
    name: String,
    identity: Option<String>,
    timing: ElectionTiming,
    labels: BTreeMap<String, String>,
    release: bool,
    waits_to_create: bool,
    on_new_leader: Option<NewLeaderCallback>,
    coordinated: bool,
    events: Option<EventRecorder>,
    clock: Option<Clock>,
    seed: Option<u64>,
}

enum LeaseStore {
    Server(Api<Lease>),
    Other(Arc<dyn LeaseLock>),
}

impl LeaderElector {
    /// Creates a builder for an elector on the lease of this name, in the client's default
    /// namespace unless another is set.
    pub fn builder(client: Client, lease: impl Into<String>) -> LeaderElectorBuilder {
        LeaderElectorBuilder::new(LeaseStore::Server(Api::default_namespaced(client)), lease.into())
    }

    /// Creates a builder for an elector on a lease that is stored elsewhere than on a server.
    pub fn with_lock(lock: impl LeaseLock, lease: impl Into<String>) -> LeaderElectorBuilder {
        LeaderElectorBuilder::new(LeaseStore::Other(Arc::new(lock)), lease.into())
    }
}

impl LeaderElectorBuilder {
    fn new(store: LeaseStore, name: String) -> Self {
        Self {
            store,
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

    /// Sets the namespace of the lease. Has no effect on a lease that is stored elsewhere. Defaults
    /// to the client's namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        if let LeaseStore::Server(api) = self.store {
            self.store = LeaseStore::Server(api.in_namespace(namespace));
        }
        self
    }

    /// Sets the identity that is written into the Lease. Each replica should have its own. Defaults
    /// to the host name and a random part.
    ///
    /// Two processes with the same identity do not both lead: each elector writes a random instance
    /// into an annotation of the Lease, and waits until a Lease of another instance expires. So
    /// does a process that restarts under the same identity and could not release the Lease before.
    /// With a coordinator, or with a holder that writes no instance, such as client-go, only the
    /// identity counts.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the time that other candidates wait after the last renewal before they take the lease.
    /// Defaults to 15 s.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// Sets the time that a leader continues without a successful renewal. Defaults to 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// Sets the maximum time between attempts. Defaults to 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    /// Adds a label to the Lease, which keeps its other labels. Defaults to none.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets if the lease is released when the work ends or is stopped, so that another candidate
    /// can lead at once. Defaults to true.
    ///
    /// Turn it off if work that the future started, such as a thread, may outlive it. It takes a
    /// value, as `ReleaseOnCancel` of client-go, so that a program can pass on a flag of its own.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Creates a missing Lease only after it was missing for a whole lease duration. By default, a
    /// Lease that was never seen is created at once, as client-go does.
    ///
    /// Another client may delete the Lease of a leader, which notices at its next renewal and
    /// creates it again. A replica that starts in between, or that last saw the Lease when it held
    /// it itself, would then lead at the same time for up to a retry period. The wait costs one
    /// lease duration in the life of a Lease, and prevents that, unless the Lease is deleted again
    /// and again between two reads.
    pub fn wait_before_creating(mut self) -> Self {
        self.waits_to_create = true;
        self
    }

    /// Sets a function that is called with the identity of each new holder of the lease, including
    /// our own. The election itself calls it, so it must not block; if it would, use
    /// [`LeaderElector::leaders`].
    pub fn on_new_leader(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Box::new(callback));
        self
    }

    /// Leaves the choice of the holder to a coordinator (rule LE-5): the elector renews the lease
    /// while it holds it, never creates or takes it, and releases it when the coordinator prefers
    /// another candidate. Off by default.
    ///
    /// The coordinator is part of an API server with the feature gate `CoordinatedLeaderElection`,
    /// and chooses among the [candidates](super::Candidacy).
    pub fn coordinated(mut self) -> Self {
        self.coordinated = true;
        self
    }

    /// Records an event about the Lease when this elector becomes leader and when it stops leading.
    /// Off by default.
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

    /// Builds the elector. It sends no request yet.
    ///
    /// # Errors
    /// Returns an error if the durations do not fit together, or if a name is missing (rule LE-1).
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
        let shared = Arc::new(ElectionState::new(
            clock,
            ElectionMetrics::new(&self.name),
            lease_duration,
            self.on_new_leader,
        ));
        let lock: Arc<dyn LeaseLock> = match self.store {
            LeaseStore::Server(api) => Arc::new(api),
            LeaseStore::Other(lock) => lock,
        };
        // A coordinator assigns the Lease to an identity, and leaves the annotations of earlier
        // holders.
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
            runs: Arc::default(),
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
