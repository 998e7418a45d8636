//! A member: keeps its Lease, follows the others', and knows which keys are its own.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dogwatch_client::{Api, Client, Error};
use dogwatch_core::LabelSelector;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::watch;
use xxhash_rust::xxh64::xxh64;

use super::holds::Holds;
use super::members::{Listed, Members, VIEW, all_act_on, view};
use super::ownership::Ownership;
use super::seat::{GROUP, MemberSeats, ServedSeats};
use super::view::View;
use crate::leader::clock::Clock;
use crate::leader::identity::unique_identity;
use crate::leader::record::{self, Entry};
use crate::leader::{ElectionTiming, InvalidElection};

/// Leases of members that have been gone for so many lease durations are deleted by whoever sees it.
const FORGOTTEN_AFTER: u32 = 20;
/// How often in a row a view that changes is followed before the next wait.
const TURNS: usize = 4;

/// One of several replicas that divide keys among them. Clones are the same member.
///
/// ```no_run
/// # async fn example(client: dogwatch_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use dogwatch_controller::sharding::ShardMember;
///
/// let member = ShardMember::builder(client, "my-controller").build()?;
/// tokio::spawn({
///     let member = member.clone();
///     async move { member.run_until(std::future::pending()).await }
/// });
/// // For each key of the work queue; another replica works on the others.
/// let done = member.while_owning("namespace/name", async { /* the work */ }).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ShardMember {
    shared: Arc<Shared>,
    state: Arc<tokio::sync::Mutex<State>>,
}

/// What can be chosen about a member. Each method says what happens without it.
#[must_use]
pub struct ShardMemberBuilder {
    place: Place,
    group: String,
    identity: Option<String>,
    timing: ElectionTiming,
    clock: Option<Clock>,
}

enum Place {
    Server(Api<Lease>),
    Other(Arc<dyn MemberSeats>),
}

/// Read by everyone, written by the run.
struct Shared {
    me: String,
    clock: Clock,
    ownership: Mutex<Ownership>,
    holds: Holds,
    /// Counts changes of what is ours.
    changes: watch::Sender<u64>,
}

/// What a run needs, over many runs.
struct State {
    seats: Arc<dyn MemberSeats>,
    shared: Arc<Shared>,
    name: String,
    timing: ElectionTiming,
    labels: BTreeMap<String, String>,
    members: Members,
    /// The view that our Lease says, or is to say next.
    acting: View,
    /// Our Lease as the last write left it, where nothing has failed since.
    own: Option<Lease>,
}

impl ShardMember {
    /// A member of a group, whose Leases are in the client's own namespace unless another is set. The name of the group must be fit for
    /// the name of a Lease and the value of a label.
    pub fn builder(client: Client, group: impl Into<String>) -> ShardMemberBuilder {
        ShardMemberBuilder::new(Place::Server(Api::default_namespaced(client)), group.into())
    }

    /// A member of a group whose Leases are kept elsewhere than on a server.
    pub fn over(seats: impl MemberSeats, group: impl Into<String>) -> ShardMemberBuilder {
        ShardMemberBuilder::new(Place::Other(Arc::new(seats)), group.into())
    }

