//! The document of a snapshot: what `/snapshot.json` and the events of the page contain.
//!
//! Built from the numbers of the other crates. Times are ages in milliseconds, so that the clock of
//! a browser does not matter. Texts are bounded, and none is the content of an object.

use std::time::Duration;

use dogwatch_controller::{Causes, ControllerStats};
#[cfg(feature = "grpc")]
use dogwatch_grpc::{ChannelStats, ConnectionState, EndpointStatus};
use dogwatch_informer::{HandlerStats, HealthState, InformerStats, Relist, RelistReason};
use dogwatch_workqueue::{KeySnapshot, KeyStage, QueueSnapshot};
use serde::Serialize;
use tokio::time::Instant;

/// The number of bytes of a text that is shown.
const TEXT_LIMIT: usize = 500;

/// The number of handlers of an informer, and of endpoints of a channel, that are shown.
const MAX_PARTS: usize = 100;

/// A snapshot of a program.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) program: Program,
    /// Milliseconds since 1970.
    pub(crate) time_ms: u64,
    /// The interval of snapshots.
    pub(crate) interval_ms: u64,
    pub(crate) informers: Vec<Informer>,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) actions: Vec<Action>,
    /// The number of sources that are not in the document, because there are too many.
    pub(crate) omitted: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) version: &'static str,
    pub(crate) pid: u32,
    pub(crate) uptime_ms: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Action {
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) running: bool,
}

/// The severity of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    Ok,
    /// Not ready yet, without a failure.
    Wait,
    Warn,
    Bad,
}

#[derive(Debug, Serialize)]
pub(crate) struct Informer {
    id: u64,
    name: String,
    /// The manager that it belongs to, if the page has a name for it.
    manager: Option<String>,
    kind: String,
    resource: String,
    state: String,
    tone: Tone,
    problem: Option<Problem>,
    retry_in_ms: Option<u64>,
    resource_version: String,
    objects: usize,
    bytes: Option<usize>,
    received: u64,
    queued: usize,
    queue_capacity: usize,
    last_event_ms: Option<u64>,
    relists: u64,
    rewinds: u64,
    undecodable: u64,
    watch: Watch,
    history: Vec<List>,
    handlers: Vec<Handler>,
}

#[derive(Debug, Serialize)]
struct Problem {
    message: String,
    since_ms: u64,
    count: u32,
}

#[derive(Debug, Serialize)]
struct Watch {
    requested: u64,
    interrupted: u64,
    last_interruption: Option<Interruption>,
}

#[derive(Debug, Serialize)]
struct Interruption {
    ago_ms: u64,
    message: String,
}

#[derive(Debug, Serialize)]
struct List {
    number: u64,
    ago_ms: u64,
    took_ms: u64,
    objects: u64,
    reason: &'static str,
    text: String,
    message: Option<String>,
    resource_version: String,
}

#[derive(Debug, Serialize)]
struct Handler {
    id: u64,
    name: String,
    pending: usize,
    oldest_ms: Option<u64>,
    received: u64,
    delivered: u64,
    merged: u64,
    panics: u64,
    synced: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Controller {
    id: u64,
    name: String,
    manager: Option<String>,
    /// Its part in the leader election of its manager, if there is one that concerns it.
    role: Option<&'static str>,
    workers: usize,
    started: bool,
    informers: Vec<String>,
    /// The ids of these informers, as far as they are in the document.
    informer_ids: Vec<u64>,
    /// The ids of its handlers at them, once it watches.
    handlers: Vec<u64>,
    reconciles: u64,
    failures: u64,
    busy_ms: u64,
    queue: Work,
}

#[derive(Debug, Serialize)]
pub(crate) struct Queue {
    id: u64,
    name: String,
    #[serde(flatten)]
    work: Work,
}

#[derive(Debug, Serialize)]
struct Work {
    ready: usize,
    delayed: usize,
    held: usize,
    added: u64,
    taken: u64,
    stopping: bool,
    keys: Vec<Key>,
}

#[derive(Debug, Serialize)]
struct Key {
    key: String,
    state: &'static str,
    for_ms: Option<u64>,
    due_ms: Option<u64>,
    attempts: u32,
    causes: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(feature = "grpc"), allow(dead_code, reason = "there are no channels without gRPC"))]
pub(crate) struct Channel {
    id: u64,
    name: String,
    target: String,
    state: &'static str,
    tone: Tone,
    problem: Option<String>,
    ready: usize,
    total: usize,
    calls: u64,
    in_flight: u64,
    failures: u64,
    /// False if the policy of the channel needs no latencies, so that none are measured.
    measures_latency: bool,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(feature = "grpc"), allow(dead_code, reason = "there are no channels without gRPC"))]
