//! The heap of a synced informer, counted by an allocator that counts for each thread: all tasks
//! run on this one.

use std::time::Duration;

use anyhow::{Context, Result};
use dogwatch::api::Resource;
use dogwatch::{SharedInformer, View};
use k8s_openapi::NamespaceResourceScope;

use super::report::{Report, Synced};
use super::task::{Prepare, Task, print};

/// The time after the sync in which buffers of the list are released.
const REST: Duration = Duration::from_secs(1);

/// Measures an informer with this payload, and prints the report.
pub(super) fn measure<T: View>(task: &Task, prepare: Prepare<T>) -> Result<()>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut informer = None;
    let counted = allocation_counter::measure(|| informer = Some(runtime.block_on(synced(task, prepare))));
    let informer = informer.context("the closure did not run")??;
    let objects = informer.store().len();
    print(&Synced { synced: objects })?;
    print(&Report { objects, live_bytes: Some(counted.bytes_current as f64), ..Report::default() })
}

async fn synced<T: View>(task: &Task, prepare: Prepare<T>) -> Result<SharedInformer<T>>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    let informer = prepare(SharedInformer::builder(task.api::<T>()?)).build();
    informer.start();
    informer.synced().await?;
    tokio::time::sleep(REST).await;
    Ok(informer)
}
