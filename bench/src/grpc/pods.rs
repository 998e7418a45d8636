//! Pods: echo servers on loopback addresses that share one port, since a port belongs to the whole
//! slice.
//!
//! They run in the measuring process; callers run in others. Pods with tonic's server count their
//! calls and record when they came.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower_service::Service;

use super::bare;
use super::caller::echo::{Echo, codec};

/// The number of attempts to find a port that is free on all addresses.
const ATTEMPTS: usize = 20;

/// Servers on loopback addresses from 127.0.0.2 on, all on one port. Dropping this stops them.
pub(super) struct Pods {
    pub(super) port: u16,
    pods: Vec<Pod>,
}

/// The implementation of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// tonic's server, which counts its calls.
    Tonic,
    /// The minimal `h2` server, which counts nothing.
    Bare,
}

/// One server.
pub(super) struct Pod {
    pub(super) address: Ipv4Addr,
    record: Arc<CallRecord>,
    /// Dropping it shuts the server down as SIGTERM does.
    running: Option<oneshot::Sender<()>>,
}

/// The calls that a pod has received.
#[derive(Debug)]
struct CallRecord {
    since: Instant,
    calls: AtomicU64,
    /// The time of the first call, in microseconds since `since`, plus one. Zero for never.
    first: AtomicU64,
    last: AtomicU64,
    /// The delay of each response, in milliseconds.
    delay: AtomicU64,
}

impl Pods {
    /// Starts `count` pods, at most 250, with tonic's server.
    pub(super) fn start(count: u8) -> Result<Self> {
        Self::serve(count, Kind::Tonic)
    }

    /// Starts `count` pods, at most 250, of a kind.
    pub(super) fn serve(count: u8, kind: Kind) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let first = listen(0, 0)?;
            let port = first.local_addr()?.port();
            let others = (1..count).map(|it| listen(it, port));
            // The port is taken on one of the addresses: try another one.
            let Ok(others) = others.collect::<Result<Vec<_>>>() else { continue };
            let pods =
                [first].into_iter().chain(others).map(|it| Pod::serve(it, kind)).collect::<Result<_>>()?;
            return Ok(Self { port, pods });
        }
        Err(anyhow!("no port is free on {count} loopback addresses from 127.0.0.2 on"))
    }

    pub(super) fn all(&self) -> &[Pod] {
        &self.pods
    }

    pub(super) fn pod_mut(&mut self, number: usize) -> &mut Pod {
        &mut self.pods[number]
    }

    /// Returns the number of calls of each pod.
    pub(super) fn calls(&self) -> Vec<u64> {
        self.pods.iter().map(|it| it.record.calls.load(Ordering::Relaxed)).collect()
    }
}

fn listen(number: u8, port: u16) -> Result<TcpIncoming> {
    let address = SocketAddr::from(([127, 0, 0, number + 2], port));
    let incoming = TcpIncoming::bind(address).map_err(|it| anyhow!("{it}"));
    incoming.with_context(|| format!("cannot listen on {address}")).map(|it| it.with_nodelay(Some(true)))
}

impl Pod {
    fn serve(incoming: TcpIncoming, kind: Kind) -> Result<Self> {
        let SocketAddr::V4(address) = incoming.local_addr()? else {
            unreachable!("the listener is bound to an IPv4 address")
        };
        let record = Arc::new(CallRecord::new());
        let (running, stopped) = oneshot::channel::<()>();
        match kind {
            Kind::Tonic => {
                let server = Server::builder().add_service(EchoServer(Arc::clone(&record)));
                tokio::spawn(server.serve_with_incoming_shutdown(incoming, stopped.map(drop)));
            }
            Kind::Bare => {
                tokio::spawn(async move {
                    tokio::select! {
                        () = bare::serve(incoming) => {}
                        _ = stopped => {}
                    }
                });
            }
        }
        Ok(Self { address: *address.ip(), record, running: Some(running) })
    }

    /// Shuts down as on SIGTERM: refuses new connections, sends GOAWAY on the others, and finishes
    /// calls in flight.
    pub(super) fn terminate(&mut self) {
        self.running = None;
    }

    /// Delays every response from now on.
    pub(super) fn delay(&self, time: Duration) {
        self.record.delay.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns the time of the first call since [`reset_times`](Self::reset_times).
    pub(super) fn first(&self) -> Option<Instant> {
        self.record.moment(&self.record.first)
    }

    /// Returns the time of the last call.
    pub(super) fn last(&self) -> Option<Instant> {
        self.record.moment(&self.record.last)
    }

    /// Resets the times of the first and last call.
    pub(super) fn reset_times(&self) {
        self.record.first.store(0, Ordering::Relaxed);
        self.record.last.store(0, Ordering::Relaxed);
    }
}

impl CallRecord {
    fn new() -> Self {
        let (calls, first, last, delay) = Default::default();
        Self { since: Instant::now(), calls, first, last, delay }
    }

    fn record_call(&self) {
        let now = self.since.elapsed().as_micros() as u64 + 1;
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(now, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
    }

    fn moment(&self, of: &AtomicU64) -> Option<Instant> {
        let micros = of.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.since + Duration::from_micros(micros))
    }

    async fn echo(&self, request: Request<Echo>) -> Result<Response<Echo>, Status> {
        self.record_call();
        let delay = self.delay.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        Ok(Response::new(request.into_inner()))
    }
}

#[derive(Debug, Clone)]
struct EchoServer(Arc<CallRecord>);

impl NamedService for EchoServer {
    const NAME: &'static str = "bench.Echo";
}

impl Service<http::Request<Body>> for EchoServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let record = Arc::clone(&self.0);
        Box::pin(async move {
            let echo = move |it| {
                let record = Arc::clone(&record);
                async move { record.echo(it).await }
            };
            Ok(tonic::server::Grpc::new(codec()).unary(tower::service_fn(echo), request).await)
        })
    }
}
