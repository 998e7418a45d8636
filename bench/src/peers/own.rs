//! Our own contenders. Each runs in a process of its own, which the benchmark starts as
//! `bench peers contend NAME …`: an informer of pods with one type of payload.
//!
//! They are in this program and not in the `dogwatch` command because this one is compiled as users
//! compile theirs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dogwatch::api::{PartialObjectMeta, Resource};
use dogwatch::config::Overrides;
use dogwatch::informer::{Change, EventHandler, HandlerOptions, HealthState, Overflow};
use dogwatch::{Api, Client, Config, SharedInformer, View};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cost::{self, Memory, Stopwatch};
use super::names::{FULL, METADATA, VIEW};
use super::relisting::{Expiry, Relisting};
use super::report::{Report, Synced};
use super::view::PodView;

/// A contender of ours: a name, and [`contend`] with its payload.
#[derive(Debug)]
pub(super) struct OwnContender {
    pub(super) name: &'static str,
    run: fn(&Task) -> Result<()>,
}

/// Our contenders, in the order of the table.
pub(super) const OWN: &[OwnContender] = &[
    OwnContender { name: FULL, run: contend::<Pod> },
    OwnContender { name: VIEW, run: contend::<PodView> },
    OwnContender { name: METADATA, run: contend::<PartialObjectMeta<Pod>> },
];

/// The arguments that all contenders get.
#[derive(Debug, Parser)]
struct Task {
    /// The kubeconfig of the server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The namespace of the pods.
    #[arg(long)]
    namespace: String,
    /// The number of changes after the sync.
    #[arg(long)]
    updates: u64,
    /// Measure the heap of the synced cache, and nothing else.
    #[arg(long)]
    heap: bool,
}

/// Runs the contender whose name and arguments these are.
///
/// # Errors
/// If there is none of that name, or it fails.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let (name, arguments) = arguments.split_first().context("the name of the contender is missing")?;
    let contender = OWN.iter().find(|it| it.name == name);
    let contender = contender.with_context(|| format!("there is no contender {name:?}"))?;
    (contender.run)(&Task::parse_from(std::iter::once(name).chain(arguments)))
}

impl Task {
    fn api<T: View>(&self) -> Result<Api<T>>
    where
        T::Of: Resource<Scope = NamespaceResourceScope>,
    {
        let config = Config::from_kubeconfig(&self.kubeconfig, &Overrides::default())?;
        Ok(Api::namespaced(Client::new(config)?, &self.namespace))
    }
}

/// Measures an informer with this payload.
fn contend<T: View>(task: &Task) -> Result<()>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    if task.heap { heap::measure::<T>(task) } else { testbed::runtime::run(measure::<T>(task)) }
}

async fn measure<T: View>(task: &Task) -> Result<()>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    let (api, expiry) = (task.api::<T>()?, Expiry::default());
    let (began, stopwatch) = (Instant::now(), Stopwatch::start());
    let informer = SharedInformer::new(Relisting::new(api, expiry.clone()));
    let counted = Counted::start(&informer, task.updates)?;
    informer.start();
    informer.synced().await?;
    let (sync_s, cpu_s) = (Some(began.elapsed().as_secs_f64()), Some(stopwatch.seconds()));
    let objects = informer.store().len();
    print(&Synced { synced: objects })?;

    let stopwatch = Stopwatch::start();
    let events = counted.reached().await;
    let cpu_us_per_event = (events > 0).then(|| stopwatch.seconds() * 1e6 / events as f64);
    let Memory { peak: rss_peak_mb, now: rss_mb } = Memory::read();

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

#[cfg(feature = "heap")]
mod heap {
    //! The heap, counted by an allocator that counts for each thread: all tasks run on this one.

    use std::time::Duration;

    use super::*;

    /// The time after the sync in which buffers of the list are released.
    const REST: Duration = Duration::from_secs(1);

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
}

#[cfg(not(feature = "heap"))]
mod heap {
    use super::*;

    pub(super) fn measure<T: View>(_: &Task) -> Result<()> {
        anyhow::bail!("this program was built without the feature `heap`")
    }
}

fn print(line: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(line)?);
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_contender_is_an_error() {
        assert!(run(&["nonsense".to_owned()]).is_err_and(|it| it.to_string().contains("nonsense")));
        assert!(run(&[]).is_err());
    }
}
