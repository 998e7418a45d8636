//! Measures the store of kube-rs' reflector: updates with concurrent readers, and a list by label;
//! see ../../../README.md.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;

// These values must match bench/src/informer.
const NAMESPACE: &str = "default";
const MANY: usize = 100_000;
const GROUP: usize = 100;

fn pod(number: usize, version: usize) -> Pod {
    let mut pod = Pod::default();
    // Twenty unordered characters, as in generated names.
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    pod.metadata.name = Some(format!("{mixed:016x}{:04x}", number & 0xffff));
    pod.metadata.namespace = Some(NAMESPACE.to_owned());
    pod.metadata.labels = Some([("group".to_owned(), (number / GROUP).to_string())].into());
    pod.metadata.resource_version = Some(version.to_string());
    pod
}

fn filled(count: usize) -> Writer<Pod> {
    let mut writer = Writer::default();
    writer.apply_watcher_event(&Event::Init);
    (0..count).for_each(|it| writer.apply_watcher_event(&Event::InitApply(pod(it, 1))));
    writer.apply_watcher_event(&Event::InitDone);
    writer
}

/// Updates objects one by one while readers list all of them. Returns reads and writes per second.
fn beside_readers(writer: &mut Writer<Pod>, count: usize, readers: usize, time: Duration) -> (f64, f64) {
    let store = writer.as_reader();
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    black_box(store.state());
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (start, mut writes) = (Instant::now(), 0_usize);
        while start.elapsed() < time {
            let number = writes.wrapping_mul(2_654_435_761) % count;
            writer.apply_watcher_event(&Event::Apply(pod(number, writes + 2)));
            writes += 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        let reads = reads.load(Ordering::Relaxed) as f64;
        stop.store(true, Ordering::Relaxed);
        (reads / seconds, writes as f64 / seconds)
    })
}

/// Returns the nanoseconds to find the pods of one group by their label, the best of several
/// rounds.
fn label() -> Result<f64> {
    let store = filled(MANY).as_reader();
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        let is_wanted = |it: &Pod| {
            it.metadata.labels.as_ref().and_then(|it| it.get("group")).is_some_and(|it| it == "7")
        };
        let found = store.state_filter(is_wanted);
        best = best.min(start.elapsed().as_nanos() as f64);
        ensure!(found.len() == GROUP, "{} pods have the label", found.len());
    }
    Ok(best)
}

/// Arguments: pod counts, reader counts, milliseconds for each pair of them.
fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, pods, readers, time, ..] = arguments.as_slice() else {
        anyhow::bail!("expected PODS READERS MILLISECONDS");
    };
    let pods: Vec<usize> = serde_json::from_str(pods).context("numbers of pods")?;
    let readers: Vec<usize> = serde_json::from_str(readers).context("numbers of readers")?;
    let time = Duration::from_millis(time.parse()?);
    let mut beside = Vec::new();
    for count in pods {
        let mut writer = filled(count);
        for readers in &readers {
            let (reads, writes) = beside_readers(&mut writer, count, *readers, time);
            beside.push(serde_json::json!({"pods": count, "readers": readers, "reads": reads, "writes": writes}));
        }
    }
    let label_ns = label()?;
    let all = serde_json::json!({
        "peer": "kube-rs 5.0", "beside": beside, "notifications": [], "label_ns": label_ns
    });
    println!("{all}");
    Ok(())
}
