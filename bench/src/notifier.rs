//! `cargo xtask bench notifier`: the change notifier of our API server, compared with tokio's
//! `watch` channel.
//!
//! A hundred tasks, as many as there are connections, have ten listeners each, as many as a
//! controller has watches. A change wakes all of them. Compared are the CPU time of a change, and
//! how often it runs each task: a task that runs twice writes twice to its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Result, ensure};
use cpu_time::ProcessTime;
use dogwatch_apiserver::measure::{ChangeListener, ChangeNotifier};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::ReusableBoxFuture;

const TASKS: usize = 100;
const LISTENERS: usize = 10;
const CHANGES: usize = 2_000;
/// The number of rounds of each contender, which take turns. The best counts.
const ROUNDS: usize = 5;
/// The runtimes: a server in a test has one thread, `dogwatch serve` has several.
const WORKERS: [usize; 2] = [1, 2];
/// The time within which all listeners have to see a change.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A way to wait for changes.
trait Listen: Send {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

/// A way to announce changes.
trait Notify {
    fn notify(&self);
    fn subscribe(&self) -> Box<dyn Listen>;
}

/// The best figures of a contender.
#[derive(Clone, Copy)]
struct Figures {
    cpu_us: f64,
    runs: f64,
}

/// The work of the tasks of one measurement, added up.
#[derive(Default)]
struct Progress {
    /// The number of times that a task ran.
    runs: AtomicUsize,
    /// The changes that listeners have seen, added up.
    seen: AtomicUsize,
    /// Notified when all listeners have seen a change.
    all: tokio::sync::Notify,
}

impl Progress {
    fn add(&self, seen: usize) {
        let all = self.seen.fetch_add(seen, Ordering::Relaxed) + seen;
        if all.is_multiple_of(TASKS * LISTENERS) {
            self.all.notify_one();
        }
    }
}

/// Prints the table.
///
/// # Errors
/// If a listener misses a change.
pub(crate) fn run(_: &[String]) -> Result<()> {
    println!("{TASKS} tasks with {LISTENERS} listeners each, {CHANGES} changes one by one");
    println!("{:8} {:24} {:>14} {:>24}", "threads", "", "CPU/change, us", "runs of a task/change");
    for workers in WORKERS {
        let mut own = Vec::new();
        let mut library = Vec::new();
        for _ in 0..ROUNDS {
            own.push(measure(workers, Arc::new(ChangeNotifier::default()))?);
            library.push(measure(workers, watch::Sender::new(0))?);
        }
        for (name, rounds) in [("the server's notifier", own), ("tokio's watch channel", library)] {
            let best = |of: fn(&Figures) -> f64| rounds.iter().map(of).fold(f64::INFINITY, f64::min);
            println!("{workers:<8} {name:24} {:>14.1} {:>24.2}", best(|it| it.cpu_us), best(|it| it.runs));
        }
    }
    Ok(())
}

/// Measures the changes of one notifier, the next one when all listeners have seen the last.
fn measure(workers: usize, notifier: impl Notify) -> Result<Figures> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build()?;
    runtime.block_on(async {
        let progress = Arc::new(Progress::default());
        for _ in 0..TASKS {
            let mut listeners: Vec<_> = (0..LISTENERS).map(|_| notifier.subscribe()).collect();
            let progress = Arc::clone(&progress);
            // Without tokio's limit of operations for each run of a task, which would split the
            // runs.
            let listening = std::future::poll_fn(move |context| {
                progress.runs.fetch_add(1, Ordering::Relaxed);
                // A listener may see a change that began after the others were polled. Every
                // listener waits again before the change counts as seen.
                let mut changed = 0;
                loop {
                    let ready: usize =
                        listeners.iter_mut().map(|it| usize::from(it.poll_changed(context).is_ready())).sum();
                    if ready == 0 {
                        break;
                    }
                    changed += ready;
                }
                if changed > 0 {
                    progress.add(changed);
                }
                Poll::<()>::Pending
            });
            tokio::spawn(tokio::task::unconstrained(listening));
        }
        while progress.runs.load(Ordering::Relaxed) < TASKS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        progress.runs.store(0, Ordering::Relaxed);
        let cpu = ProcessTime::now();
        for change in 1..=CHANGES {
            notifier.notify();
            let all = timeout(TIMEOUT, progress.all.notified()).await;
            ensure!(all.is_ok(), "change {change} was not seen by all within {TIMEOUT:?}");
        }
        let cpu_us = cpu.elapsed().as_secs_f64() * 1e6 / CHANGES as f64;
        let (seen, runs) =
            (progress.seen.load(Ordering::Relaxed), progress.runs.load(Ordering::Relaxed) as f64);
        ensure!(seen == CHANGES * TASKS * LISTENERS, "{seen} changes were seen by all listeners together");
        Ok(Figures { cpu_us, runs: runs / (TASKS * CHANGES) as f64 })
    })
}

impl Notify for Arc<ChangeNotifier> {
    fn notify(&self) {
        ChangeNotifier::notify(self);
    }

    fn subscribe(&self) -> Box<dyn Listen> {
        Box::new(ChangeNotifier::subscribe(self))
    }
}

impl Listen for ChangeListener {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Self::poll_changed(self, context)
    }
}

/// A receiver of a `watch` channel that can be polled: the future holds it while it waits.
struct WatchListener(ReusableBoxFuture<'static, watch::Receiver<usize>>);

impl Notify for watch::Sender<usize> {
    fn notify(&self) {
        self.send_modify(|it| *it += 1);
    }

    fn subscribe(&self) -> Box<dyn Listen> {
        Box::new(WatchListener(ReusableBoxFuture::new(next(self.subscribe()))))
    }
}

impl Listen for WatchListener {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context).map(|receiver| self.0.set(next(receiver)))
    }
}

async fn next(mut receiver: watch::Receiver<usize>) -> watch::Receiver<usize> {
    // The sender outlives the measurement.
    let _ = receiver.changed().await;
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_wake_the_listeners_of_both() {
        // Several changes may wake a listener once.
        assert!(measure(1, Arc::new(ChangeNotifier::default())).is_ok_and(|it| it.runs > 0.0));
        assert!(measure(1, watch::Sender::new(0)).is_ok_and(|it| it.runs > 0.0));
    }
}