struct Endpoint {
    id: String,
    state: &'static str,
    tone: Tone,
    healthy: bool,
    ejected: bool,
    in_flight: u32,
    calls: u64,
    failures: u64,
    latency_ms: Option<f64>,
    error: Option<String>,
}

impl Informer {
    pub(crate) fn new(id: u64, manager: Option<String>, stats: InformerStats, now: Instant) -> Self {
        let InformerStats { health, resource, .. } = &stats;
        let (state, tone) = state_of(&stats);
        let retry_in_ms = match health.state {
            HealthState::Retrying { next, .. } => Some(ms(next.saturating_duration_since(now))),
            _ => None,
        };
        let problem = health.problem.as_ref().map(|it| Problem {
            message: bounded(&it.message),
            since_ms: age(it.since, now),
            count: it.count,
        });
        let last_interruption = stats.watches.last_interruption.as_ref();
        let last_interruption = last_interruption
            .map(|it| Interruption { ago_ms: age(it.at, now), message: bounded(&it.message) });
        Self {
            id,
            manager: manager.as_deref().map(bounded),
            kind: match resource.gvk.group.as_str() {
                "" => format!("{} {}", resource.gvk.kind, resource.gvk.version),
                group => format!("{} {group}/{}", resource.gvk.kind, resource.gvk.version),
            },
            resource: resource.plural.to_string(),
            state,
            tone,
            problem,
            retry_in_ms,
            resource_version: stats.version.as_str().to_owned(),
            objects: stats.objects,
            bytes: stats.memory,
            received: stats.applied,
            queued: stats.queued,
            queue_capacity: stats.queue_capacity,
            last_event_ms: health.last_event_at.map(|it| age(it, now)),
            relists: health.relists,
            rewinds: health.rewinds,
            undecodable: health.undecodable,
            watch: Watch {
                requested: stats.watches.requested,
                interrupted: stats.watches.interrupted,
                last_interruption,
            },
            history: stats.relists.iter().map(|it| List::new(it, now)).collect(),
            handlers: stats.handlers.into_iter().take(MAX_PARTS).map(Handler::new).collect(),
            name: bounded(&stats.name),
        }
    }
}

/// Returns the state of an informer in words, and its severity.
fn state_of(stats: &InformerStats) -> (String, Tone) {
    let health = &stats.health;
    match health.state {
        HealthState::Starting => ("starting".to_owned(), Tone::Wait),
        HealthState::Listing { items } => {
            (format!("listing, {items}"), if health.synced { Tone::Warn } else { Tone::Wait })
        }
        HealthState::Synced if health.is_ok() => ("synced".to_owned(), Tone::Ok),
        HealthState::Synced => ("degraded".to_owned(), Tone::Warn),
        HealthState::Retrying { .. } => ("retrying".to_owned(), Tone::Bad),
        HealthState::NotServed => ("not served".to_owned(), Tone::Bad),
        HealthState::Stopped => ("stopped".to_owned(), Tone::Warn),
        _ => (bounded(&health.to_string()), Tone::Warn),
    }
}

impl List {
    fn new(list: &Relist, now: Instant) -> Self {
        let reason = match list.reason {
            RelistReason::Start => "start",
            RelistReason::Restarted => "restarted",
            RelistReason::NotServed => "not-served",
            RelistReason::Expired => "expired",
            RelistReason::HistoryReset => "history-reset",
            RelistReason::Connection => "connection",
            RelistReason::Silence => "silence",
            RelistReason::ServerError => "server-error",
            _ => "other",
        };
        Self {
            number: list.number,
            ago_ms: age(list.completed_at, now),
            took_ms: ms(list.took),
            objects: list.objects,
            reason,
            text: list.reason.to_string(),
            message: list.message.as_deref().map(bounded),
            resource_version: list.version.as_str().to_owned(),
        }
    }
}

impl Handler {
    fn new(stats: HandlerStats) -> Self {
        Self {
            id: stats.id,
            name: bounded(&stats.name),
            pending: stats.pending,
            oldest_ms: stats.oldest.map(ms),
            received: stats.received,
            delivered: stats.delivered,
            merged: stats.merged,
            panics: stats.panics,
            synced: stats.synced,
        }
    }
}

