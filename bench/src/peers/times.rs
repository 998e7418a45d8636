//! The processor time and the resident memory of an informer: of its sync, of changes and of a
//! relist.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use dogwatch::api::Resource;
use dogwatch::informer::{Change, EventHandler, HandlerOptions, HealthState, Overflow};
use dogwatch::{SharedInformer, View};
use k8s_openapi::NamespaceResourceScope;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cost::{self, Memory, Stopwatch};
use super::relisting::{Expiry, Relisting};
use super::report::{Report, Synced};
use super::task::{Prepare, Task, print};

/// Measures an informer with this payload, and prints the report.
pub(super) async fn measure<T: View>(task: &Task, prepare: Prepare<T>) -> Result<()>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    let (api, expiry) = (task.api::<T>()?, Expiry::default());
    let (began, stopwatch) = (Instant::now(), Stopwatch::start());
    let source = Relisting::new(api, expiry.clone());
    let informer = prepare(SharedInformer::builder(source)).build();
    let counted = Counted::start(&informer, task.updates)?;
    informer.start();
    informer.synced().await?;
    let (sync_s, cpu_s) = (Some(began.elapsed().as_secs_f64()), Some(stopwatch.seconds()));
    let objects = informer.store().len();
    // What is left of the sync, such as the first calls of the handler, is not a cost of changes.
    cost::idle().await;
    let Memory { peak: rss_peak_mb, now: rss_mb } = Memory::read();
    let stopwatch = Stopwatch::start();
    print(&Synced { synced: objects })?;
    let events = counted.reached().await;
    let cpu_us_per_event = (events > 0).then(|| stopwatch.seconds() * 1e6 / events as f64);

    cost::idle().await;
    let (before, stopwatch) = (informer.health().relists, Stopwatch::start());
    expiry.expire();
    let mut health = informer.health_watch();
    let listed_again = health.wait_for(|it| it.relists > before && it.state == HealthState::Synced).await;
    ensure!(listed_again.is_some(), "the informer ended");
    cost::idle().await;
    let relist_cpu_s = Some(stopwatch.seconds());
    ensure!(informer.store().len() == objects, "the number of objects has changed");
    let live_bytes = None;
    print(&Report { objects, sync_s, cpu_s, rss_peak_mb, rss_mb, cpu_us_per_event, live_bytes, relist_cpu_s })
}

/// Counts the changes after the first list.
struct Counted {
    wanted: u64,
    seen: Arc<(AtomicU64, Notify)>,
}

impl Counted {
    fn start<T: View>(informer: &SharedInformer<T>, wanted: u64) -> Result<Self> {
        let seen = Arc::new((AtomicU64::new(0), Notify::new()));
        let every = HandlerOptions::default().name("bench").overflow(Overflow::Grow);
        informer.add_handler_with(Count { wanted, seen: Arc::clone(&seen) }, every)?;
        Ok(Self { wanted, seen })
    }

    /// Waits for the wanted number of changes, and returns the actual number.
    async fn reached(&self) -> u64 {
        loop {
            let rung = self.seen.1.notified();
            let seen = self.seen.0.load(Ordering::Acquire);
            if seen >= self.wanted {
                return seen;
            }
            rung.await;
        }
    }
}

/// The handler of [`Counted`].
struct Count {
    wanted: u64,
    seen: Arc<(AtomicU64, Notify)>,
}

impl<T> EventHandler<T> for Count {
    fn on_change(&mut self, change: &Change<T>) {
        if matches!(change, Change::Added { initial: true, .. }) {
            return;
        }
        let seen = self.seen.0.fetch_add(1, Ordering::AcqRel) + 1;
        if seen == self.wanted {
            self.seen.1.notify_one();
        }
    }
}
