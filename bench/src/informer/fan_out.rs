//! From a watch to the handlers: the cost of one notification with 1, 10 and 100 handlers, and its
//! latency.
//!
//! The whole informer runs on a source that costs nothing. The cost of a notification is the CPU
//! time of a run with handlers minus that of a run without, per change and handler. Runs with and
//! without handlers alternate, and the fastest of each counts, so that a slow moment of the machine
//! does not affect only one of them. Where changes are coalesced, a slow handler receives fewer
//! notifications; the cost is still divided by the number of changes.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use cpu_time::ProcessTime;
use dogwatch::Error;
use dogwatch_core::{Gvk, Header, ListParams, Meta, Object, ResourceType, WatchParams};
use dogwatch_informer::{
    Change, EventHandler, HandlerOptions, ListEvent, ListWatch, Lists, Overflow, SharedInformer, Watches,
};
use dogwatch_wire::WatchEvent;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;

use super::settings::BenchSettings;

/// The number of objects, which change in turn.
const OBJECTS: u64 = 10_000;
/// The result of client-go's `BenchmarkListener` for one notification, in nanoseconds
/// (k8s.io/client-go v0.36.4 tools/cache/processor_listener_test.go).
pub(super) const CLIENT_GO: f64 = 1_776.0;
/// The pause between two events whose latency is measured.
const PACE: Duration = Duration::from_micros(500);

/// A pod with its metadata only.
struct Pod {
    metadata: Meta,
}

impl Object for Pod {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

fn pod(number: u64, version: u64) -> Pod {
    let mut metadata = Meta::default();
    metadata.name = format!("pod-{number:06}").into();
    metadata.namespace = "default".into();
    metadata.uid = format!("{number:032}").into();
    metadata.resource_version = version.to_string().into();
    Pod { metadata }
}

/// Lists the objects; its only watch sends the given events.
struct Source {
    resource: ResourceType,
    events: Mutex<Option<Watches<Pod>>>,
}

impl Source {
    fn new(events: Watches<Pod>) -> Self {
        let resource = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods");
        Self { resource, events: Mutex::new(Some(events)) }
    }
}

impl ListWatch<Pod> for Source {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn list(&self, _: ListParams) -> Lists<Pod> {
        let items = (0..OBJECTS).map(|it| Ok(ListEvent::Item(pod(it, 1))));
        let end = Ok(ListEvent::End { version: "1".into(), paginated: false });
        stream::iter(items.chain([end])).boxed()
    }

    fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<Pod>, Error>> {
        let events = self.events.lock().ok().and_then(|mut it| it.take());
        async move { Ok(events.unwrap_or_else(|| stream::pending().boxed())) }.boxed()
    }