    /// Takes part until `stop` ends, then gives up all keys and leaves, so that others can take them at once.
    ///
    /// Failures are logged and tried again, for ever; keys are given up when the Lease could not be renewed by the renew deadline.
    /// Dropping the future is not leaving: the keys stay ours until the renew deadline, and nobody's until the Lease
    /// expires. One run at a time: a second call waits until the first has ended.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut state = self.state.lock().await;
        loop {
            let next = self.shared.clock.now().saturating_add(state.timing.retry_period);
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = state.round() => {}
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                // Work that was waited for has ended: others can be told so now.
                () = self.shared.holds.ended(), if state.is_behind() => {}
                () = self.shared.clock.sleep_until(next) => {}
            }
        }
        state.leave().await;
    }

    /// Whether a key is ours right now. Work that takes longer than a moment belongs into [`Self::while_owning`].
    pub fn owns(&self, key: &str) -> bool {
        self.shared.owns(key)
    }

    /// Does the work on a key for as long as it is ours: `None` when it is not, or no longer is. The work is then dropped, and only
    /// after that may another take the key.
    pub async fn while_owning<F: Future>(&self, key: &str, work: F) -> Option<F::Output> {
        let _hold = self.shared.holds.begin(key);
        if !self.owns(key) {
            return None;
        }
        let mut changes = self.shared.changes.subscribe();
        let lost = async {
            while self.owns(key) {
                let until = self.shared.lock().until();
                tokio::select! {
                    _ = changes.changed() => {}
                    () = self.shared.clock.sleep_until(until) => {}
                }
            }
        };
        // The work is dropped with this future's own block, before the hold is.
        let work = pin!(work);
        tokio::select! {
            biased;
            () = lost => None,
            output = work => Some(output),
        }
    }

    /// Changes whenever keys became ours or ceased to be: time to look at all keys again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Whether all members agree on who they are, so that every key has an owner.
    pub fn is_settled(&self) -> bool {
        self.shared.lock().is_settled(self.shared.clock.now())
    }

    /// Who this member is.
    pub fn identity(&self) -> &str {
        &self.shared.me
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Ownership> {
        self.ownership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owns(&self, key: &str) -> bool {
        self.lock().owns(&self.me, key, self.clock.now())
    }

    fn changed(&self) {
        self.changes.send_modify(|it| *it += 1);
    }
}

impl State {
    /// Renews, lists and judges, again where the view has changed. Failures are logged; the next round tries again.
    async fn round(&mut self) {
        for _ in 0..TURNS {
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(member = self.shared.me, %error, "cannot keep the Lease of this member, trying again");
                    return;
                }
            }
        }
    }

    /// Whether our Lease says an older view than the one we act on, for work on keys that have moved goes on.
    fn is_behind(&self) -> bool {
        self.shared.lock().last().is_some_and(|it| *it != self.acting)
    }

    /// One turn: `true` when there is something to tell or to read again at once.
    async fn turn(&mut self) -> Result<bool, Error> {
        let said = self.renew().await?;
        let seats = Arc::clone(&self.seats);
        let leases = self.bounded(seats.list()).await?;
        let now = self.shared.clock.now();
        if self.own.is_none() {
            self.sit_down(&leases).await?;
            return Ok(true);
        }
        let listed: Vec<_> = leases.iter().map(|it| Listed::of(it, self.timing.lease_duration)).collect();
        let live = self.members.live(&listed, now);
        let view = view(&live, &self.shared.me);
        self.sweep(now).await;
        if view != self.acting {
            let moved = self.shared.lock().act_on(&view);
            if moved {
                self.shared.changed();
            }
            // Others may take what we gave up as soon as our Lease says so: not before the work on it has ended.
            if self.shared.holds.any(|key| !self.shared.owns(key)) {
                return Ok(false);
            }
            self.acting = view;
            return Ok(true);
        }
        if said && all_act_on(&view, &live) && self.shared.lock().settle(view) {
            tracing::debug!(member = self.shared.me, "all members act on one view");
            self.shared.changed();
        }
        Ok(false)
    }

    /// Renews our Lease, where we know it, with the view we act on. `true` when it says that now.
    async fn renew(&mut self) -> Result<bool, Error> {
        let Some(own) = self.own.take() else { return Ok(false) };
        let sent = self.shared.clock.now();
        let lease = self.saying_the_view(record::renewed(own, &self.entry()));
        let seats = Arc::clone(&self.seats);
        let written = self.bounded(seats.update(lease)).await;
        match written {
            Ok(written) => self.own = Some(written),
            // Gone, or written by a request of ours that was given up: the list shows it.
            Err(error) if error.is_conflict() || error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        self.held_since(sent);
        Ok(true)
    }

    /// Finds our Lease in the list, or makes it.
    async fn sit_down(&mut self, leases: &[Lease]) -> Result<(), Error> {
        if let Some(own) = leases.iter().find(|it| it.metadata.name.as_deref() == Some(&self.name)) {
            self.own = Some(own.clone());
            return Ok(());
        }
        let sent = self.shared.clock.now();
        let lease = self.saying_the_view(record::created(&self.name, &self.entry(), 0));
        let seats = Arc::clone(&self.seats);
        self.own = Some(self.bounded(seats.create(lease)).await?);
        self.held_since(sent);
        Ok(())
    }

    fn held_since(&self, sent: Duration) {
        let until = sent.saturating_add(self.timing.renew_deadline);
        let lapsed = self.shared.lock().renewed(until, self.shared.clock.now());
        if lapsed {
            self.shared.changed();
        }
    }

    /// Deletes the Leases of members that are long gone. That it fails is no harm.
    async fn sweep(&self, now: Duration) {
        for gone in self.members.long_gone(FORGOTTEN_AFTER, now) {
            let seats = Arc::clone(&self.seats);
            if let Err(error) = self.bounded(seats.delete(&gone.lease, &gone.version)).await {
                tracing::debug!(lease = gone.lease, %error, "cannot delete the Lease of a member that is gone");
            }
        }
    }

    /// Gives everything up, waits for the work on it, and releases our Lease, so that others need not wait for it to expire.
    async fn leave(&mut self) {
        self.shared.lock().give_up();
        self.shared.changed();
        let deadline = self.shared.clock.now().saturating_add(self.timing.renew_deadline);
        let ended = async {
            while self.shared.holds.any(|_| true) {
                self.shared.holds.ended().await;
            }
        };
        tokio::select! {
            biased;
            () = ended => {}
            () = self.shared.clock.sleep_until(deadline) => return,
        }
        if let Err(error) = self.get_up().await {
            tracing::warn!(member = self.shared.me, %error, "cannot release the Lease of this member, it will expire");
        }
    }

    /// Says in our Lease that it is nobody's. Others delete it in time; missing, it would count until it would have expired.
    async fn get_up(&mut self) -> Result<(), Error> {
        let seats = Arc::clone(&self.seats);
        let own = match self.own.take() {
            Some(own) => Some(own),
            None => {
                let leases = self.bounded(seats.list()).await?;
                leases.into_iter().find(|it| it.metadata.name.as_deref() == Some(&self.name))
            }
        };
        if let Some(own) = own {
            self.bounded(seats.update(record::released(own, self.shared.clock.wall()))).await?;
        }
        Ok(())
    }

    async fn bounded<T>(&self, request: BoxFuture<'_, Result<T, Error>>) -> Result<T, Error> {
        let limit = self.timing.request_timeout();
        let clock = &self.shared.clock;
        tokio::select! {
            biased;
            answer = request => answer,
            () = clock.sleep_until(clock.now().saturating_add(limit)) => Err(Error::TimedOut(limit)),
        }
    }

    fn saying_the_view(&self, mut lease: Lease) -> Lease {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(VIEW.to_owned(), self.acting.id().to_owned());
        lease
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            identity: &self.shared.me,
            lease_seconds: self.timing.lease_seconds(),
            labels: &self.labels,
            now: self.shared.clock.wall(),
        }
    }
}

