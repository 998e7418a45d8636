//! The store by itself: a stream of updates with concurrent readers that visit all objects, as in
//! client-go's `BenchmarkSharedIndexInformer` (k8s.io/client-go v0.36.4
//! tools/cache/shared_informer_bench_test.go), and the cost of single operations.
//!
//! Objects have metadata only, as in that benchmark. Rates are by wall-clock time, because readers
//! and the writer share the machine; the cost of one operation is CPU time of its thread, in the
//! fastest of several rounds.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cpu_time::ThreadTime;
use dogwatch_core::{Header, LabelSelector, Meta, Object, ObjectKey};
use dogwatch_informer::{Change, Delta, Index, Lister, Store, StoreWriter};
use tokio::time::Instant;

use super::peers::ContendedRates;
use super::settings::{BenchSettings, Goals};

const NAMESPACE: &str = "default";
/// The number of namespaces.
const NAMESPACES: usize = 100;
/// The number of objects with the same value of the label `group`.
const GROUP: usize = 100;
/// The maximum ratio of a look-up by key to one in a hash map behind an uncontended lock.
const GET_GOAL: f64 = 3.0;

/// A pod with its metadata only.
struct Pod {
    metadata: Meta,
}

impl Object for Pod {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

/// The figures that are compared with those of the peers.
#[derive(Debug)]
pub(super) struct StoreFigures {
    pub(super) contended: Vec<ContendedRates>,
    /// Seconds to find 100 of 100,000 objects by a label that has an index.
    pub(super) by_index: f64,
}

/// Prints the tables.
///
/// # Errors
/// If a result is wrong.
pub(super) fn run(settings: &BenchSettings, goals: &mut Goals) -> Result<StoreFigures> {
    let contended = with_readers(settings);
    let sizes: &[usize] = if settings.pods.len() < 3 { &[100_000] } else { &[10_000, 100_000, 160_000] };
    println!("\nCPU time of one operation, in ns");
    println!(
        "{:>8} {:>7} {:>9} {:>9} {:>14} {:>16} {:>16} {:>12} {:>12} {:>14}",
        "pods",
        "get",
        "HashMap",
        "snapshot",
        "visit, each",
        "label, by index",
        "label, scan",
        "update",
        "update x64",
        "relist, each"
    );
    let mut by_index = f64::INFINITY;
    for size in sizes {
        let measured = single_operations(*size, goals)?;
        if *size == 100_000 {
            by_index = measured;
        }
    }
    Ok(StoreFigures { contended, by_index })
}

/// Measures updates and full reads per second, for every number of objects and readers.
fn with_readers(settings: &BenchSettings) -> Vec<ContendedRates> {
    let time = settings.time;
    println!("\nupdates one by one, with concurrent readers that visit all objects, {time:?} each");
    println!(
        "{:>8} {:>8} {:>12} {:>16} {:>12} {:>16}",
        "pods", "readers", "reads/s", "objects read/s", "writes/s", "CPU us/write"
    );
    let mut all = Vec::new();
    for size in settings.pods {
        let mut writer = StoreWriter::new();
        let mut version = fill(&mut writer, *size, |_| NAMESPACE.to_owned());
        for readers in settings.readers {
            let rates = contend(&mut writer, *size, *readers, time, &mut version);
            let Rates { reads, writes, cpu } = rates;
            let objects = reads * *size as f64;
            println!(
                "{size:>8} {readers:>8} {reads:>12.0} {objects:>16.0} {writes:>12.0} {:>16.2}",
                cpu * 1e6
            );
            all.push(ContendedRates { pods: *size, readers: *readers, reads, writes });
        }
    }
    all
}

struct Rates {
    /// Per second.
    reads: f64,
    /// Per second.
    writes: f64,
    /// CPU seconds of one write.
    cpu: f64,
}

fn contend(
    writer: &mut StoreWriter<Pod>,
    size: usize,
    readers: usize,
    time: Duration,
    version: &mut u64,
) -> Rates {
    let store = writer.store();
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    store.snapshot().in_namespace(NAMESPACE).for_each(|it| {
                        black_box(it);
                    });
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (start, cpu) = (Instant::now(), ThreadTime::now());
        let (mut writes, mut changes) = (0, Vec::new());
        while start.elapsed() < time {
            for _ in 0..10 {
                *version += 1;
                let number = spread(*version) % size;
                update(writer, &mut changes, [pod(NAMESPACE, number, *version)]);
                writes += 1;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let cpu = cpu.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let reads = reads.load(Ordering::Relaxed) as f64 / seconds;
        Rates { reads, writes: f64::from(writes) / seconds, cpu: cpu / f64::from(writes) }
    })
}

/// Measures single operations without contention. Returns the seconds that a list by an indexed
/// label takes.
fn single_operations(size: usize, goals: &mut Goals) -> Result<f64> {
    let mut writer = StoreWriter::new();
    let mut version = fill(&mut writer, size, |number| format!("ns-{}", number % NAMESPACES));
    let store = writer.store();
    let keys: Vec<ObjectKey> = store.snapshot().iter().filter_map(|it| it.key()).collect();
    let get = best(10_000, |round| {
        black_box(store.get(&keys[spread(round as u64) % keys.len()]));
    });
    let hashed = hash_map(&store, &keys);
    let snapshot = best(10_000, |_| {
        black_box(store.snapshot());
    });
    let visit = best(5, |_| {
        store.snapshot().iter().for_each(|it| {
            black_box(it);
        });
    }) / size as f64;
    let lister = Lister::new(store.clone());
    let selector: LabelSelector = "group=7".parse().context("invalid selector")?;
    let scan = best(1, |_| {
        black_box(lister.list(&selector));
    });
    store.add_index(Index::label("group"))?;
    ensure!(lister.list(&selector).len() == GROUP, "a group does not have {GROUP} objects");
    let by_index = best(20, |_| {
        black_box(lister.list(&selector));
    });
    let mut changes = Vec::new();
    let mut one = |count: usize| {
        best(1000 / count, |_| {
            let deltas = (0..count).map(|_| {
                version += 1;
                let number = spread(version) % size;
                pod(&format!("ns-{}", number % NAMESPACES), number, version)
            });
            update(&mut writer, &mut changes, deltas.collect::<Vec<_>>());
        }) / count as f64
    };
    let (update_one, update_many) = (one(1), one(64));
    let relist = relist(&mut writer, &store, size);
    let ns = |seconds: f64| format!("{:.0}", seconds * 1e9);
    println!(
        "{size:>8} {:>7} {:>9} {:>9} {:>14.1} {:>16} {:>16} {:>12} {:>12} {:>14}",
        ns(get),
        ns(hashed),
        ns(snapshot),
        visit * 1e9,
        ns(by_index),
        ns(scan),
        ns(update_one),
        ns(update_many),
        ns(relist)
    );
    let goal =
        format!("a get in {size} objects within {GET_GOAL} times that of a hash map ({:.1})", get / hashed);
    goals.add(get < hashed * GET_GOAL, goal);
    Ok(by_index)
}

/// Measures a look-up in a hash map behind a lock.
fn hash_map(store: &Store<Pod>, keys: &[ObjectKey]) -> f64 {
    let objects = store.snapshot().iter().filter_map(|it| Some((it.key()?, it.clone()))).collect();
    let map: RwLock<HashMap<ObjectKey, Arc<Pod>>> = RwLock::new(objects);
    best(10_000, |round| {
        let key = &keys[spread(round as u64) % keys.len()];
        black_box(map.read().get(key).cloned());
    })
}

/// Measures a relist, per unchanged object.
fn relist(writer: &mut StoreWriter<Pod>, store: &Store<Pod>, size: usize) -> f64 {
    let (mut changes, mut best) = (Vec::new(), f64::INFINITY);
    for _ in 0..3 {
        let snapshot = store.snapshot();
        let items: Vec<_> =
            snapshot.iter().map(|it| Delta::Item(Pod { metadata: it.metadata.clone() })).collect();
        let end = Delta::End { version: snapshot.version().clone(), undecodable: Vec::new() };
        drop(snapshot);
        let start = ThreadTime::now();
        writer.apply([Delta::Begin].into_iter().chain(items).chain([end]), &mut changes);
        best = best.min(start.elapsed().as_secs_f64() / size as f64);
    }
    best
}

/// Lists `size` objects into the store. Returns the version of the list.
fn fill(writer: &mut StoreWriter<Pod>, size: usize, namespace: impl Fn(usize) -> String) -> u64 {
    let version = size as u64;
    let items = (0..size).map(|it| Delta::Item(pod(&namespace(it), it, it as u64 + 1)));
    let end = Delta::End { version: version.to_string().into(), undecodable: Vec::new() };
    writer.apply([Delta::Begin].into_iter().chain(items).chain([end]), &mut Vec::new());
    version
}

fn update(
    writer: &mut StoreWriter<Pod>,
    changes: &mut Vec<Change<Pod>>,
    pods: impl IntoIterator<Item = Pod>,
) {
    writer.apply(pods.into_iter().map(Delta::Applied), changes);
    changes.clear();
}

fn pod(namespace: &str, number: usize, version: u64) -> Pod {
    let mut metadata = Meta::default().with_labels([("group", (number / GROUP).to_string())]);
    // Twenty random letters, like a name that the server generates.
    metadata.name = format!("{:016x}{:04x}", spread(number as u64), number & 0xffff).into();
    metadata.namespace = namespace.into();
    metadata.resource_version = version.to_string().into();
    Pod { metadata }
}

/// CPU seconds of one call, in the fastest of seven rounds of `calls` calls.
fn best(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let rounds = (0..7).map(|round| {
        let start = ThreadTime::now();
        (0..calls).for_each(|it| call(round * calls + it));
        start.elapsed().as_secs_f64() / calls as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// Hashes a number with the finalizer of splitmix64: scattered, and the same on every run.
fn spread(number: u64) -> usize {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize
}
