//! A controller under random schedules of changes, deletions and faults: in the end the children
//! are always as their parents specify.
//!
//! `cargo test` runs a hundred seeds, always the same ones; `cargo xtask soak` runs new ones. A
//! failure prints the seed and its schedule.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test binary, and one that reports as it goes"
)]

#[path = "../../../informer/tests/soak/trace.rs"]
mod trace;
mod schedule;
mod test_cluster;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::schedule::Schedule;
use crate::test_cluster::{Outcome, play};

/// The number of schedules that `cargo test` runs.
const SCHEDULES: u64 = 100;
/// The variable with a single seed to run.
const SEED: &str = "DOGWATCH_SOAK_SEED";
/// The variable with the time to keep running new seeds.
const MINUTES: &str = "DOGWATCH_SOAK_MINUTES";
/// The variable with the number of schedules to run instead.
const COUNT: &str = "DOGWATCH_SOAK_SCHEDULES";
/// The interval of progress reports in a long run.
const PROGRESS: Duration = Duration::from_secs(10);

/// Runs the schedule of a seed with a clock of its own.
fn run(seed: u64) -> Outcome {
    let schedule = Schedule::of(seed);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("the runtime builds");
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(&schedule))));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Outcome { wrong: vec![format!("a panic: {text}")], ..Outcome::default() }
    })
}

/// Runs seeds from the first one on, on all processors. Returns the totals, or the first failure.
fn run_all(first: u64, another: impl Fn(u64) -> bool + Sync, progress: bool) -> Result<Outcome, String> {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let (totals, failure) = (Mutex::new((0, Outcome::default())), Mutex::new(None));
    let reported = Mutex::new(Instant::now());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if failed.load(Ordering::Relaxed) || !another(number) {
                return;
            }
            let seed = first.wrapping_add(number);
            let outcome = run(seed);
            if !outcome.wrong.is_empty() {
                failed.store(true, Ordering::Relaxed);
                let text = format!("seed {seed}:\n  {}\n{}", outcome.wrong.join("\n  "), Schedule::of(seed));
                failure.lock().unwrap().get_or_insert(text);
            }
            let mut totals = totals.lock().unwrap();
            totals.0 += 1;
            totals.1.reconciles += outcome.reconciles;
            totals.1.writes += outcome.writes;
            totals.1.restarts += outcome.restarts;
            totals.1.cured += outcome.cured;
            totals.1.recovery = totals.1.recovery.max(outcome.recovery);
            let mut reported = reported.lock().unwrap();
            if progress && (reported.elapsed() >= PROGRESS || totals.0 == 1) {
                *reported = Instant::now();
                eprintln!("{} schedules, {} reconciles; at seed {seed}", totals.0, totals.1.reconciles);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    match failure.into_inner().unwrap() {
        Some(failure) => Err(failure),
        None => Ok(totals.into_inner().unwrap().1),
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is not a number")))
}

#[test]
fn whatever_happens_children_end_as_their_parents_specify() {
    let start = Instant::now();
    let outcome = match (variable(SEED), variable(MINUTES), variable(COUNT)) {
        (Some(seed), _, _) => {
            eprintln!("{}", Schedule::of(seed));
            run_all(seed, |number| number == 0, true)
        }
        (None, _, Some(count)) => run_all(0, |number| number < count, true),
        (None, Some(minutes), None) => {
            let first = rand::random::<u32>().into();
            eprintln!("{minutes} minutes from seed {first} on");
            run_all(first, |_| start.elapsed() < Duration::from_secs(60 * minutes), true)
        }
        (None, None, None) => run_all(0, |number| number < SCHEDULES, false),
    };
    match outcome {
        Ok(totals) => eprintln!("{totals:?} in {:.1?}", start.elapsed()),
        Err(failure) => panic!("{failure}\nreproduce: cargo xtask soak --seed SEED"),
    }
}

/// A failure that cannot be reproduced cannot be investigated.
#[test]
fn a_seed_does_the_same_in_every_process() {
    let (first, count) = variable(COUNT).map_or((1_000, 20), |count| (0, count));
    let differences = trace::differences("a_seed_does_the_same_in_every_process", first, count, |seed| {
        drop(run(seed));
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
