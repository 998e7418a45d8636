//! `cargo xtask bench live-page`: what the numbers of the live page cost the program that it shows.
//!
//! The numbers are counters that are always kept, and are read while a browser is connected, twice
//! a second. So there are two costs: an addition to a counter on the path of a change, a key or a
//! call, and a reading that takes locks of that path. The second is also measured a thousand times
//! a second, where it would show if it delayed others. Each figure is the best of several rounds.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use cpu_time::ThreadTime;
use dogwatch::workqueue::WorkQueue;
use dogwatch_core::ObjectKey;
use dogwatch_informer::Overflow;

use crate::informer::flood;

/// The interval at which the page reads, and one that is far shorter.
const PAGE: Duration = Duration::from_millis(500);
const EAGER: Duration = Duration::from_millis(1);

/// The number of additions of a thread.
const ADDITIONS: u64 = 20_000_000;
/// The number of changes, and of the handlers that receive them.
const CHANGES: u64 = 500_000;
const HANDLERS: usize = 10;
/// The number of cycles of keys: about a second.
const CYCLES: usize = 10_000_000;
/// The number of keys that a snapshot of a queue shows.
const MAX_KEYS: usize = 50;

/// Prints the table.
///
/// # Errors
/// If an argument is unknown, or notifications are lost.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    // A quick run divides the work by ten.
    let (rounds, part) = match arguments {
        [] => (5, 1),
        [one] if one == "--quick" => (3, 10),
        _ => bail!("unknown arguments {arguments:?}; there is --quick"),
    };
    println!("{:<44} {:>10} {:>12} {:>12}", "CPU time, ns", "not read", "every 500 ms", "every 1 ms");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let readings = [None, Some(PAGE), Some(EAGER)];
    let (mut notification, mut key) = ([f64::INFINITY; 3], [f64::INFINITY; 3]);
    for _ in 0..rounds {
        // In turns, so that a slow moment of the machine does not affect only one of them.
        for (at, reading) in readings.into_iter().enumerate() {
            let changes = CHANGES / part;
            let seconds = runtime.block_on(flood(HANDLERS, Overflow::Coalesce, changes, reading))?;
            notification[at] = notification[at].min(seconds * 1e9 / changes as f64);
            key[at] = key[at].min(keys(CYCLES / part as usize, reading));
        }
    }
    let show = |what: &str, figures: [f64; 3]| {
        println!("{what:<44} {:>10.1} {:>12.1} {:>12.1}", figures[0], figures[1], figures[2]);
    };
    show(&format!("a change, from the watch to {HANDLERS} handlers"), notification);
    show("a key: added, taken and done", key);
    for threads in [1, 2, 4] {
        let best = (0..rounds).map(|_| additions(threads, ADDITIONS / part)).fold(f64::INFINITY, f64::min);
        println!("{:<44} {best:>10.1}", format!("an addition to a counter, threads: {threads}"));
    }
    println!(
        "\nadditions on the path of a change: one for each batch, and one for each batch and handler;\n\
         of a reconcile: two, and one if it fails; of a gRPC call: one, and one if it fails"
    );
    Ok(())
}

/// Returns the CPU time of a key on its way through a queue, in nanoseconds, while a thread takes
/// snapshots of the queue.
fn keys(cycles: usize, reading: Option<Duration>) -> f64 {
    let keys: Vec<_> = (0..100).map(|it| ObjectKey::namespaced("default", &format!("key-{it}"))).collect();
    let (queue, has_ended) = (WorkQueue::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let (queue, has_ended) = (&queue, &has_ended);
        if let Some(interval) = reading {
            scope.spawn(move || {
                while !has_ended.load(Ordering::Relaxed) {
                    black_box(queue.snapshot(MAX_KEYS));
                    thread::park_timeout(interval);
                }
            });
        }
        let start = ThreadTime::now();
        for key in keys.iter().cycle().take(cycles) {
            queue.add(key.clone());
            drop(queue.try_take());
        }
        let took = start.elapsed();
        has_ended.store(true, Ordering::Relaxed);
        took.as_nanos() as f64 / cycles as f64
    })
}

/// Returns the CPU time of an addition to a counter that threads share, in nanoseconds.
fn additions(threads: usize, count: u64) -> f64 {
    let counter = AtomicU64::new(0);
    let add = || {
        let start = ThreadTime::now();
        for _ in 0..count {
            black_box(&counter).fetch_add(1, Ordering::Relaxed);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(add)).collect();
        let times = running.into_iter().map(|it| it.join().unwrap_or(f64::INFINITY));
        times.sum::<f64>() / threads as f64
    })
}
