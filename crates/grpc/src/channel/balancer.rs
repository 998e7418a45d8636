//! The balancer task of a channel: follows the set of endpoints, steers each endpoint's task, and
//! publishes the snapshot that calls pick from.
//!
//! Runs whether or not there are calls, so that changes are applied and connections are opened
//! while a channel is idle. Ends when the last handle of the channel is dropped; the endpoints'
//! tasks then finish the open calls, and end too.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{debug, error, info};
use xxhash_rust::xxh64::xxh64;

use super::channel_state::{ChannelState, MemberView, Resolve};
use super::metrics::EndpointMetrics;
use super::snapshot::{Slot, Snapshot, Unready, UnreadyReason};
use crate::connection::{Backend, BackendStatus, ConnectionState, DesiredState, Link, run};
use crate::endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
use crate::load::Load;
use crate::policy::{self, Group, Host, Policy, subset, wanted};
use crate::random;
use crate::time::{CENTURY, after, from_now};

/// The assumed latency of an endpoint before one was measured; the value that Linkerd uses.
const SEED: Duration = Duration::from_millis(1);

/// The minimum interval between requests to resolve again while no endpoint can be connected to
/// (`MinResolutionInterval` in grpc v1.85.0 `internal/resolver/dns/dns_resolver.go`).
const RESOLVE_PAUSE: Duration = Duration::from_secs(30);

/// The time that pick_first gives one endpoint before it tries the next one concurrently (gRPC's
/// A61, after RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);

/// The time for which a member of a subset may be unconnected before it is replaced.
const REPLACE_AFTER: Duration = Duration::from_secs(3);

/// The time for which calls with a ring key wait for a connecting endpoint before they go to the
/// next one.
const KEY_WAIT: Duration = Duration::from_secs(2);

/// Follows `sets` until `stop` is dropped. When the source of the sets ends, the last one stays.
pub(crate) async fn balance(
    stop_on_drop: StopOnDrop,
    mut sets: watch::Receiver<Arc<EndpointSet>>,
    resolve: Option<Resolve>,
    mut stop: oneshot::Receiver<Infallible>,
) {
    let mut balancer = Balancer::new(Arc::clone(&stop_on_drop.0));
    let changed = Arc::clone(&balancer.changed);
    let outlier = balancer.channel.settings.outlier.clone();
    let pace = outlier
        .as_ref()
        .map_or(Duration::from_secs(3_600), |it| it.interval.clamp(Duration::from_millis(1), CENTURY));
    let mut sweeps = interval(pace);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follows = true;
    let set = Arc::clone(&sets.borrow_and_update());
    balancer.apply(&set);
    loop {
        balancer.update_desired_states();
        let ramping = balancer.publish();
        if balancer.has_no_endpoint() && balancer.apply_held() {
            continue;
        }
        if balancer.should_resolve() {
            resolve.iter().for_each(call_resolve);
        }
        let channel = Arc::clone(&balancer.channel);
        let hold_until = balancer.held.as_ref().map(|it| it.1);
        let next = balancer.next_attempt();
        tokio::select! {
            biased;
            _ = &mut stop => break,
            source = sets.changed(), if follows => match source {
                Ok(()) => balancer.receive(Arc::clone(&sets.borrow_and_update())),
                Err(_) => follows = false,
            },
            () = changed.notified() => {}
            () = channel.demand.notified(), if balancer.asleep => balancer.asleep = false,
            _ = sweeps.tick(), if outlier.is_some() => balancer.sweep(),
            () = sleep(ramping.unwrap_or_default()), if ramping.is_some() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            () = sleep_until(hold_until.unwrap_or_else(Instant::now)), if hold_until.is_some() => {
                balancer.apply_held();
            }
        }
    }
    balancer.tasks.detach_all();
}

