//! Calls per second, latency and CPU time per call, with 1, 10 and 100 pods.
//!
//! Pods have half of the processors and callers the other half. Contenders take turns, and each
//! round begins with another one. Figures are medians of the rounds, and ratios are medians of the
//! ratios within a round, so that other load on the machine affects both sides alike.

use std::time::Duration;

use anyhow::{Context, Result};

use super::asking::{Caller, Choice};
use super::caller::outcome::Outcome;
use super::contenders::{Contender, Who};
use super::effort::Effort;
use super::goals::{Goals, median};
use super::halves::Halves;
use super::pods::{Kind, Pods};
use super::town::Town;

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
struct Lane {
    name: String,
    caller: Caller,
    choice: Choice,
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
pub(super) async fn run(contenders: &[Contender], effort: &Effort, halves: &Halves) -> Result<()> {
    let (town, mut goals) = (Town::start().await?, Goals::default());
    for (kind, count) in [Kind::Bare, Kind::Tonic].into_iter().flat_map(|it| SERVERS.map(|count| (it, count)))
    {
        let (pods, service) = (Pods::serve(count, kind)?, format!("{}-{count}", name(kind)));
        town.list(&service, &pods, SLICE).await?;
        let mut lanes = lanes(contenders, &town, &service, halves).await?;
        for lane in &mut lanes {
            lane.caller.burst(JUDGED, WARM_UP).await?;
        }
        let in_flight = if kind == Kind::Bare { effort.in_flight } else { &[JUDGED] };
        for &in_flight in in_flight {
            take_turns(&mut lanes, in_flight, effort).await?;
            print(&format!("{count} {} pods, {in_flight} in flight", name(kind)), &lanes);
            match (kind, in_flight) {
                (Kind::Bare, JUDGED) => judge(count, &lanes, &mut goals)?,
                (Kind::Tonic, _) => tell(&lanes),
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

async fn lanes(contenders: &[Contender], town: &Town, service: &str, halves: &Halves) -> Result<Vec<Lane>> {
    let mut lanes = Vec::new();
    for contender in contenders {
        let ours = contender.who == Who::Kube;
        for choice in [Choice::Turns, Choice::Load].into_iter().take(if ours { 2 } else { 1 }) {
            let caller = Caller::start(contender, town, service, choice, halves).await?;
            let more = if choice == Choice::Load { ", peak_ewma" } else { "" };
            lanes.push(Lane {
                name: format!("{}{more}", contender.who.name()),
                caller,
                choice,
                rounds: Vec::new(),
            });
        }
    }
    Ok(lanes)
}

async fn take_turns(lanes: &mut [Lane], in_flight: usize, effort: &Effort) -> Result<()> {
    lanes.iter_mut().for_each(|it| it.rounds.clear());
    // Measurements with goals get more rounds.
    let rounds = if in_flight == JUDGED { 3 * effort.repeats } else { effort.repeats };
    for round in 0..rounds {
        let count = lanes.len();
        for number in 0..count {
            let lane = &mut lanes[(number + round) % count];
            lane.rounds.push(lane.caller.burst(in_flight, effort.burst).await?);
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

fn print(title: &str, lanes: &[Lane]) {
    println!(
        "\n{title:27} {:>10} {:>10} {:>10} {:>10} {:>12}",
        "calls/s", "p50 us", "p99 us", "p99.9 us", "CPU us/call"
    );
    for Lane { name, rounds, .. } in lanes {
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
fn times(lanes: &[Lane], other: Who, figure: fn(&Outcome) -> f64) -> Option<f64> {
    let of = |who| lanes.iter().find(|it| it.caller.who == who && it.choice == Choice::Turns);
    let pairs = of(Who::Kube)?.rounds.iter().zip(&of(other)?.rounds);
    median(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)))
}

/// Prints the ratio for which there is no goal.
fn tell(lanes: &[Lane]) {
    if let Some(calls) = times(lanes, Who::Balance, rate) {
        println!("{calls:.2} times the calls of tonic's balanced channel");
    }
}

fn judge(count: u8, lanes: &[Lane], goals: &mut Goals) -> Result<()> {
    let told = |other, figure| times(lanes, other, figure).context("a contender of this program is missing");
    let calls = told(Who::Balance, rate)?;
    goals.add(
        calls >= THROUGHPUT_GOAL,
        format!(
            "{count} pods: {calls:.2} times the calls of tonic's balanced channel, at least {THROUGHPUT_GOAL}"
        ),
    );
    let (single, each) = (told(Who::Single, cpu)?, told(Who::Each, cpu)?);
    goals.add(
        single <= CPU_GOAL,
        format!(
            "{count} pods: {single:.2} times the CPU of a single channel, at most {CPU_GOAL} ({each:.2} times that of one channel \
            per pod)"
        ),
    );
    Ok(())
}