impl Controller {
    /// Creates it from its numbers and the ids of its informers.
    pub(crate) fn new(
        id: u64,
        manager: Option<String>,
        is_elected: bool,
        informer_ids: Vec<u64>,
        stats: ControllerStats,
    ) -> Self {
        let role = if stats.started { "leader" } else { "standby" };
        Self {
            id,
            name: bounded(&stats.name),
            manager: manager.as_deref().map(bounded),
            role: (is_elected && stats.needs_leader_election).then_some(role),
            workers: stats.workers,
            started: stats.started,
            informers: stats.informers,
            informer_ids,
            handlers: stats.handlers,
            reconciles: stats.reconciles,
            failures: stats.failures,
            busy_ms: ms(stats.busy),
            queue: Work::new(stats.queue, Causes::to_string),
        }
    }
}

impl Queue {
    pub(crate) fn new<N>(
        id: u64,
        name: &str,
        snapshot: QueueSnapshot<String, N>,
        note: impl Fn(&N) -> String,
    ) -> Self {
        Self { id, name: bounded(name), work: Work::new(snapshot, note) }
    }
}

impl Work {
    fn new<N>(snapshot: QueueSnapshot<String, N>, note: impl Fn(&N) -> String) -> Self {
        let key = |it: KeySnapshot<String, N>| {
            let (state, for_ms, due_ms) = match it.stage {
                KeyStage::Held { elapsed, again: false } => ("in flight", elapsed.map(ms), None),
                KeyStage::Held { elapsed, again: true } => ("in flight, added again", elapsed.map(ms), None),
                KeyStage::Delayed { due } if it.requeues > 0 => ("retry", None, Some(ms(due))),
                KeyStage::Delayed { due } => ("delayed", None, Some(ms(due))),
                _ => ("known", None, None),
            };
            let causes = it.note.as_ref().map(&note).filter(|it| !it.is_empty() && it != "none");
            Key {
                key: bounded(&it.key),
                state,
                for_ms,
                due_ms,
                attempts: it.requeues,
                causes: causes.as_deref().map(bounded),
            }
        };
        Self {
            ready: snapshot.ready,
            delayed: snapshot.delayed,
            held: snapshot.held,
            added: snapshot.added,
            taken: snapshot.taken,
            stopping: snapshot.shutting_down,
            keys: snapshot.keys.into_iter().map(key).collect(),
        }
    }
}

#[cfg(feature = "grpc")]
impl Channel {
    pub(crate) fn new(id: u64, name: &str, stats: ChannelStats) -> Self {
        let (total, ready) = (stats.endpoints.len(), stats.ready);
        let sum = |value: fn(&EndpointStatus) -> u64| stats.endpoints.iter().map(value).sum::<u64>();
        let (state, tone) = match (ready, total) {
            (0, 0) => ("no endpoint", Tone::Bad),
            (0, _) => ("not ready", Tone::Bad),
            _ if ready < total => ("partly ready", Tone::Warn),
            _ => ("ready", Tone::Ok),
        };
        let shown = stats.endpoints.iter().take(MAX_PARTS);
        Self {
            id,
            name: bounded(name),
            target: bounded(&stats.target),
            state,
            tone,
            problem: stats.problem.as_deref().map(bounded),
            ready,
            total,
            calls: sum(|it| it.calls),
            in_flight: sum(|it| it.in_flight.into()),
            failures: sum(|it| it.failures),
            measures_latency: stats.measures_latency,
            endpoints: shown.map(|it| Endpoint::new(it, stats.measures_latency)).collect(),
        }
    }
}

#[cfg(feature = "grpc")]
impl Endpoint {
    fn new(status: &EndpointStatus, measures_latency: bool) -> Self {
        let (state, tone) = match status.state {
            ConnectionState::Ready => ("ready", Tone::Ok),
            ConnectionState::Idle => ("idle", Tone::Wait),
            ConnectionState::Connecting => ("connecting", Tone::Wait),
            ConnectionState::Backoff => ("backoff", Tone::Bad),
            ConnectionState::Draining => ("draining", Tone::Warn),
            ConnectionState::Closed => ("closed", Tone::Warn),
            _ => ("unknown", Tone::Warn),
        };
        let unfit = status.ejected || !status.healthy;
        let latency = status.latency.as_secs_f64() * 1000.0;
        Self {
            id: bounded(status.endpoint.id.as_str()),
            state,
            tone: if unfit && tone == Tone::Ok { Tone::Bad } else { tone },
            healthy: status.healthy,
            ejected: status.ejected,
            in_flight: status.in_flight,
            calls: status.calls,
            failures: status.failures,
            // Before the first call, it is an assumption.
            latency_ms: (measures_latency && status.calls > 0).then_some(latency),
            error: status.error.as_deref().map(bounded),
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn age(at: Instant, now: Instant) -> u64 {
    ms(now.saturating_duration_since(at))
}

/// Returns the beginning of a text.
pub(crate) fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_LIMIT)].to_owned()
}