/// Stops the channel when its task ends, also involuntarily: the runtime shuts down, or the task
/// panics. Otherwise calls from another runtime would wait for its connections forever. It is
/// created before the task, because a runtime that shuts down may drop the task without polling it.
pub(crate) struct StopOnDrop(pub(crate) Arc<ChannelState>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Asks the source of the endpoints for changes. This is user code, whose panic must not end the
/// channel.
fn call_resolve(resolve: &Resolve) {
    if catch_unwind(AssertUnwindSafe(|| resolve())).is_err() {
        error!("the resolve callback panicked");
    }
}

struct Balancer {
    channel: Arc<ChannelState>,
    set: Arc<EndpointSet>,
    /// A newer set without usable endpoints, and the time until which it is ignored.
    held: Option<(Arc<EndpointSet>, Instant)>,
    members: BTreeMap<EndpointId, Member>,
    /// Endpoints that were removed from the set, with calls to finish.
    leaving: Vec<Member>,
    tasks: JoinSet<()>,
    /// Notified by every endpoint's task.
    changed: Arc<Notify>,
    /// Set while a lazy channel has not been called yet.
    asleep: bool,
    /// Makes the subset and the order of this channel different from those of others.
    seed: u64,
    /// The endpoint that pick_first uses.
    used: Option<EndpointId>,
    /// True once there has been a usable endpoint.
    resolved_once: bool,
    /// The time of the last request to resolve again.
    resolved: Option<Instant>,
}

struct Member {
    endpoint: Arc<Endpoint>,
    backend: Arc<Backend>,
    desired: watch::Sender<DesiredState>,
    metrics: EndpointMetrics,
    host: Host,
    /// True if the endpoint belongs to the subset, and pick_first wants it.
    chosen: bool,
    /// The time since which pick_first has tried it without success.
    tried_since: Option<Instant>,
    /// The time since which it is wanted and not connected.
    missing_since: Option<Instant>,
    /// True if an attempt has failed since it was last connected.
    failed: bool,
    /// The state that was last counted in the metrics.
    counted: ConnectionState,
}

impl Member {
    /// Records the state of the connection. A failure is cleared only by a new connection (A62), so
    /// that calls do not wait for an attempt to reach a dead endpoint.
    fn observe(&mut self, state: ConnectionState, now: Instant) {
        self.missing_since = match state {
            ConnectionState::Connecting | ConnectionState::Backoff => self.missing_since.or(Some(now)),
            _ => None,
        };
        self.failed = match state {
            ConnectionState::Ready => false,
            ConnectionState::Backoff => true,
            _ => self.failed,
        };
    }

    /// Returns true if another endpoint should replace it in the subset.
    fn is_missing(&self, now: Instant) -> bool {
        self.missing_since.is_some_and(|it| it + REPLACE_AFTER <= now)
    }

    /// Returns true if calls with its ring key should wait for it: it is not connected yet, and has
    /// not failed.
    fn is_connecting(&self, state: ConnectionState, now: Instant) -> bool {
        let begun = matches!(state, ConnectionState::Idle | ConnectionState::Connecting);
        begun && !self.failed && self.missing_since.is_none_or(|it| now < it + KEY_WAIT)
    }

    fn set_desired(&self, desired: DesiredState) {
        self.desired.send_if_modified(|it| std::mem::replace(it, desired) != desired);
    }
}

impl Balancer {
    fn new(channel: Arc<ChannelState>) -> Self {
        let asleep = channel.settings.lazy;
        Self {
            channel,
            set: Arc::default(),
            held: None,
            members: BTreeMap::new(),
            leaving: Vec::new(),
            tasks: JoinSet::new(),
            changed: Arc::new(Notify::new()),
            asleep,
            seed: random::bits(),
            used: None,
            resolved_once: false,
            resolved: None,
        }
    }

    /// Receives a set. Applies it at once, unless it has no usable endpoint, the previous one had
    /// some, and [`hold_when_emptied`](super::ChannelBuilder::hold_when_emptied) is on.
    fn receive(&mut self, set: Arc<EndpointSet>) {
        let emptied = set.usable().next().is_none() && self.set.usable().next().is_some();
        let until = self.held.take().map(|it| it.1);
        match self.channel.settings.hold {
            Some(hold) if emptied => {
                debug!(
                    generation = set.generation,
                    "the new set has no usable endpoint; keeping the previous one for now"
                );
                self.held = Some((set, until.unwrap_or_else(|| from_now(hold))));
            }
            _ => self.apply(&set),
        }
    }

    /// Applies the set that was held back, if there is one.
    fn apply_held(&mut self) -> bool {
        let held = self.held.take();
        held.iter().for_each(|it| self.apply(&it.0));
        held.is_some()
    }

    fn has_no_endpoint(&self) -> bool {
        self.channel.snapshot.load().group.is_empty()
    }

    /// Returns true if no endpoint is connected and one has failed, so that the set may be
    /// outdated; limited in frequency.
    fn should_resolve(&mut self) -> bool {
        let failing = match &self.channel.snapshot.load().unready {
            Some(Unready { why: UnreadyReason::Unconnected { error, .. }, .. }) => error.is_some(),
            _ => false,
        };
        let now = Instant::now();
        let wants = failing && self.resolved.is_none_or(|it| now - it >= RESOLVE_PAUSE);
        if wants {
            self.resolved = Some(now);
        }
        wants
    }

    /// Replaces the members by those of the set. A removed endpoint finishes its calls; one that is
    /// back before they ended keeps its connection.
    fn apply(&mut self, set: &Arc<EndpointSet>) {
        let mut before = std::mem::take(&mut self.members);
        for endpoint in &set.endpoints {
            let known = before.remove(&endpoint.id).or_else(|| self.returning(&endpoint.id));
            let member = match known {
                Some(mut member) if member.backend.update_addresses(&endpoint.addresses) => {
                    member.endpoint = Arc::clone(endpoint);
                    member
                }
                known => {
                    self.leaving.extend(known);
                    self.join(endpoint)
                }
            };
            self.members.insert(endpoint.id.clone(), member);
        }
        self.leaving.extend(before.into_values());
        for member in &self.leaving {
            // An endpoint that was not terminating may be healthy, and only no longer selected: its
            // calls need not be cut off.
            let deadline = self.channel.settings.drain_all || member.endpoint.terminating;
            member.set_desired(DesiredState::Remove { deadline });
        }
        debug!(generation = set.generation, endpoints = set.endpoints.len(), "endpoints changed");
        self.resolved_once |= set.usable().next().is_some();
        self.set = Arc::clone(set);
    }

    fn returning(&mut self, id: &EndpointId) -> Option<Member> {
        let index = self.leaving.iter().position(|it| it.backend.id == *id)?;
        Some(self.leaving.swap_remove(index))
    }

    fn join(&mut self, endpoint: &Arc<Endpoint>) -> Member {
        let channel = &self.channel;
        let backend = Arc::new(Backend::new(
            endpoint.id.clone(),
            &endpoint.addresses,
            SEED,
            channel.policy_state.now(),
        ));
        let (desired, desired_updates) = watch::channel(DesiredState::Pause);
        let name = endpoint.addresses.first().map(ToString::to_string).unwrap_or_default();
        let (connector, timing) =
            (Arc::clone(&channel.settings.connector), Arc::clone(&channel.settings.timing));
        self.tasks.spawn(run(
            Arc::clone(&backend),
            desired_updates,
            connector,
            timing,
            Arc::clone(&self.changed),
        ));
        let metrics = channel.metrics.endpoint(&name);
        let (endpoint, host) = (Arc::clone(endpoint), Host::default());
        Member {
            endpoint,
            backend,
            desired,
            metrics,
            host,
            chosen: true,
            tried_since: None,
            missing_since: None,
            failed: false,
            counted: ConnectionState::Idle,
        }
    }

    /// Sends every endpoint's task its desired state.
    fn update_desired_states(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        let now = Instant::now();
        for member in self.members.values_mut().chain(&mut self.leaving) {
            let state = member.backend.state();
            member.observe(state, now);
            if std::mem::replace(&mut member.counted, state) != state {
                self.channel.metrics.state(state);
            }
        }
        self.leaving.retain(|it| it.backend.state() != ConnectionState::Closed);
        // Endpoints that closed for good while leaving, and came back at that moment.
        let closed = |it: &&Member| it.backend.state() == ConnectionState::Closed;
        let gone: Vec<_> = self.members.values().filter(closed).map(|it| Arc::clone(&it.endpoint)).collect();
        for endpoint in gone {
            let member = self.join(&endpoint);
            self.members.insert(endpoint.id.clone(), member);
        }
        self.choose();
        for member in self.members.values() {
            let Endpoint { usable, terminating, .. } = *member.endpoint;
            member.set_desired(match (usable, terminating) {
                (true, _) if self.asleep => DesiredState::Pause,
                (true, _) if member.chosen => DesiredState::Serve,
                (true, _) | (false, true) => DesiredState::Drain,
                (false, false) => DesiredState::Pause,
            });
        }
    }

    /// Decides which of the usable endpoints belong to this channel.
    fn choose(&mut self) {
        let settings = &self.channel.settings;
        let mut usable: Vec<_> = self.members.values_mut().filter(|it| it.endpoint.usable).collect();
        if let Some(size) = settings.subset {
            let now = Instant::now();
            let (keys, missing) =
                (usable.iter().map(|it| it.endpoint.id.as_str()), |it: usize| usable[it].is_missing(now));
            let chosen = subset(keys, size, self.seed, missing);
            for (member, chosen) in usable.iter_mut().zip(chosen) {
                member.chosen = chosen;
            }
            usable.retain(|it| it.chosen);
        }
        if settings.policy != Policy::PickFirst {
            return;
        }
        usable.sort_by_cached_key(|it| xxh64(it.endpoint.id.as_str().as_bytes(), self.seed));
        let states: Vec<_> = usable.iter().map(|it| it.backend.state()).collect();
        let used = usable.iter().position(|it| Some(&it.endpoint.id) == self.used.as_ref());
        let (now, asleep) = (Instant::now(), self.asleep);
        let late = |it: usize| usable[it].tried_since.is_some_and(|it| it + HEAD_START <= now);
        let wanted = wanted(&states, late, used);
        for ((member, wanted), state) in usable.iter_mut().zip(wanted).zip(states) {
            member.chosen = wanted;
            let tries = wanted && !asleep && state != ConnectionState::Ready;
            member.tried_since = tries.then(|| member.tried_since.unwrap_or(now));
        }
        let ready = usable.iter().find(|it| it.chosen && it.backend.state() == ConnectionState::Ready);
        self.used = ready.map(|it| it.endpoint.id.clone());
    }

    /// Returns the next time at which pick_first tries another endpoint, or a subset or ring gives
    /// up waiting for a connection.
    fn next_attempt(&self) -> Option<Instant> {
        let now = Instant::now();
        let settings = &self.channel.settings;
        let replace_after = settings.subset.map(|_| REPLACE_AFTER);
        let key_wait = matches!(settings.policy, Policy::RingHash(_)).then_some(KEY_WAIT);
        let due = |it: &Member| {
            let missing = |wait: Option<Duration>| Some(after(it.missing_since?, wait?));
            [it.tried_since.map(|it| it + HEAD_START), missing(replace_after), missing(key_wait)]
        };
        self.members.values().flat_map(due).flatten().filter(|it| *it > now).min()
    }

    /// Creates a slot for calls on this connection; `None` while the peer allows no streams.
    fn slot(member: &Member, link: Arc<Link>) -> Option<(Arc<Slot>, Arc<Load>)> {
        let (load, metrics) = (Arc::clone(&member.backend.load), member.metrics.clone());
        (link.max_calls() > 0).then(|| (Arc::new(Slot { link, load: Arc::clone(&load), metrics }), load))
    }

    /// Publishes a snapshot. Returns the delay until it must be recomputed, if an endpoint is new.
    fn publish(&self) -> Option<Duration> {
        let settings = &self.channel.settings;
        let now = Instant::now();
        let members: Vec<_> = self.members.values().filter(|it| it.endpoint.usable && it.chosen).collect();
        let statuses: Vec<_> = members.iter().map(|it| it.backend.status()).collect();
        let fit: Vec<_> =
            members.iter().zip(&statuses).map(|(it, at)| at.healthy && it.host.ejected.is_none()).collect();
        // An endpoint whose health check has no answer yet counts as not connected (A17).
        let is_connected = |it: &BackendStatus| it.link.is_some() && !it.health_pending;
        let connected = statuses.iter().filter(|it| is_connected(it)).count();
        let fit_count = statuses.iter().zip(&fit).filter(|(at, fit)| is_connected(at) && **fit).count();
        let panics = panics(fit_count, connected, settings.panic_threshold);
        // The points of a ring are computed from addresses, as in other clients; no other policy
        // needs a key.
        let ring = matches!(settings.policy, Policy::RingHash(_));
        let address = |it: &&Member| it.endpoint.addresses.first().map(ToString::to_string);
        let keys: Vec<String> = match ring {
            true => members.iter().map(|it| address(it).unwrap_or_default()).collect(),
            false => Vec::new(),
        };
        let mut error = None;
        let (mut ramping, mut choices) = (None, Vec::with_capacity(members.len()));
        for (index, ((member, status), fit)) in members.iter().zip(statuses).zip(fit).enumerate() {
            let age = status.ready_since.map(|it| now - it);
            let admission = match (&settings.slow_start, age) {
                (Some(ramp), Some(age)) => ramp.admission(age),
                _ => u32::MAX,
            };
            if admission != u32::MAX {
                ramping = settings.slow_start.as_ref().map(|it| it.pace());
            }
            error = error.or(status.error);
            let open = status.state == ConnectionState::Ready && !status.health_pending && (fit || panics);
            let ready = status.link.filter(|_| open).and_then(|link| Self::slot(member, link));
            choices.push(policy::Member {
                key: keys.get(index).map_or("", String::as_str),
                connecting: ring && member.is_connecting(status.state, now),
                weight: member.endpoint.weight,
                zone: member.endpoint.zone.as_deref(),
                ready,
                admission,
            });
        }
        let group = Group::new(
            choices,
            &settings.policy,
            settings.zone.as_ref(),
            Arc::clone(&self.channel.policy_state),
        );
        let unready = group.is_empty().then(|| self.unready(members.len(), connected, error));
        self.store_snapshot(Snapshot { group, unready });
        ramping
    }

    fn unready(&self, usable: usize, connected: usize, error: Option<Arc<str>>) -> Unready {
        let why = match &self.set.unavailable {
            _ if connected > 0 => UnreadyReason::Unfit { connected },
            _ if usable > 0 => UnreadyReason::Unconnected { endpoints: usable, error },
            Some(why) => UnreadyReason::Nothing(why.clone()),
            None if self.set.generation == 0 && self.set.endpoints.is_empty() => UnreadyReason::Unresolved,
            None if self.set.endpoints.is_empty() => UnreadyReason::Nothing(Unavailable::NoEndpoints),
            None => UnreadyReason::Nothing(Unavailable::NothingReady(self.set.endpoints.len())),
        };
        let before = self.channel.snapshot.load();
        let since = match &before.unready {
            _ if self.asleep => None,
            Some(before) if before.why.is_like(&why) && before.since.is_some() => before.since,
            _ => Some(Instant::now()),
        };
        let definite =
            !self.resolved_once && matches!(&why, UnreadyReason::Nothing(why) if why.is_definite());
        Unready { since, why, definite }
    }

    fn store_snapshot(&self, snapshot: Snapshot) {
        let channel = &self.channel;
        channel.metrics.ready.set(snapshot.group.len());
        channel.metrics.endpoints.set(self.members.len());
        channel.snapshot.store(Arc::new(snapshot));
        let view = |it: &Member| MemberView {
            endpoint: Arc::clone(&it.endpoint),
            backend: Arc::clone(&it.backend),
            ejected: it.host.ejected.is_some(),
        };
        let members = self.members.values().chain(&self.leaving).map(view).collect();
        channel.members.store(Arc::new(members));
        channel.revision.send_modify(|it| *it += 1);
    }

    /// Ejects endpoints that fail more than the others.
    fn sweep(&mut self) {
        let Some(outlier) = &self.channel.settings.outlier else {
            return;
        };
        let usable = self.members.values_mut().filter(|it| it.endpoint.usable && it.chosen);
        let mut hosts: Vec<_> = usable.map(|it| (&mut it.host, it.backend.load.take_tally())).collect();
        let ejected = policy::sweep(&mut hosts, outlier, Instant::now(), || random::below(100) as u32);
        if ejected > 0 {
            self.channel.metrics.ejections.increment(ejected as u64);
            info!(ejected, "ejected outlier endpoints");
        }
    }
}

/// Returns true if so few endpoints are available that leaving out the rest would do more harm.
fn panics(fit: usize, connected: usize, threshold: f64) -> bool {
    connected > 0 && (fit as f64) < threshold * connected as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_too_few_endpoints_are_available_all_are_used() {
        let table = [(10, 10, false), (5, 10, false), (4, 10, true), (0, 1, true), (0, 0, false)];
        for (fit, connected, expected) in table {
            assert_eq!(panics(fit, connected, 0.5), expected, "{fit} of {connected}");
        }
        assert!(!panics(0, 10, 0.0), "a threshold of 0 turns it off");
    }
}
