//! `cargo xtask bench workqueue`: the cost of a key on its way through a work queue, compared with
//! client-go's queue and controller-runtime's priority queue if Go is installed.
//!
//! All queues do the same four operations with the same keys in the same run; the Go queues in a
//! program of their own (`bench/peers/workqueue-go`). The queues take turns, and each figure is the
//! best of several rounds: other load on the machine can only add to it, and with turns no queue
//! alone profits from a quiet moment. With `--mutex`, so does our queue with parking_lot's mutex in
//! place of its own lock, in this program built with the feature `mutex`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cpu_time::ProcessTime;
use dogwatch::workqueue::WorkQueue;
use dogwatch_core::ObjectKey;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::time::Instant;

use processes::cargo::Cargo;
use processes::go;

const PRODUCERS: usize = 8;
const WORKERS: usize = 8;
/// The number of keys of each producer.
const KEYS_PER_PRODUCER: usize = 100_000;
/// The number of add, take and done cycles in one round.
const CYCLES: usize = 20_000;
/// The number of delayed keys in one round.
const DELAYED_KEYS: usize = 500_000;
/// The number of turns of each queue.
const PASSES: usize = 3;
/// The number of rounds in a turn: of fast operations, where at least one of many rounds finds a
/// quiet machine, and of slow ones.
const SHORT: usize = 70;
const LONG: usize = 2;

/// The maximum number of nanoseconds to add, take and finish one key.
const ALTERNATING_GOAL: f64 = 100.0;
/// The minimum ratio of our throughput to client-go's.
const THROUGHPUT_GOAL: f64 = 3.0;
/// The maximum number of nanoseconds for a delayed add.
const ADD_AFTER_GOAL: f64 = 500.0;

/// The name of our queue in the table.
const NAME: &str = if cfg!(feature = "mutex") { "dogwatch with a mutex" } else { "dogwatch" };

/// Measures the work queue, and compares it with others.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench workqueue")]
struct Options {
    /// Measure our queue with parking_lot's mutex in place of its own lock, too.
    #[arg(long)]
    mutex: bool,
    /// Measure our queue once, and print its figures as JSON.
    #[arg(long, hide = true)]
    one_turn: bool,
}

/// Nanoseconds per key.
#[derive(Debug, Deserialize, Serialize)]
struct Figures {
    queue: String,
    /// Add, take and done of one key after the other, in one task.
    alternating_ns: f64,
    /// Eight tasks add and eight take, until all keys are done: by wall-clock time, and CPU time of
    /// all threads.
    crowd_ns: f64,
    crowd_cpu_ns: f64,
    /// A delayed add of a new key, up to ten minutes ahead.
    add_after_ns: f64,
    /// A delayed add up to ten milliseconds ahead, until the key is due, taken and done.
    due_ns: f64,
}

impl Figures {
    /// Keeps the better of both values, figure by figure.
    fn improve(&mut self, other: &Self) {
        self.alternating_ns = self.alternating_ns.min(other.alternating_ns);
        self.crowd_ns = self.crowd_ns.min(other.crowd_ns);
        self.crowd_cpu_ns = self.crowd_cpu_ns.min(other.crowd_cpu_ns);
        self.add_after_ns = self.add_after_ns.min(other.add_after_ns);
        self.due_ns = self.due_ns.min(other.due_ns);
    }
}

/// The time of a round.
struct RoundTime {
    wall: Duration,
    cpu: Duration,
}

/// Prints the table.
///
/// # Errors
/// If a goal is missed, or the Go program does not build or run.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let name = "cargo xtask bench workqueue".to_owned();
    let options = Options::try_parse_from([name].iter().chain(arguments)).unwrap_or_else(|it| it.exit());
    if options.one_turn {
        println!("{}", serde_json::to_string(&ours()?)?);
        return Ok(());
    }
    let program = build_go_queues()?;
    let mut all: Vec<Figures> = Vec::new();
    for _ in 0..PASSES {
        let mut turn = vec![ours()?];
        if options.mutex {
            turn.extend(figures(with_mutex()?)?);
        }
        if let Some(program) = &program {
            turn.extend(go_queues(program)?);
        }
        match all.is_empty() {
            true => all = turn,
            false => all.iter_mut().zip(turn).for_each(|(best, it)| best.improve(&it)),
        }
    }
    println!(
        "{:24} {:>13} {:>15} {:>11} {:>10} {:>14}",
        "ns per key", "add,take,done", "8 add, 8 take", "(CPU)", "add_after", "until done"
    );
    for it in &all {
        println!(
            "{:24} {:>13.0} {:>15.0} {:>11.0} {:>10.0} {:>14.0}",
            it.queue, it.alternating_ns, it.crowd_ns, it.crowd_cpu_ns, it.add_after_ns, it.due_ns
        );
    }
    let mut goals = vec![
        (
            all[0].alternating_ns <= ALTERNATING_GOAL,
            format!("add, take and done within {ALTERNATING_GOAL} ns"),
        ),
        (all[0].add_after_ns <= ADD_AFTER_GOAL, format!("add_after within {ADD_AFTER_GOAL} ns")),
    ];
    if let Some(client_go) = all.iter().find(|it| it.queue.starts_with("client-go")) {
        let times = client_go.crowd_ns / all[0].crowd_ns;
        let cpu = client_go.crowd_cpu_ns / all[0].crowd_cpu_ns;
        let text = format!(
            "at least {THROUGHPUT_GOAL} times client-go's keys with 8 producers and 8 workers ({times:.1}; {cpu:.1} by CPU)"
        );
        goals.push((times >= THROUGHPUT_GOAL, text));
    }
    for (met, goal) in &goals {
        println!("{}: {goal}", if *met { "met" } else { "MISSED" });
    }
    ensure!(goals.iter().all(|(met, _)| *met), "a goal is missed");
    Ok(())
}

