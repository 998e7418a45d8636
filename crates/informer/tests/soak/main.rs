//! Informers under fault injection: random schedules against our own API server, and the properties
//! that must hold in the end.
//!
//! ```text
//! seed ─► schedule ─► world (server, faults, informers) ─► members (handlers, streams) ─► checks
//! ```
//!
//! `cargo test` plays a few hundred fixed seeds. `cargo xtask soak` plays new ones for a given
//! time, or one of them again; it passes this in environment variables. A failure prints the seed
//! and the schedule.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test binary that reports its progress")]

mod trace;
mod sample;
mod schedule;
mod checks;
mod members;
mod writes;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::schedule::Schedule;
use crate::world::{Outcome, play};

/// The number of schedules that `cargo test` plays.
const SCHEDULES: u64 = 300;
/// A single seed to play.
const SEED: &str = "DOGWATCH_SOAK_SEED";
/// The number of minutes for which to play new seeds.
const MINUTES: &str = "DOGWATCH_SOAK_MINUTES";
/// The number of schedules to play instead, from seed 0 on.
const COUNT: &str = "DOGWATCH_SOAK_SCHEDULES";
/// The interval at which a long run reports its progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// The totals of all runs.
#[derive(Debug, Default)]
struct Totals {
    schedules: u64,
    steps: usize,
    received: usize,
    missed: usize,
    members: usize,
    relists: u64,
    looks: usize,
    blind: usize,
    gone: usize,
    recovery: Duration,
    delayed: u64,
    refused: u64,
    reset: u64,
    dropped: u64,
    bookmarks: u64,
    restarts: u64,
    poison: u64,
    poisoned: usize,
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        let Outcome { tally, .. } = outcome;
        self.schedules += 1;
        self.steps += outcome.steps;
        self.received += outcome.received;
        self.missed += outcome.missed;
        self.members += outcome.members;
        self.relists += outcome.relists;
        self.looks += outcome.looks;
        self.blind += outcome.blind;
        self.gone += outcome.gone;
        self.recovery = self.recovery.max(outcome.recovery);
        self.delayed += tally.delayed;
        self.refused += tally.refused;
        self.reset += tally.reset;
        self.dropped += tally.dropped;
        self.bookmarks += tally.bookmarks;
        self.restarts += outcome.restarts;
        self.poison += outcome.poison;
        self.poisoned += outcome.poisoned;
    }

    /// Returns true if everything that schedules are made for has happened.
    fn is_rich(&self) -> bool {
        let counts = [self.received, self.missed, self.looks, self.gone, self.poisoned].map(|it| it as u64);
        let faults = [self.relists, self.delayed, self.refused, self.reset, self.dropped];
        let faults = faults.into_iter().chain([self.bookmarks, self.poison]);
        counts.into_iter().chain(faults).all(|it| it > self.schedules / 10)
    }
}

/// Plays the schedule of a seed on a runtime of its own with a paused clock.
fn run(seed: u64) -> Outcome {
    let schedule = Schedule::of(seed);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime can be built");
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(&schedule))));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Outcome { wrong: vec![format!("a panic: {text}")], ..Outcome::default() }
    })
}

