//! The store by itself: a stream of updates beside readers that go through all objects, as client-go's
//! `BenchmarkSharedIndexInformer` does it, and what single reads cost.
//!
//! Objects carry metadata only, like the pods there. Rates are by the clock on the wall, because readers and the writer share the
//! machine; what one operation costs is CPU time of its thread, the best of several rounds.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cpu_time::ThreadTime;
use dogwatch_core::{Header, LabelSelector, Meta, Object, ObjectKey};
use dogwatch_informer::{Change, Delta, Index, Lister, Store, StoreWriter};
use tokio::time::Instant;

use super::effort::{Effort, Goals};
use super::peers::Beside;

const NAMESPACE: &str = "default";
/// How many namespaces there are where one is picked.
const NAMESPACES: usize = 100;
/// How many objects have the same value of the label `group`.
const GROUP: usize = 100;
/// How much longer than in a hash map behind a lock a look-up by key may take, when nobody else has the lock.
const GET_GOAL: f64 = 3.0;

/// A pod of which only the metadata is held.
struct Pod {
    metadata: Meta,
}

impl Object for Pod {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

/// What others are compared with.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) beside: Vec<Beside>,
    /// Seconds to find 100 of 100,000 objects by a label that has an index.
    pub(super) by_index: f64,
}

/// Prints the tables.
///
/// # Errors
/// When what is found is wrong.
pub(super) fn run(effort: &Effort, goals: &mut Goals) -> Result<Measured> {
    let beside = beside_readers(effort);
    let sizes: &[usize] = if effort.pods.len() < 3 { &[100_000] } else { &[10_000, 100_000, 160_000] };
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
    Ok(Measured { beside, by_index })
}

/// Updates and whole reads per second, for every number of objects and readers.
fn beside_readers(effort: &Effort) -> Vec<Beside> {
    let time = effort.time;
    println!("\nupdates one by one beside readers who go through all objects, {time:?} each");
    println!(
        "{:>8} {:>8} {:>12} {:>16} {:>12} {:>16}",
        "pods", "readers", "reads/s", "objects read/s", "writes/s", "CPU us/write"
    );
    let mut all = Vec::new();
    for size in effort.pods {
        let mut writer = StoreWriter::new();
        let mut version = fill(&mut writer, *size, |_| NAMESPACE.to_owned());
        for readers in effort.readers {
            let rates = contend(&mut writer, *size, *readers, time, &mut version);
            let Rates { reads, writes, cpu } = rates;
            let objects = reads * *size as f64;
            println!(
                "{size:>8} {readers:>8} {reads:>12.0} {objects:>16.0} {writes:>12.0} {:>16.2}",
                cpu * 1e6
            );
            all.push(Beside { pods: *size, readers: *readers, reads, writes });
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

/// What one read costs when nothing else happens. Returns the seconds that a list by an indexed label takes.
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
    let selector: LabelSelector = "group=7".parse().context("a selector")?;
    let scan = best(1, |_| {
        black_box(lister.list(&selector));
    });
    store.add_index(Index::label("group"))?;
    ensure!(lister.list(&selector).len() == GROUP, "a group has {GROUP} objects");
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
    let goal = format!("a get of {size} within {GET_GOAL} times that of a hash map ({:.1})", get / hashed);
    goals.add(get < hashed * GET_GOAL, goal);
    Ok(by_index)
}

/// What a look-up costs in a hash map behind a lock.
fn hash_map(store: &Store<Pod>, keys: &[ObjectKey]) -> f64 {
    let objects = store.snapshot().iter().filter_map(|it| Some((it.key()?, it.clone()))).collect();
    let map: RwLock<HashMap<ObjectKey, Arc<Pod>>> = RwLock::new(objects);
    best(10_000, |round| {
        let key = &keys[spread(round as u64) % keys.len()];
        black_box(map.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned());
    })
}

/// What an unchanged object of a relist costs.
fn relist(writer: &mut StoreWriter<Pod>, store: &Store<Pod>, size: usize) -> f64 {
    let (mut changes, mut best) = (Vec::new(), f64::INFINITY);
    for _ in 0..3 {
        let snapshot = store.snapshot();
        let items: Vec<_> =
            snapshot.iter().map(|it| Delta::Item(Pod { metadata: it.metadata.clone() })).collect();
        let end = Delta::End { version: snapshot.version().clone(), unreadable: Vec::new() };
        drop(snapshot);
        let start = ThreadTime::now();
        writer.apply([Delta::Begin].into_iter().chain(items).chain([end]), &mut changes);
        best = best.min(start.elapsed().as_secs_f64() / size as f64);
    }
    best
}

/// Lists so many objects into the store, and returns the version of the list.
fn fill(writer: &mut StoreWriter<Pod>, size: usize, namespace: impl Fn(usize) -> String) -> u64 {
    let version = size as u64;
    let items = (0..size).map(|it| Delta::Item(pod(&namespace(it), it, it as u64 + 1)));
    let end = Delta::End { version: version.to_string().into(), unreadable: Vec::new() };
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
    // Twenty letters without an order, as a server makes them.
    metadata.name = format!("{:016x}{:04x}", spread(number as u64), number & 0xffff).into();
    metadata.namespace = namespace.into();
    metadata.resource_version = version.to_string().into();
    Pod { metadata }
}

/// CPU seconds of one call, in the best of several rounds of so many calls.
fn best(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let rounds = (0..7).map(|round| {
        let start = ThreadTime::now();
        (0..calls).for_each(|it| call(round * calls + it));
        start.elapsed().as_secs_f64() / calls as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// A number that looks random and is not (the finalizer of splitmix64).
fn spread(number: u64) -> usize {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize
}
