//! The contribution of write coalescing (the cork), reading turns and the frame tracker of a
//! connection: each on and off, with 1, 2 and 8 calling threads.
//!
//! The pods are bare. Callers are processes that take turns, and each round begins with another
//! one. Pods and callers share all processors: half of two would leave one for all calling threads.

use std::time::Duration;

use anyhow::{Context, Result};

use super::asking::{Caller, Choice};
use super::caller::outcome::Outcome;
use super::contenders::{Contender, Who};
use super::effort::Effort;
use super::goals::median;
use super::halves::Halves;
use super::pods::{Kind, Pods};
use super::switches::{self, Switches};
use super::town::Town;

/// With one pod, its connection carries all calls; with ten, a few each.
const PODS: [u8; 2] = [1, 10];
const WORKERS: [usize; 3] = [1, 2, 8];
const IN_FLIGHT: usize = 64;
const SLICE: usize = 100;
const WARM_UP: Duration = Duration::from_millis(300);

/// A caller process with some of the parts enabled.
struct Lane {
    switches: Switches,
    caller: Caller,
    rounds: Vec<Outcome>,
}

/// Prints a table in Markdown.
///
/// # Errors
/// If a caller process fails.
pub(super) async fn run(effort: &Effort) -> Result<()> {
    let town = Town::start().await?;
    println!(
        "{IN_FLIGHT} calls of 1 KiB in flight; medians of {} rounds of {} ms; ratios are to `all-on` in the same round\n",
        effort.repeats,
        effort.burst.as_millis()
    );
    println!("| pods | threads | parts | calls/s | ratio | CPU us/call | ratio | p50 us | p99 us | failed |");
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|");
    for count in PODS {
        let (pods, service) = (Pods::serve(count, Kind::Bare)?, format!("parts-{count}"));
        town.list(&service, &pods, SLICE).await?;
        for workers in WORKERS {
            let mut lanes = lanes(&town, &service, workers).await?;
            for round in 0..effort.repeats {
                for number in 0..lanes.len() {
                    let place = (number + round) % lanes.len();
                    let outcome = lanes[place].caller.burst(IN_FLIGHT, effort.burst).await?;
                    lanes[place].rounds.push(outcome);
                }
            }
            for lane in &lanes {
                println!("| {count} | {workers} {}", row(lane, &lanes[0].rounds));
            }
        }
    }
    Ok(())
}

async fn lanes(town: &Town, service: &str, workers: usize) -> Result<Vec<Lane>> {
    let itself = std::env::current_exe().context("cannot find this program")?;
    let mut lanes = Vec::new();
    for switches in switches::ALL {
        let workers = workers.to_string();
        let arguments = ["grpc", "call-parts", switches.name(), &workers].map(str::to_owned).to_vec();
        let contender = Contender { who: Who::Kube, program: itself.clone(), arguments };
        // Both sides run on all processors.
        let mut caller = Caller::start(&contender, town, service, Choice::Turns, &Halves::default()).await?;
        caller.burst(IN_FLIGHT, WARM_UP).await?;
        lanes.push(Lane { switches, caller, rounds: Vec::new() });
    }
    Ok(lanes)
}

/// Formats the figures of a participant, and their ratios to those of the first one.
fn row(lane: &Lane, first: &[Outcome]) -> String {
    let rate = |it: &Outcome| (it.calls - it.failed) as f64 / it.seconds;
    let cpu = |it: &Outcome| it.cpu_seconds * 1e6 / it.calls.max(1) as f64;
    let middle = |of: &dyn Fn(&Outcome) -> f64| median(lane.rounds.iter().map(of)).unwrap_or_default();
    let ratio = |of: &dyn Fn(&Outcome) -> f64| {
        median(lane.rounds.iter().zip(first).map(|(own, first)| of(own) / of(first))).unwrap_or_default()
    };
    let failed: u64 = lane.rounds.iter().map(|it| it.failed).sum();
    format!(
        "| {} | {:.0} | {:.2} | {:.1} | {:.2} | {:.0} | {:.0} | {failed} |",
        lane.switches.name(),
        middle(&rate),
        ratio(&rate),
        middle(&cpu),
        ratio(&cpu),
        middle(&|it| it.p50_us),
        middle(&|it| it.p99_us),
    )
}
