//! Calls per second, latency and CPU time per call, with 1, 10 and 100 pods.
//!
//! Pods have half of the processors and callers the other half. Contenders take turns, and each
//! round begins with another one. Figures are medians of the rounds, and ratios are medians of the
//! ratios within a round, so that other load on the machine affects both sides alike.

use std::time::Duration;

use anyhow::{Context, Result};

use super::caller::outcome::Outcome;
use super::caller_process::{Balancing, CallerProcess};
use super::contenders::{Contender, ContenderKind};
use super::cpu_split::CpuSplit;
use super::goals::{Goals, median};
use super::pods::{Kind, Pods};
use super::settings::BenchSettings;
use super::test_cluster::TestCluster;

const SERVERS: [u8; 3] = [1, 10, 100];
/// The maximum number of endpoints that Kubernetes puts into one slice.
const SLICE: usize = 100;
/// The number of concurrent calls at which goals are judged.
const JUDGED: usize = 64;
/// The length of the warm-up of each caller: tonic's channels connect with the first call.
const WARM_UP: Duration = Duration::from_millis(300);

/// The minimum ratio of our calls per second to those of tonic's balanced channel.
const THROUGHPUT_GOAL: f64 = 1.5;
/// The maximum ratio of our CPU time per call to that of a single channel.
const CPU_GOAL: f64 = 1.1;

/// One contender in the measurement.
struct Participant {
    name: String,
    caller: CallerProcess,
    balancing: Balancing,
    /// The outcomes, one for each round.
    rounds: Vec<Outcome>,
}

/// Prints a table for each kind and number of pods and each number of concurrent calls, then the
/// goals.
///
/// Goals are judged with bare pods, where the caller takes most of the time. The ratio with tonic's
/// servers is printed too.
///
/// # Errors
/// If a goal is missed, or a contender fails.
pub(super) async fn run(
    contenders: &[Contender],
    settings: &BenchSettings,
    cpu_split: &CpuSplit,
) -> Result<()> {
    let (cluster, mut goals) = (TestCluster::start().await?, Goals::default());
    for (kind, count) in [Kind::Bare, Kind::Tonic].into_iter().flat_map(|it| SERVERS.map(|count| (it, count)))
    {
        let (pods, service) = (Pods::serve(count, kind)?, format!("{}-{count}", name(kind)));
        cluster.publish_pods(&service, &pods, SLICE).await?;
        let mut participants = participants(contenders, &cluster, &service, cpu_split).await?;
        for participant in &mut participants {
            participant.caller.burst(JUDGED, WARM_UP).await?;
        }
        let in_flight = if kind == Kind::Bare { settings.in_flight } else { &[JUDGED] };
        for &in_flight in in_flight {
            take_turns(&mut participants, in_flight, settings).await?;
            print(&format!("{count} {} pods, {in_flight} in flight", name(kind)), &participants);
            match (kind, in_flight) {
                (Kind::Bare, JUDGED) => judge(count, &participants, &mut goals)?,
                (Kind::Tonic, _) => print_ratio(&participants),
                _ => {}
            }
        }
    }
    println!();
    goals.judge()
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bare => "bare",
        Kind::Tonic => "tonic",
    }
}

async fn participants(
    contenders: &[Contender],
    cluster: &TestCluster,
    service: &str,
    cpu_split: &CpuSplit,
) -> Result<Vec<Participant>> {
    let mut participants = Vec::new();
    for contender in contenders {
        let ours = contender.kind == ContenderKind::Kube;
        for balancing in [Balancing::RoundRobin, Balancing::ByLoad].into_iter().take(if ours { 2 } else { 1 })
        {
            let caller = CallerProcess::start(contender, cluster, service, balancing, cpu_split).await?;
            let more = if balancing == Balancing::ByLoad { ", peak_ewma" } else { "" };
            participants.push(Participant {
                name: format!("{}{more}", contender.kind.name()),
                caller,
                balancing,
                rounds: Vec::new(),
            });
        }
    }
    Ok(participants)
}

async fn take_turns(
    participants: &mut [Participant],
    in_flight: usize,
    settings: &BenchSettings,
) -> Result<()> {
    participants.iter_mut().for_each(|it| it.rounds.clear());
    // Measurements with goals get more rounds.
    let rounds = if in_flight == JUDGED { 3 * settings.repeats } else { settings.repeats };
    for round in 0..rounds {
        let count = participants.len();
        for number in 0..count {
            let participant = &mut participants[(number + round) % count];
            participant.rounds.push(participant.caller.burst(in_flight, settings.burst).await?);
        }
    }
    Ok(())
}

/// Successful calls per second.
fn rate(it: &Outcome) -> f64 {
    (it.calls - it.failed) as f64 / it.seconds
}

/// CPU time per call, in microseconds.
fn cpu(it: &Outcome) -> f64 {
    it.cpu_seconds * 1e6 / it.calls as f64
}

fn print(title: &str, participants: &[Participant]) {
    println!(
        "\n{title:27} {:>10} {:>10} {:>10} {:>10} {:>12}",
        "calls/s", "p50 us", "p99 us", "p99.9 us", "CPU us/call"
    );
    for Participant { name, rounds, .. } in participants {
        let [rate, p50, p99, p999, cpu] =
            [rate, |it: &Outcome| it.p50_us, |it: &Outcome| it.p99_us, |it: &Outcome| it.p999_us, cpu]
                .map(|of| median(rounds.iter().map(of)).unwrap_or_default());
        println!("{name:27} {rate:>10.0} {p50:>10.0} {p99:>10.0} {p999:>10.0} {cpu:>12.1}");
        let failed: u64 = rounds.iter().map(|it| it.failed).sum();
        if let Some(one) = rounds.iter().find(|it| it.failed > 0) {
            println!("{:27} {failed} failed: {}", "", one.why);
        }
    }
}

/// The median ratio of a figure of ours to that of another contender.
fn times(participants: &[Participant], other: ContenderKind, figure: fn(&Outcome) -> f64) -> Option<f64> {
    let of =
        |kind| participants.iter().find(|it| it.caller.kind == kind && it.balancing == Balancing::RoundRobin);
    let pairs = of(ContenderKind::Kube)?.rounds.iter().zip(&of(other)?.rounds);
    median(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)))
}

/// Prints the ratio for which there is no goal.
fn print_ratio(participants: &[Participant]) {
    if let Some(calls) = times(participants, ContenderKind::Balance, rate) {
        println!("{calls:.2} times the calls of tonic's balanced channel");
    }
}

fn judge(count: u8, participants: &[Participant], goals: &mut Goals) -> Result<()> {
    let ratio =
        |other, figure| times(participants, other, figure).context("a contender of this program is missing");
    let calls = ratio(ContenderKind::Balance, rate)?;
    goals.add(
        calls >= THROUGHPUT_GOAL,
        format!(
            "{count} pods: {calls:.2} times the calls of tonic's balanced channel, at least {THROUGHPUT_GOAL}"
        ),
    );
    let (single, each) = (ratio(ContenderKind::Single, cpu)?, ratio(ContenderKind::Each, cpu)?);
    goals.add(
        single <= CPU_GOAL,
        format!(
            "{count} pods: {single:.2} times the CPU of a single channel, at most {CPU_GOAL} \
             ({each:.2} times that of one channel per pod)"
        ),
    );
    Ok(())
}
