//! The shared state of a channel: its settings, and what its calls and its balancer share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::uri::{Authority, Scheme};
use tokio::sync::{Notify, watch};

use super::methods::Methods;
use super::metrics::ChannelMetrics;
use super::snapshot::{Snapshot, UnreadyReason};
use crate::connection::{Backend, ConnectionState, Connector, Timing};
use crate::endpoints::Endpoint;
use crate::policy::{OutlierDetection, Policy, PolicyState, SlowStart, ZoneAware};

/// Asks the source of a channel's endpoints for changes.
pub(crate) type Resolve = Arc<dyn Fn() + Send + Sync>;

/// The settings that the user chose.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) zone: Option<ZoneAware>,
    pub(crate) outlier: Option<OutlierDetection>,
    pub(crate) slow_start: Option<SlowStart>,
    pub(crate) methods: Methods,
    pub(crate) subset: Option<usize>,
    /// Below this share of connected endpoints that are neither ejected nor unhealthy, all are
    /// used.
    pub(crate) panic_threshold: f64,
    /// The time for which a set without usable endpoints is ignored after one that had some.
    pub(crate) hold: Option<Duration>,
    pub(crate) lazy: bool,
    pub(crate) ready_timeout: Duration,
    pub(crate) replay_limit: usize,
    pub(crate) scheme: Scheme,
    /// The `:authority` of every call; `None` means the endpoint's address.
    pub(crate) authority: Option<Authority>,
    pub(crate) timing: Arc<Timing>,
    /// True if the drain deadline also applies to endpoints that were removed without having been
    /// terminating.
    pub(crate) drain_all: bool,
    pub(crate) connector: Arc<Connector>,
}

/// The state that calls and the balancer share.
#[derive(Debug)]
pub(crate) struct ChannelState {
    pub(crate) settings: Settings,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    /// Increases with every snapshot; calls that find no ready endpoint wait for it.
    pub(crate) revision: watch::Sender<u64>,
    /// All endpoints of the set, for inspection.
    pub(crate) members: ArcSwap<Vec<MemberView>>,
    pub(crate) policy_state: Arc<PolicyState>,
    /// Notified when a call needs an endpoint; only a lazy channel waits for it.
    pub(crate) demand: Notify,
    pub(crate) metrics: ChannelMetrics,
}

impl ChannelState {
    pub(crate) fn new(settings: Settings, name: &str) -> Self {
        let policy_state = Arc::new(PolicyState::new());
        let snapshot =
            Snapshot::without_endpoints(UnreadyReason::Unresolved, &settings.policy, &policy_state);
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            revision: watch::Sender::new(0),
            members: ArcSwap::from_pointee(Vec::new()),
            policy_state,
            demand: Notify::new(),
            metrics: ChannelMetrics::new(name),
            settings,
        }
    }

    /// Fails all calls that need an endpoint, now and later: there will be none.
    pub(crate) fn stop(&self) {
        let snapshot =
            Snapshot::without_endpoints(UnreadyReason::Stopped, &self.settings.policy, &self.policy_state);
        self.snapshot.store(Arc::new(snapshot));
        self.metrics.ready.set(0);
        self.revision.send_modify(|it| *it += 1);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let snapshot = self.snapshot.load();
        snapshot.unready.as_ref().is_some_and(|it| matches!(it.why, UnreadyReason::Stopped))
    }
}

/// An endpoint of the set, as the balancer knows it.
#[derive(Debug, Clone)]
pub(crate) struct MemberView {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) ejected: bool,
}

/// The status of an endpoint of a channel at one moment, for debugging.
///
/// ```
/// use dogwatch_grpc::{ConnectionState, KubeChannel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, health) = tonic_health::server::health_reporter();
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let address = listener.local_addr()?;
/// # let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
/// # let router = tonic::transport::Server::builder().add_service(health);
/// # tokio::spawn(router.serve_with_incoming(incoming));
/// let channel = KubeChannel::to([address])?.build()?;
/// channel.connected(1).await;
/// for status in channel.endpoints() {
///     println!("{:?} {:?}: {} calls", status.endpoint.id, status.state, status.calls);
///     assert_eq!(status.state, ConnectionState::Ready);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointStatus {
    /// The endpoint as listed in the set.
    pub endpoint: Arc<Endpoint>,
    /// The state of its connection.
    pub state: ConnectionState,
    /// The address it is connected to, while it is open for calls.
    pub peer: Option<SocketAddr>,
    /// False if health checking is on and the endpoint does not report that it serves.
    pub healthy: bool,
    /// True while the endpoint is ejected because its calls failed.
    pub ejected: bool,
    /// Calls that have not ended.
    pub in_flight: u32,
    /// All calls that were sent to it.
    pub calls: u64,
    /// All calls that it failed.
    pub failures: u64,
    /// The moving average of its latency; only measured for [`Policy::PeakEwma`].
    pub latency: Duration,
    /// The error of the current or the last connection attempt.
    pub error: Option<Arc<str>>,
}

impl EndpointStatus {
    pub(crate) fn of(view: &MemberView) -> Self {
        let status = view.backend.status();
        let load = &view.backend.load;
        Self {
            endpoint: Arc::clone(&view.endpoint),
            state: status.state,
            peer: status.link.map(|it| it.peer()),
            healthy: status.healthy,
            ejected: view.ejected,
            in_flight: load.in_flight(),
            calls: load.calls(),
            failures: load.failures(),
            latency: Duration::from_nanos(load.latency().average as u64),
            error: status.error,
        }
    }
}
