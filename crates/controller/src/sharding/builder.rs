//! The builder of a shard member.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::{Api, Client};
use dogwatch_core::LabelSelector;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::Mutex;
use xxhash_rust::xxh64::xxh64;

use super::member::ShardMember;
use super::member_lease::MemberLease;
use super::member_state::MemberState;
use super::members::Members;
use super::seat::{GROUP, MemberLeaseStore, ServedSeats};
use super::view::View;
use crate::leader::clock::Clock;
use crate::leader::identity::{unique_identity, unique_instance};
use crate::leader::{ElectionTiming, InvalidElection};

/// Builds a [`ShardMember`].
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::ShardMember;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let member = ShardMember::builder(client, "my-controller")
///     .identity("replica-1")
///     .retry_period(Duration::from_secs(1))
///     .build()?;
/// assert_eq!(member.identity(), "replica-1");
/// assert!(!member.owns("default/web"), "it does not run yet");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ShardMemberBuilder {
    store: LeaseStore,
    group: String,
    identity: Option<String>,
    timing: ElectionTiming,
    clock: Option<Clock>,
}

enum LeaseStore {
    Server(Api<Lease>),
    Other(Arc<dyn MemberLeaseStore>),
}

impl ShardMember {
    /// Creates a builder for a member of a group, whose Leases are in the client's default
    /// namespace unless another is set. The name of the group must be valid as the name of a Lease
    /// and as the value of a label.
    pub fn builder(client: Client, group: impl Into<String>) -> ShardMemberBuilder {
        ShardMemberBuilder::new(LeaseStore::Server(Api::default_namespaced(client)), group.into())
    }

    /// Creates a builder for a member of a group whose Leases are stored elsewhere than on a
    /// server.
    pub fn over(seats: impl MemberLeaseStore, group: impl Into<String>) -> ShardMemberBuilder {
        ShardMemberBuilder::new(LeaseStore::Other(Arc::new(seats)), group.into())
    }
}

impl ShardMemberBuilder {
    fn new(store: LeaseStore, group: String) -> Self {
        Self { store, group, identity: None, timing: ElectionTiming::default(), clock: None }
    }

    /// Sets the namespace of the Leases. Has no effect if they are stored elsewhere. Defaults to
    /// the client's namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        if let LeaseStore::Server(api) = self.store {
            self.store = LeaseStore::Server(api.in_namespace(namespace));
        }
        self
    }

    /// Sets the identity. Each replica should have its own: a second process with the same identity
    /// owns nothing until the Lease of the first one expires. Defaults to the host name and a
    /// random part.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the time that other members wait after the last renewal before they take over our keys.
    /// Defaults to 15 s.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// Sets the time that we own keys without a successful renewal. Defaults to 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// Sets the interval at which our Lease is renewed and the others' are read. Defaults to 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    #[cfg(test)]
    pub(super) fn simulated(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the member. It sends no request yet.
    ///
    /// # Errors
    /// Returns an error if the durations do not fit together (rule LE-1), or if a name is missing
    /// or invalid.
    pub fn build(self) -> Result<ShardMember, InvalidElection> {
        self.timing.validate()?;
        let me = self.identity.unwrap_or_else(unique_identity);
        if me.is_empty() || me.contains('\n') {
            return Err(InvalidElection::NoIdentity);
        }
        let selector = format!("{GROUP}={}", self.group).parse::<LabelSelector>();
        let (false, Ok(group)) = (self.group.is_empty(), selector) else {
            return Err(InvalidElection::NoName);
        };
        let seats: Arc<dyn MemberLeaseStore> = match self.store {
            LeaseStore::Server(api) => Arc::new(ServedSeats { api, group }),
            LeaseStore::Other(seats) => seats,
        };
        let shared = Arc::new(MemberState::new(me.clone(), self.clock.unwrap_or_else(Clock::new)));
        let member_lease = MemberLease {
            seats,
            shared: Arc::clone(&shared),
            name: format!("{}-{:016x}", self.group, xxh64(me.as_bytes(), 0)),
            instance: unique_instance(),
            timing: self.timing,
            labels: BTreeMap::from([(GROUP.to_owned(), self.group)]),
            members: Members::default(),
            acting: View::of([me]),
            own: None,
        };
        Ok(ShardMember { shared, member_lease: Arc::new(Mutex::new(member_lease)) })
    }
}

impl fmt::Debug for ShardMemberBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMemberBuilder")
            .field("group", &self.group)
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
