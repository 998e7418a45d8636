//! The processor time and the resident memory of an informer: of its sync, of changes and of a
//! relist.

use anyhow::{Result, ensure};
use dogwatch::api::Resource;
use dogwatch::informer::HealthState;
use dogwatch::{SharedInformer, View};
use informer_cost::{ChangeCounter, Memory, Stopwatch, idle};
use k8s_openapi::NamespaceResourceScope;
use tokio::time::Instant;

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
    let counted = ChangeCounter::start(&informer, task.updates)?;
    informer.start();
    informer.synced().await?;
    let (sync_s, cpu_s) = (Some(began.elapsed().as_secs_f64()), Some(stopwatch.seconds()));
    let objects = informer.store().len();
    // What is left of the sync, such as the first calls of the handler, is not a cost of changes.
    idle().await;
    let Memory { peak: rss_peak_mb, now: rss_mb, .. } = Memory::read();
    let stopwatch = Stopwatch::start();
    print(&Synced { synced: objects })?;
    let events = counted.reached().await;
    let cpu_us_per_event = (events > 0).then(|| stopwatch.seconds() * 1e6 / events as f64);

    idle().await;
    let (before, stopwatch) = (informer.health().relists, Stopwatch::start());
    expiry.expire();
    let mut health = informer.health_watch();
    let listed_again = health.wait_for(|it| it.relists > before && it.state == HealthState::Synced).await;
    ensure!(listed_again.is_some(), "the informer ended");
    idle().await;
    let relist_cpu_s = Some(stopwatch.seconds());
    ensure!(informer.store().len() == objects, "the number of objects has changed");
    let live_bytes = None;
    print(&Report { objects, sync_s, cpu_s, rss_peak_mb, rss_mb, cpu_us_per_event, live_bytes, relist_cpu_s })
}
