//! Pods: echo servers on loopback addresses that share one port, since a port belongs to the whole
//! slice.
//!
//! They run in the measuring process; callers run in others. Pods with tonic's server count their
//! calls and record when they came.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use grpc_testkit::{Handler, MethodKind, addresses, incoming, listeners_on_one_port};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Status;

use super::bare;
use super::caller::echo::{Echo, METHOD};

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
    server: Server,
}

/// A running server. Dropping it ends it.
enum Server {
    Tonic(grpc_testkit::Pod<CallRecord>),
    /// The task of the server.
    Bare(JoinSet<()>),
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
        let addresses = addresses(count.into());
        let listeners = listeners_on_one_port(&addresses)?;
        let port = listeners[0].local_addr()?.port();
        let pods = addresses.into_iter().zip(listeners).map(|(address, it)| Pod::serve(address, it, kind));
        Ok(Self { port, pods: pods.collect::<Result<_>>()? })
    }

    pub(super) fn all(&self) -> &[Pod] {
        &self.pods
    }

    pub(super) fn pod_mut(&mut self, number: usize) -> &mut Pod {
        &mut self.pods[number]
    }

    /// Returns the number of calls of each pod. Zero for bare pods.
    pub(super) fn calls(&self) -> Vec<u64> {
        self.pods.iter().map(|it| it.record().map_or(0, CallRecord::calls)).collect()
    }
}

impl Pod {
    fn serve(address: Ipv4Addr, listener: TcpListener, kind: Kind) -> Result<Self> {
        let server = match kind {
            Kind::Tonic => Server::Tonic(grpc_testkit::Pod::on_current_runtime([listener])?),
            Kind::Bare => Server::Bare([bare::serve(incoming(listener)?)].into_iter().collect()),
        };
        Ok(Self { address, server })
    }

    /// Shuts down as on SIGTERM: refuses new connections, sends GOAWAY on the others, and finishes
    /// calls in flight. A bare pod just closes its connections.
    pub(super) fn terminate(&mut self) {
        match &mut self.server {
            Server::Tonic(pod) => pod.terminate(),
            Server::Bare(task) => task.abort_all(),
        }
    }

    fn record(&self) -> Option<&CallRecord> {
        match &self.server {
            Server::Tonic(pod) => Some(&pod.seen),
            Server::Bare(_) => None,
        }
    }

    /// Delays every response from now on. Bare pods ignore it.
    pub(super) fn delay(&self, time: Duration) {
        if let Some(record) = self.record() {
            record.delay.store(time.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Returns the time of the first call since [`reset_times`](Self::reset_times).
    pub(super) fn first(&self) -> Option<Instant> {
        self.record().and_then(|it| it.moment(&it.first))
    }

    /// Returns the time of the last call.
    pub(super) fn last(&self) -> Option<Instant> {
        self.record().and_then(|it| it.moment(&it.last))
    }

    /// Resets the times of the first and last call.
    pub(super) fn reset_times(&self) {
        if let Some(record) = self.record() {
            record.first.store(0, Ordering::Relaxed);
            record.last.store(0, Ordering::Relaxed);
        }
    }
}

impl Default for CallRecord {
    fn default() -> Self {
        let (calls, first, last, delay) = Default::default();
        Self { since: Instant::now(), calls, first, last, delay }
    }
}

impl CallRecord {
    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
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
}

impl Handler for CallRecord {
    const NAME: &'static str = "bench.Echo";
    const METHODS: &'static [(&'static str, MethodKind)] = &[(METHOD, MethodKind::Unary)];
    type Message = Echo;

    async fn unary(self: Arc<Self>, message: Echo) -> Result<Echo, Status> {
        self.record_call();
        let delay = self.delay.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        Ok(message)
    }
}