    fn lacks_initial_events(&self) -> bool {
        true
    }
}

/// Counts its notifications.
struct Count(Arc<AtomicU64>);

impl EventHandler<Pod> for Count {
    fn on_change(&mut self, _: &Change<Pod>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// CPU time of one notification, in nanoseconds, by overflow policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) handlers: usize,
    pub(super) coalesce: f64,
    pub(super) grow: f64,
}

/// Prints the tables. Returns the costs of a notification.
///
/// # Errors
/// If notifications are lost.
pub(super) fn run(settings: &BenchSettings) -> Result<Vec<Cost>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("\none notification, CPU time beyond that of an informer without handlers");
    println!("{:>9} {:>14} {:>14} {:>22}", "handlers", "Coalesce, ns", "Grow, ns", "without, ns a change");
    let mut costs = Vec::new();
    for handlers in [1, 10, 100] {
        let events = settings.events / (handlers as u64).min(10);
        // Without handlers, and with each of the two policies.
        let mut best = [f64::INFINITY; 3];
        for _ in 0..settings.rounds {
            let kinds = [(0, Overflow::Coalesce), (handlers, Overflow::Coalesce), (handlers, Overflow::Grow)];
            for (best, (handlers, overflow)) in best.iter_mut().zip(kinds) {
                *best = best.min(runtime.block_on(flood(handlers, overflow, events, None))?);
            }
        }
        let [bare, coalesce, grow] = best;
        let cost = |time: f64| (time - bare).max(0.0) * 1e9 / (events * handlers as u64) as f64;
        let (coalesce, grow) = (cost(coalesce), cost(grow));
        println!("{handlers:>9} {coalesce:>14.0} {grow:>14.0} {:>22.0}", bare * 1e9 / events as f64);
        costs.push(Cost { handlers, coalesce, grow });
    }
    println!("\nfrom the event to the handler, one event every {PACE:?}");
    println!("{:>9} {:>10} {:>10}", "handlers", "p50, us", "p99, us");
    for handlers in [1, 10, 100] {
        let (median, late) = runtime.block_on(latency(handlers, settings.events / 100))?;
        println!("{handlers:>9} {:>10.1} {:>10.1}", median * 1e6, late * 1e6);
    }
    Ok(costs)
}

/// Sends the changes to an informer all at once, while its numbers are read at an interval. Returns
/// the CPU seconds that all of it took.
pub(crate) async fn flood(
    handlers: usize,
    overflow: Overflow,
    events: u64,
    reading: Option<Duration>,
) -> Result<f64> {
    let changes: Vec<_> = (0..events).map(|it| Ok(WatchEvent::Modified(pod(it % OBJECTS, it + 2)))).collect();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let source = Source::new(gone.map(|_| stream::iter(changes)).flatten_stream().boxed());
    let informer = SharedInformer::new(source);
    let notified = Arc::new(AtomicU64::new(0));
    let mut registrations = Vec::new();
    for _ in 0..handlers {
        let options = HandlerOptions::default().overflow(overflow);
        registrations.push(informer.add_handler_with(Count(Arc::clone(&notified)), options)?);
    }
    informer.start();
    informer.synced().await?;
    for registration in registrations {
        registration.synced().await?;
    }
    notified.store(0, Ordering::Relaxed);
    let mut readers = tokio::task::JoinSet::new();
    if let Some(interval) = reading {
        let (monitor, mut ticks) = (informer.monitor(), tokio::time::interval(interval));
        readers.spawn(async move {
            loop {
                ticks.tick().await;
                black_box(monitor.stats());
            }
        });
    }
    let start = ProcessTime::now();
    drop(go);
    informer.wait_until(&(events + 1).to_string().into()).await?;
    // Stopping delivers the remaining notifications to the handlers.
    informer.stop().await;
    let took = start.elapsed().as_secs_f64();
    let notified = notified.load(Ordering::Relaxed);
    if overflow == Overflow::Grow {
        ensure!(
            notified == events * handlers as u64,
            "{notified} notifications instead of {}",
            events * handlers as u64
        );
    }
    Ok(took)
}

/// Measures the latency of each notification.
struct Clock {
    sent: Arc<Mutex<Vec<Instant>>>,
    late: Arc<Mutex<Vec<Duration>>>,
}

impl EventHandler<Pod> for Clock {
    fn on_update(&mut self, _: &Arc<Pod>, new: &Arc<Pod>) {
        let now = Instant::now();
        let at = new.header().version.parse::<usize>().ok().and_then(|it| it.checked_sub(2));
        let sent = at.and_then(|at| self.sent.lock().ok()?.get(at).copied());
        if let (Some(sent), Ok(mut late)) = (sent, self.late.lock()) {
            late.push(now - sent);
        }
    }
}

/// Returns the median and the 99th percentile, in seconds.
async fn latency(handlers: usize, events: u64) -> Result<(f64, f64)> {
    let sent = Arc::new(Mutex::new(Vec::with_capacity(events as usize)));
    let late = Arc::new(Mutex::new(Vec::with_capacity(events as usize * handlers)));
    let log = Arc::clone(&sent);
    let paced = stream::unfold(0, move |number| {
        let log = Arc::clone(&log);
        async move {
            if number == events {
                return std::future::pending().await;
            }
            tokio::time::sleep(PACE).await;
            let event = WatchEvent::Modified(pod(number % OBJECTS, number + 2));
            if let Ok(mut log) = log.lock() {
                log.push(Instant::now());
            }
            Some((Ok(event), number + 1))
        }
    });
    let informer = SharedInformer::new(Source::new(paced.boxed()));
    for _ in 0..handlers {
        // Every event counts, so none may be coalesced when the machine is slow.
        let options = HandlerOptions::default().overflow(Overflow::Grow);
        informer.add_handler_with(Clock { sent: Arc::clone(&sent), late: Arc::clone(&late) }, options)?;
    }
    informer.start();
    informer.wait_until(&(events + 1).to_string().into()).await?;
    informer.stop().await;
    let mut late = late.lock().map(|it| it.clone()).unwrap_or_default();
    ensure!(late.len() as u64 == events * handlers as u64, "{} notifications of {events} events", late.len());
    late.sort_unstable();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize].as_secs_f64();
    Ok((at(0.5), at(0.99)))
}
