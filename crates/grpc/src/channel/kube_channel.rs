//! The handle that clients hold: a tower service, with methods to inspect the channel.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::sync::{oneshot, watch};
use tower_service::Service;

use super::body::ResponseBody;
use super::channel_state::{ChannelState, EndpointStatus, Resolve};
use super::exchange::Exchange;
use super::monitor::{ChannelMonitor, Observed};

/// A channel to all endpoints of a target, for any client that tonic generates.
///
/// Clones share everything. Calls may be made at any time: they wait inside the channel, up to
/// `ready_timeout` and their own deadline.
///
/// Failures are gRPC statuses, mostly `UNAVAILABLE`, whose metadata names the endpoint as
/// `dogwatch-endpoint`. A response that is not gRPC becomes a status too, by its HTTP status.
///
/// Dropping the future of a call, or the body of its response, cancels the call. When the last
/// clone is dropped and no call waits for its response, connections close as their last calls end.
///
/// Reports to the `metrics` facade, each with the label `target`: `dogwatch_grpc_calls_total` by
/// `endpoint` and `result` (`ok`, `error`, `cancelled`, or `unprocessed` for an attempt that was
/// sent to another endpoint), `dogwatch_grpc_calls_in_flight` by `endpoint`,
/// `dogwatch_grpc_retries_total` by `kind`, `dogwatch_grpc_ejections_total`,
/// `dogwatch_grpc_endpoints`, `dogwatch_grpc_endpoints_ready`,
/// `dogwatch_grpc_endpoint_states_total` by `state`, and `dogwatch_grpc_pick_wait_seconds` for
/// calls that found no endpoint at once. At most a hundred addresses of a channel have their own
/// label at a time; the others share `other`. The gauges of endpoints are sums over all channels of
/// a target.
///
/// ```
/// use dogwatch_grpc::KubeChannel;
/// use tonic_health::pb::HealthCheckRequest;
/// use tonic_health::pb::health_client::HealthClient;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, health) = tonic_health::server::health_reporter();
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let address = listener.local_addr()?;
/// # let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
/// # let router = tonic::transport::Server::builder().add_service(health);
/// # tokio::spawn(router.serve_with_incoming(incoming));
/// // In a cluster: dogwatch_grpc::channel("kubernetes:///greeter.shop:grpc").await?
/// let channel = KubeChannel::to([address])?.build()?;
/// let mut client = HealthClient::new(channel.clone()); // any client that tonic generates
/// client.check(HealthCheckRequest::default()).await?;
/// assert_eq!(channel.ready_endpoints(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KubeChannel {
    handle: Arc<Handle>,
}

struct Handle {
    channel: Arc<ChannelState>,
    /// Dropping it ends the balancer.
    _stop: oneshot::Sender<Infallible>,
    resolve: Option<Resolve>,
    _held: Vec<Box<dyn Any + Send + Sync>>,
}

impl Observed for Handle {
    fn channel(&self) -> &ChannelState {
        &self.channel
    }
}

/// The handle that a call holds.
struct CallGuard(Arc<Handle>);

impl Deref for CallGuard {
    type Target = ChannelState;

    fn deref(&self) -> &ChannelState {
        &self.0.channel
    }
}

impl fmt::Debug for KubeChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.handle.channel.settings;
        f.debug_struct("KubeChannel")
            .field("authority", &settings.authority)
            .field("policy", &settings.policy)
            .field("ready", &self.ready_endpoints())
            .finish_non_exhaustive()
    }
}

impl KubeChannel {
    /// Creates the handle of a channel whose balancer ends when `stop` is dropped.
    pub(super) fn new(
        channel: Arc<ChannelState>,
        stop: oneshot::Sender<Infallible>,
        resolve: Option<Resolve>,
        held: Vec<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { handle: Arc::new(Handle { channel, _stop: stop, resolve, _held: held }) }
    }

    /// Asks the source of the endpoints for changes, as
    /// [`EndpointWatch::resolve_now`](crate::EndpointWatch::resolve_now) does. The channel does
    /// this by itself when no endpoint can be connected to. Does nothing if the source is only a
    /// stream of sets.
    pub fn resolve_now(&self) {
        self.handle.resolve.iter().for_each(|it| it());
    }

    /// Returns every endpoint of the set ordered by id, then removed endpoints that still have
    /// calls. The states are read one after the other, not atomically.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.handle.channel.members.load().iter().map(EndpointStatus::of).collect()
    }

    /// Returns an observer of the channel that does not keep it open.
    pub fn monitor(&self) -> ChannelMonitor {
        let handle = Arc::downgrade(&self.handle);
        ChannelMonitor::new(handle)
    }

    /// Returns the number of endpoints that can be picked now.
    pub fn ready_endpoints(&self) -> usize {
        self.handle.channel.snapshot.load().group.len()
    }

    /// Returns a number that increases whenever endpoints or their states change; call
    /// [`endpoints`](Self::endpoints) then. A slow reader sees only the newest number. The
    /// endpoints are not sent themselves, because collecting them costs more than most changes are
    /// worth. It is tokio's receiver, as wherever only the newest value of one source matters: a
    /// type of ours would repeat its methods.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.handle.channel.revision.subscribe()
    }

    /// Waits until at least this many endpoints can be picked. Does not wake a lazy channel.
    /// Returns false if the channel has stopped, because its runtime has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connected(&self, count: usize) -> bool {
        let mut revision = self.subscribe();
        while self.ready_endpoints() < count {
            // The sender lives in the channel that we hold.
            if self.handle.channel.is_stopped() || revision.changed().await.is_err() {
                return false;
            }
        }
        true
    }
}

impl<B> Service<Request<B>> for KubeChannel
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    /// Always ready: calls wait inside the channel, where their deadline is known.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The caller need not keep the channel until the response arrives: the call holds it.
        let mut exchange = Exchange::new(CallGuard(Arc::clone(&self.handle)), request);
        Box::pin(async move { Ok(exchange.answer().await) })
    }
}