fn ours() -> Result<Figures> {
    let (alternating_ns, _) = best(SHORT, CYCLES, alternating)?;
    let (crowd_ns, crowd_cpu_ns) = best(LONG, PRODUCERS * KEYS_PER_PRODUCER, concurrent)?;
    let (add_after_ns, _) = best(LONG, DELAYED_KEYS, || delayed(Duration::from_mins(10), false))?;
    let (due_ns, _) = best(LONG, DELAYED_KEYS, || delayed(Duration::from_millis(10), true))?;
    Ok(Figures { queue: NAME.to_owned(), alternating_ns, crowd_ns, crowd_cpu_ns, add_after_ns, due_ns })
}

/// Builds the program with the Go queues. Returns `None` if Go is not installed.
fn build_go_queues() -> Result<Option<PathBuf>> {
    let program = go::build("workqueue-go")?;
    if program.is_none() {
        println!("skipping the comparison: Go is not installed");
    }
    Ok(program)
}

/// Runs one turn of the Go queues.
fn go_queues(program: &Path) -> Result<Vec<Figures>> {
    let output = Command::new(program)
        .args([SHORT.to_string(), LONG.to_string()])
        .output()
        .context("cannot start the queues in Go")?;
    ensure!(output.status.success(), "the queues in Go failed: {}", String::from_utf8_lossy(&output.stderr));
    figures(output.stdout)
}

/// Builds this program with the feature `mutex`, if it is not built yet, and runs one turn of it.
fn with_mutex() -> Result<Vec<u8>> {
    let build = ["run", "--quiet", "--release", "--package", "bench", "--features", "mutex"];
    Cargo::new(build.into_iter().chain(["--", "workqueue", "--one-turn"])).output()
}

/// Reads the figures that a program printed, one line of JSON for each queue.
fn figures(output: Vec<u8>) -> Result<Vec<Figures>> {
    let lines = String::from_utf8(output)?;
    lines.lines().map(|it| serde_json::from_str(it).context("unexpected output of a queue")).collect()
}

/// The best of several rounds, by wall-clock and CPU time, in nanoseconds per key.
fn best(rounds: usize, keys: usize, mut round: impl FnMut() -> Result<RoundTime>) -> Result<(f64, f64)> {
    let (mut wall, mut cpu) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let spent = round()?;
        wall = wall.min(spent.wall.as_nanos() as f64 / keys as f64);
        cpu = cpu.min(spent.cpu.as_nanos() as f64 / keys as f64);
    }
    Ok((wall, cpu))
}

fn keys(namespace: &str, count: usize) -> Vec<ObjectKey> {
    (0..count).map(|it| ObjectKey::namespaced(namespace, &format!("key-{it}"))).collect()
}

fn alternating() -> Result<RoundTime> {
    let hundred = keys("namespace", 100);
    let keys: Vec<_> = hundred.iter().cycle().take(CYCLES).cloned().collect();
    Builder::new_current_thread().build()?.block_on(async {
        let queue = WorkQueue::new();
        let start = (Instant::now(), ProcessTime::now());
        for key in keys {
            queue.add(key);
            queue.take().await.context("the queue is shut down")?.done();
        }
        Ok(RoundTime { wall: start.0.elapsed(), cpu: start.1.elapsed() })
    })
}

fn concurrent() -> Result<RoundTime> {
    let all: Vec<_> = (0..PRODUCERS).map(|it| keys(&format!("namespace-{it}"), KEYS_PER_PRODUCER)).collect();
    // Keep a second reference to the keys, as the store of an informer does, so that none is freed
    // inside the measurement.
    let kept = all.clone();
    let spent = Builder::new_multi_thread().build()?.block_on(async {
        let queue = WorkQueue::<ObjectKey>::new();
        let start = (Instant::now(), ProcessTime::now());
        let worker = || {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while let Some(item) = queue.take().await {
                    item.done();
                    count += 1;
                }
                count
            })
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| worker()).collect();
        let producer = |keys: Vec<ObjectKey>| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for key in keys {
                    queue.add(key);
                    tokio::task::coop::consume_budget().await;
                }
            })
        };
        let producers: Vec<_> = all.into_iter().map(producer).collect();
        for producer in producers {
            producer.await?;
        }
        queue.shut_down();
        let mut done = 0;
        for worker in workers {
            done += worker.await?;
        }
        ensure!(done == PRODUCERS * KEYS_PER_PRODUCER, "{done} keys were done");
        Ok(RoundTime { wall: start.0.elapsed(), cpu: start.1.elapsed() })
    });
    drop(kept);
    spent
}

fn delayed(longest: Duration, take: bool) -> Result<RoundTime> {
    let keys = keys("namespace", DELAYED_KEYS);
    // Multiplying by a large odd number (Fibonacci hashing) scatters the delays well enough.
    let delay = |it: usize| longest.mul_f64((it as u32).wrapping_mul(2_654_435_769) as f64 / 4_294_967_296.0);
    let delays: Vec<_> = (0..DELAYED_KEYS).map(delay).collect();
    Builder::new_current_thread().enable_time().build()?.block_on(async {
        let queue = WorkQueue::new();
        let start = (Instant::now(), ProcessTime::now());
        for (key, delay) in keys.into_iter().zip(delays) {
            queue.add_after(key, delay);
        }
        if take {
            for _ in 0..DELAYED_KEYS {
                queue.take().await.context("the queue is shut down")?.done();
            }
        }
        Ok(RoundTime { wall: start.0.elapsed(), cpu: start.1.elapsed() })
    })
}