impl ShardMemberBuilder {
    fn new(place: Place, group: String) -> Self {
        Self { place, group, identity: None, timing: ElectionTiming::default(), clock: None }
    }

    /// The namespace of the Leases. The client's own otherwise; without meaning where they are kept elsewhere.
    pub fn namespace(mut self, namespace: &str) -> Self {
        if let Place::Server(api) = self.place {
            self.place = Place::Server(api.within(namespace));
        }
        self
    }

    /// Who we are. It must be nobody else's. The name of the host and a random part otherwise.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long others wait after the last renewal before they divide our keys. 15 s otherwise.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// How long keys are ours without a successful renewal. 10 s otherwise.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// How often the Lease is renewed and the others' are read. 2 s otherwise.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    #[cfg(test)]
    pub(super) fn simulated(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The member. Nothing is sent yet.
    ///
    /// # Errors
    /// When the durations do not fit together (rule LE-1), or a name is missing or cannot be one.
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
        let seats: Arc<dyn MemberSeats> = match self.place {
            Place::Server(api) => Arc::new(ServedSeats { api, group }),
            Place::Other(seats) => seats,
        };
        let shared = Arc::new(Shared {
            me: me.clone(),
            clock: self.clock.unwrap_or_else(Clock::new),
            ownership: Mutex::default(),
            holds: Holds::default(),
            changes: watch::Sender::new(0),
        });
        let state = State {
            seats,
            shared: Arc::clone(&shared),
            name: format!("{}-{:016x}", self.group, xxh64(me.as_bytes(), 0)),
            timing: self.timing,
            labels: BTreeMap::from([(GROUP.to_owned(), self.group)]),
            members: Members::default(),
            acting: View::of([me]),
            own: None,
        };
        Ok(ShardMember { shared, state: Arc::new(tokio::sync::Mutex::new(state)) })
    }
}

impl fmt::Debug for ShardMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMember")
            .field("identity", &self.shared.me)
            .field("is_settled", &self.is_settled())
            .finish_non_exhaustive()
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