/// Plays seeds from the first one on, on all processors, while `another` returns true. Returns the
/// totals, or the first failure.
fn run_all(first: u64, another: impl Fn(u64) -> bool + Sync, progress: bool) -> Result<Totals, String> {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let (totals, failure) = (Mutex::new(Totals::default()), Mutex::new(None));
    let last_word = Mutex::new(Instant::now());
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
                let report =
                    format!("seed {seed}:\n  {}\n{}", outcome.wrong.join("\n  "), Schedule::of(seed));
                failure.lock().unwrap().get_or_insert(report);
            }
            let mut totals = totals.lock().unwrap();
            totals.add(&outcome);
            let mut last_word = last_word.lock().unwrap();
            if progress && last_word.elapsed() >= PROGRESS {
                *last_word = Instant::now();
                eprintln!(
                    "{} schedules, {} changes delivered, {} relists; now at seed {seed}",
                    totals.schedules, totals.received, totals.relists
                );
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    match failure.into_inner().unwrap() {
        Some(failure) => Err(failure),
        None => Ok(totals.into_inner().unwrap()),
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is not a number")))
}

#[test]
fn whatever_happens_store_and_handlers_end_as_the_server_is() {
    let start = Instant::now();
    let outcome = match (variable(SEED), variable(MINUTES), variable(COUNT)) {
        (None, _, Some(count)) => run_all(0, |number| number < count, true),
        (Some(seed), _, _) => {
            eprintln!("{}", Schedule::of(seed));
            run_all(seed, |number| number == 0, true)
        }
        (None, Some(minutes), None) => {
            let first = rand::random::<u32>().into();
            eprintln!("{minutes} minutes from seed {first} on");
            run_all(first, |_| start.elapsed() < Duration::from_secs(60 * minutes), true)
        }
        (None, None, None) => run_all(0, |number| number < SCHEDULES, false),
    };
    match outcome {
        Ok(totals) => {
            eprintln!("{totals:#?} in {:.1?}", start.elapsed());
            assert!(
                totals.schedules < SCHEDULES || totals.is_rich(),
                "the schedules do not cover enough faults"
            );
        }
        Err(failure) => panic!("{failure}\nto repeat it: cargo xtask soak --seed SEED"),
    }
}

/// A step that no schedule contains is not tested.
#[test]
fn the_schedules_have_everything_in_them() {
    let all: String = (0..SCHEDULES).map(|seed| Schedule::of(seed).to_string()).collect();
    let steps = [
        "Pass(",
        "Turns(",
        "Put Map",
        "Put Buoy",
        "PutAndRead",
        "Poison Map",
        "Poison Buoy",
        ", and read",
        "Burst(Map",
        "Burst(Buoy",
        "Delete",
        "Recreate",
        "RemoveNamespace",
        "RemoveDefinition",
        "ReturnDefinition",
        "ClearSky",
        "Leave(",
        "Look",
        "Snapshot",
        "Restart(Same)",
        "Restart(Empty)",
        "Restart(Snapshot)",
    ];
    let orders = ["Drop", "Cut", "Bookmark", "Pause", "Resume", "Compact", "Expire"];
    let orders = orders.map(|it| format!("Order({it})"));
    let rules = [
        "429",
        "500",
        "503",
        "410",
        "401",
        "403",
        "\"reset\":\"before\"",
        "\"reset\":\"after\"",
        "\"delay\"",
        "\"lag\"",
        "\"pause\":true",
        "\"cut\":false",
        "\"cut\":true",
        "\"split\"",
        "\"coalesce\"",
    ];
    let members = [
        "Join Maps",
        "Join TwoNamespaces",
        "Join Labelled",
        "Join Buoys",
        "Coalesce Called",
        "Grow Called",
        "Block(0) Reading",
        "Block(3) Reading",
        "Coalesce Reading",
        "Grow Reading",
        "Panicking",
        "Filtered",
        "Again(",
    ];
    let words = steps.into_iter().chain(rules).chain(members).chain(orders.iter().map(String::as_str));
    let missing: Vec<_> = words.filter(|it| !all.contains(it)).collect();
    assert_eq!(missing, [] as [&str; 0]);
}

/// A failure that cannot be reproduced cannot be investigated. Two processes are compared because
/// addresses and hashes may happen to be equal within one.
#[test]
fn a_seed_does_the_same_in_every_process() {
    let (first, count) = variable(COUNT).map_or((1_000, 30), |count| (0, count));
    let differences = trace::differences("a_seed_does_the_same_in_every_process", first, count, |seed| {
        let outcome = run(seed);
        assert!(outcome.received > 0, "seed {seed} delivers no change");
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
