//! Measures kube-rs' reflector of pods; see ../../../README.md.

use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cpu_time::ProcessTime;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher as watch};
use kube::{Api, Client, Config};
use serde_json::json;

/// A process is idle if it uses at most `IDLE` of processor time in `REST`.
const REST: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_millis(5);

/// Keeps a cache of pods and prints what it costs.
#[derive(Debug, Parser)]
struct Options {
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

fn main() -> Result<()> {
    let options = Options::parse();
    if options.heap {
        return heap(&options);
    }
    tokio::runtime::Runtime::new()?.block_on(measure(&options))
}

async fn api(options: &Options) -> Result<Api<Pod>> {
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig).context("cannot read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Api::namespaced(Client::try_from(config)?, &options.namespace))
}

fn changes(api: Api<Pod>) -> impl Stream<Item = watcher::Result<Event<Pod>>> {
    watch(api, watcher::Config::default()).default_backoff()
}

/// Applies events to the store, as `reflect` does, until this many lists are complete and this many
/// changes were received after them.
async fn follow(
    changes: &mut (impl Stream<Item = watcher::Result<Event<Pod>>> + Unpin),
    store: &mut Writer<Pod>,
    mut lists: u64,
    mut updates: u64,
) -> Result<()> {
    while lists > 0 || updates > 0 {
        match changes.next().await.context("the watcher ended")? {
            Ok(event) => {
                store.apply_watcher_event(&event);
                match event {
                    Event::InitDone => lists = lists.saturating_sub(1),
                    Event::Apply(_) | Event::Delete(_) => updates = updates.saturating_sub(1),
                    _ => {}
                }
            }
            // The watcher retries by itself, with backoff.
            Err(error) => eprintln!("kube-rs: {error}"),
        }
    }
    Ok(())
}

async fn measure(options: &Options) -> Result<()> {
    let api = api(options).await?;
    let (began, used) = (Instant::now(), ProcessTime::now());
    let mut store = Writer::default();
    let reader = store.as_reader();
    let mut watched = pin!(changes(api.clone()));
    follow(&mut watched, &mut store, 1, 0).await?;
    let (sync_s, cpu_s) = (began.elapsed().as_secs_f64(), used.elapsed().as_secs_f64());
    let objects = reader.len();
    // The watch is opened only if the stream is polled; there are no changes yet.
    let _ = tokio::time::timeout(2 * REST, follow(&mut watched, &mut store, 0, 1)).await;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (peak, steady) = (megabytes(&status, "VmHWM:"), megabytes(&status, "VmRSS:"));
    let used = ProcessTime::now();
    println!("{}", json!({ "synced": objects }));
    follow(&mut watched, &mut store, 0, options.updates).await?;
    let seconds = used.elapsed().as_secs_f64();
    let event = (options.updates > 0).then(|| seconds * 1e6 / options.updates as f64);

    idle().await;
    let used = ProcessTime::now();
    // A new watcher lists again; the store replaces its objects when the list is complete.
    watched.set(changes(api));
    follow(&mut watched, &mut store, 1, 0).await?;
    idle().await;
    let relist_cpu_s = used.elapsed().as_secs_f64();
    ensure!(reader.len() == objects, "the number of objects has changed");
    let report = json!({
        "objects": objects, "sync_s": sync_s, "cpu_s": cpu_s, "rss_peak_mb": peak, "rss_mb": steady,
        "cpu_us_per_event": event, "relist_cpu_s": relist_cpu_s,
    });
    println!("{report}");
    Ok(())
}

/// Waits until this process does nothing any more.
async fn idle() {
    loop {
        let used = ProcessTime::now();
        tokio::time::sleep(REST).await;
        if used.elapsed() < IDLE {
            return;
        }
    }
}

fn megabytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|it| it.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

/// Measures the heap. The allocator counts for each thread, so all tasks run on this one.
#[cfg(feature = "heap")]
fn heap(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut store = Writer::default();
    let (mut watched, mut done) = (None, anyhow::Ok(()));
    let counted = allocation_counter::measure(|| {
        done = runtime.block_on(async {
            let mut changes = Box::pin(changes(api(options).await?));
            follow(&mut changes, &mut store, 1, 0).await?;
            // The watch is opened, and buffers of the list are released.
            let _ = tokio::time::timeout(2 * REST, follow(&mut changes, &mut store, 0, 1)).await;
            watched = Some(changes);
            Ok(())
        });
    });
    done?;
    let objects = store.as_reader().len();
    println!("{}", json!({ "synced": objects }));
    println!("{}", json!({ "objects": objects, "live_bytes": counted.bytes_current }));
    drop(watched);
    Ok(())
}

#[cfg(not(feature = "heap"))]
fn heap(_: &Options) -> Result<()> {
    anyhow::bail!("this program was built without the feature `heap`")
}
