//! What a channel is made of: its settings, and what its calls and its balancer share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::uri::{Authority, Scheme};
use tokio::sync::{Notify, watch};

use super::meter::ChannelMeter;
use super::methods::Methods;
use super::snapshot::{Snapshot, Why};
use crate::connection::{Backend, Dialler, State, Timing};
use crate::endpoints::Endpoint;
use crate::policy::{Memory, Outlier, Policy, SlowStart, ZoneAware};

/// Asks the source of a channel's endpoints to look again.
pub(crate) type Resolve = Arc<dyn Fn() + Send + Sync>;

/// What a user chose.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) zone: Option<ZoneAware>,
    pub(crate) outlier: Option<Outlier>,
    pub(crate) slow_start: Option<SlowStart>,
    pub(crate) methods: Methods,
    pub(crate) subset: Option<usize>,
    /// Below this share of connected endpoints that are neither ejected nor unhealthy, all are used.
    pub(crate) panic_threshold: f64,
    /// How long a set that has nobody to call is not believed after one that had.
    pub(crate) hold: Option<Duration>,
    pub(crate) lazy: bool,
    pub(crate) ready_timeout: Duration,
    pub(crate) replay_limit: usize,
    pub(crate) scheme: Scheme,
    /// `:authority` of every call; the endpoint's address if there is none.
    pub(crate) authority: Option<Authority>,
    pub(crate) timing: Arc<Timing>,
    /// Whether the drain deadline also holds for endpoints that were removed without having been terminating.
    pub(crate) drain_all: bool,
    pub(crate) dialler: Arc<Dialler>,
}

/// What calls and the balancer share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    /// Goes up with every snapshot; calls that find nobody ready wait for it.
    pub(crate) revision: watch::Sender<u64>,
    /// Everybody in the set, for those who want to look.
    pub(crate) members: ArcSwap<Vec<Shown>>,
    pub(crate) memory: Arc<Memory>,
    /// Somebody wants to call; only a lazy channel listens.
    pub(crate) demand: Notify,
    pub(crate) meter: ChannelMeter,
}

impl Core {
    pub(crate) fn new(settings: Settings, name: &str) -> Self {
        let memory = Arc::new(Memory::new());
        let nobody = Snapshot::of_nobody(Why::Unresolved, &settings.policy, &memory);
        Self {
            snapshot: ArcSwap::from_pointee(nobody),
            revision: watch::Sender::new(0),
            members: ArcSwap::from_pointee(Vec::new()),
            memory,
            demand: Notify::new(),
            meter: ChannelMeter::new(name),
            settings,
        }
    }

    /// Fails all calls that need an endpoint, now and later: there will be none.
    pub(crate) fn stop(&self) {
        let nobody = Snapshot::of_nobody(Why::Stopped, &self.settings.policy, &self.memory);
        self.snapshot.store(Arc::new(nobody));
        self.meter.ready.set(0);
        self.revision.send_modify(|it| *it += 1);
    }
}

/// An endpoint of the set, as the balancer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) ejected: bool,
}

/// An endpoint of a channel at one moment, for debugging.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointStatus {
    /// What the set says of it.
    pub endpoint: Arc<Endpoint>,
    /// How its connection stands.
    pub state: State,
    /// The address it is connected to, while it is open for calls.
    pub peer: Option<SocketAddr>,
    /// False when it was asked for its health and is not well.
    pub healthy: bool,
    /// Left out for a while because its calls failed.
    pub ejected: bool,
    /// Calls that have not ended.
    pub in_flight: u32,
    /// Calls ever sent to it.
    pub calls: u64,
    /// Calls that it failed.
    pub failures: u64,
    /// The moving average of its latency; only measured for [`Policy::PeakEwma`].
    pub latency: Duration,
    /// Why it is not connected, or why it was not the last time.
    pub error: Option<Arc<str>>,
}

impl EndpointStatus {
    pub(crate) fn of(shown: &Shown) -> Self {
        let standing = shown.backend.standing();
        let load = &shown.backend.load;
        Self {
            endpoint: Arc::clone(&shown.endpoint),
            state: standing.state,
            peer: standing.link.map(|it| it.peer()),
            healthy: standing.healthy,
            ejected: shown.ejected,
            in_flight: load.in_flight(),
            calls: load.calls(),
            failures: load.failures(),
            latency: Duration::from_nanos(load.latency().average as u64),
            error: standing.error,
        }
    }
}
