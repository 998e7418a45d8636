//! What the cork, the reading turns and the frame tracker of a connection bring or cost: each on and off, with 1, 2 and 8 threads that call.
//!
//! The pods are bare, and those who call are processes of their own that take turns, another one first in each round. Pods and callers share all
//! processors: with half of two, several threads that call would have one between them.

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

/// With one pod its connection has all calls, with ten a few each.
const PODS: [u8; 2] = [1, 10];
const WORKERS: [usize; 3] = [1, 2, 8];
const IN_FLIGHT: usize = 64;
const SLICE: usize = 100;
const WARM_UP: Duration = Duration::from_millis(300);

/// A process that calls with some of the parts.
struct Lane {
    switches: Switches,
    caller: Caller,
    rounds: Vec<Outcome>,
}

/// Prints a table in Markdown.
///
/// # Errors
/// When a process that calls fails.
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
        // Nothing is divided: both sides run on all processors.
        let mut caller = Caller::start(&contender, town, service, Choice::Turns, &Halves::default()).await?;
        caller.burst(IN_FLIGHT, WARM_UP).await?;
        lanes.push(Lane { switches, caller, rounds: Vec::new() });
    }
    Ok(lanes)
}

/// The figures of a lane, and how many times those of the first they are.
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
