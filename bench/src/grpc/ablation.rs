//! The contribution of write coalescing, reading turns and the stream tracker of a connection:
//! each on and off, with 1, 2 and 8 calling threads.
//!
//! The pods are bare. Callers are processes that take turns, and each round begins with another
//! one. Pods and callers share all processors: half of two would leave one for all calling threads.

use std::time::Duration;

use anyhow::{Context, Result};

use super::caller::outcome::Outcome;
use super::caller_process::{Balancing, CallerProcess};
use super::contenders::{Contender, ContenderKind};
use super::cpu_split::CpuSplit;
use super::goals::median;
use super::pods::{Kind, Pods};
use super::settings::BenchSettings;
use super::switches::{self, Switches};
use super::test_cluster::TestCluster;

/// With one pod, its connection carries all calls; with ten, a few each.
const PODS: [u8; 2] = [1, 10];
const WORKERS: [usize; 3] = [1, 2, 8];
const IN_FLIGHT: usize = 64;
const SLICE: usize = 100;
const WARM_UP: Duration = Duration::from_millis(300);

/// A caller process with some of the parts enabled.
struct Participant {
    switches: Switches,
    caller: CallerProcess,
    rounds: Vec<Outcome>,
}

/// Prints a table in Markdown.
///
/// # Errors
/// If a caller process fails.
pub(super) async fn run(settings: &BenchSettings) -> Result<()> {
    let cluster = TestCluster::start().await?;
    println!(
        "{IN_FLIGHT} calls of 1 KiB in flight; medians of {} rounds of {} ms; ratios are to `all-on` in the same round\n",
        settings.repeats,
        settings.burst.as_millis()
    );
    println!("| pods | threads | parts | calls/s | ratio | CPU us/call | ratio | p50 us | p99 us | failed |");
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|");
    for count in PODS {
        let (pods, service) = (Pods::serve(count, Kind::Bare)?, format!("ablation-{count}"));
        cluster.publish_pods(&service, &pods, SLICE).await?;
        for workers in WORKERS {
            let mut participants = participants(&cluster, &service, workers).await?;
            for round in 0..settings.repeats {
                for number in 0..participants.len() {
                    let index = (number + round) % participants.len();
                    let outcome = participants[index].caller.burst(IN_FLIGHT, settings.burst).await?;
                    participants[index].rounds.push(outcome);
                }
            }
            for participant in &participants {
                println!("| {count} | {workers} {}", row(participant, &participants[0].rounds));
            }
        }
    }
    Ok(())
}

async fn participants(cluster: &TestCluster, service: &str, workers: usize) -> Result<Vec<Participant>> {
    let itself = std::env::current_exe().context("cannot find this program")?;
    let mut participants = Vec::new();
    for switches in switches::ALL {
        let workers = workers.to_string();
        let arguments = ["grpc", "call-ablated", switches.name(), &workers].map(str::to_owned).to_vec();
        let contender = Contender { kind: ContenderKind::Kube, program: itself.clone(), arguments };
        // Both sides run on all processors.
        let mut caller =
            CallerProcess::start(&contender, cluster, service, Balancing::RoundRobin, &CpuSplit::default())
                .await?;
        caller.burst(IN_FLIGHT, WARM_UP).await?;
        participants.push(Participant { switches, caller, rounds: Vec::new() });
    }
    Ok(participants)
}

/// Formats the figures of a participant, and their ratios to those of the first one.
fn row(participant: &Participant, first: &[Outcome]) -> String {
    let rate = |it: &Outcome| (it.calls - it.failed) as f64 / it.seconds;
    let cpu = |it: &Outcome| it.cpu_seconds * 1e6 / it.calls.max(1) as f64;
    let middle = |of: &dyn Fn(&Outcome) -> f64| median(participant.rounds.iter().map(of)).unwrap_or_default();
    let ratio = |of: &dyn Fn(&Outcome) -> f64| {
        median(participant.rounds.iter().zip(first).map(|(own, first)| of(own) / of(first)))
            .unwrap_or_default()
    };
    let failed: u64 = participant.rounds.iter().map(|it| it.failed).sum();
    format!(
        "| {} | {:.0} | {:.2} | {:.1} | {:.2} | {:.0} | {:.0} | {failed} |",
        participant.switches.name(),
        middle(&rate),
        ratio(&rate),
        middle(&cpu),
        ratio(&cpu),
        middle(&|it| it.p50_us),
        middle(&|it| it.p99_us),
    )
}
