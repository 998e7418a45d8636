//! The heap of a synced informer, counted by an allocator that counts for each thread: all tasks run on
//! this one.

use std::time::Duration;

use anyhow::{Context, Result};
use dogwatch::api::Resource;
use dogwatch::{SharedInformer, View};
use k8s_openapi::NamespaceResourceScope;

use super::report::{Report, Synced};
use super::task::{Task, print};

/// The time after the sync in which buffers of the list are released.
const REST: Duration = Duration::from_secs(1);

/// Measures an informer with this payload, and prints the report.
pub(super) fn measure<T: View>(task: &Task) -> Result<()>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut informer = None;
    let counted = allocation_counter::measure(|| informer = Some(runtime.block_on(synced::<T>(task))));
    let informer = informer.context("the closure did not run")??;
    let objects = informer.store().len();
    print(&Synced { synced: objects })?;
    print(&Report { objects, live_bytes: Some(counted.bytes_current as f64), ..Report::default() })
}

async fn synced<T: View>(task: &Task) -> Result<SharedInformer<T>>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    let informer = SharedInformer::new(task.api::<T>()?);
    informer.start();
    informer.synced().await?;
    tokio::time::sleep(REST).await;
    Ok(informer)
}
