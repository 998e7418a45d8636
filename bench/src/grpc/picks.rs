//! Nanoseconds per pick, by policy and number of endpoints: from a loaded snapshot, as other
//! projects measure it, and then with everything that a call does around it: loading and releasing
//! the snapshot, and counting the call in and out.
//!
//! For comparison, on other machines: gRPC C++ takes 20 ns for pick_first and 54 ns for
//! weighted_round_robin (grpc/grpc#37052), grpc-go's round_robin 70 to 79 ns (grpc/grpc-go#5607).

use anyhow::{Result, ensure};
use dogwatch_grpc::measure::Picks;
use dogwatch_grpc::{LeastRequest, PeakEwma, Policy, RingHash};
use http::HeaderName;
use tokio::time::Instant;

const SIZES: [usize; 5] = [1, 10, 100, 1_000, 10_000];
/// The number of picks in a round. The fastest of many rounds counts: the one that the machine
/// disturbed least.
const PICKS: usize = 20_000;

/// The maximum number of nanoseconds, whatever the number of endpoints.
const ROUND_ROBIN_GOAL: f64 = 15.0;
const LEAST_REQUEST_GOAL: f64 = 40.0;

pub(super) fn run(quick: bool) -> Result<()> {
    let rounds = if quick { 20 } else { 200 };
    let policies: [(&str, Policy, Option<f64>); 6] = [
        ("round_robin", Policy::RoundRobin, Some(ROUND_ROBIN_GOAL)),
        ("pick_first", Policy::PickFirst, None),
        ("least_request", LeastRequest::default().into(), Some(LEAST_REQUEST_GOAL)),
        ("peak_ewma", PeakEwma::default().into(), None),
        ("weighted", Policy::Weighted, None),
        ("ring_hash", RingHash::by_header(HeaderName::from_static("key")).into(), None),
    ];
    println!(
        "{:26} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "ns per pick, of endpoints", 1, 10, 100, "1,000", "10,000"
    );
    let mut missed = Vec::new();
    for (name, policy, goal) in policies {
        let figures = SIZES.map(|it| best(rounds, &Picks::new(policy.clone(), it), Picks::choose));
        println!("{name:26} {}", figures.map(|it| format!("{it:7.1}")).join(" "));
        if let Some(goal) = goal {
            let met = figures.iter().all(|it| *it <= goal);
            println!("{}: {name} within {goal} ns for any number", if met { "met" } else { "MISSED" });
            missed.extend((!met).then_some(name));
        }
        if goal.is_some() {
            let whole = SIZES.map(|it| best(rounds, &Picks::new(policy.clone(), it), Picks::pick));
            println!("{:26} {}", "  as part of a call", whole.map(|it| format!("{it:7.1}")).join(" "));
        }
    }
    let load = best(rounds, &Picks::new(Policy::RoundRobin, 10), Picks::load);
    println!("{:26} {load:7.1}", "loading the snapshot");
    ensure!(missed.is_empty(), "a goal is missed: {}", missed.join(", "));
    Ok(())
}

fn best(rounds: usize, picks: &Picks, pick: impl Fn(&Picks) -> usize) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        let mut sum = 0;
        for _ in 0..PICKS {
            sum += pick(picks);
        }
        std::hint::black_box(sum);
        best = best.min(start.elapsed().as_nanos() as f64 / PICKS as f64);
    }
    best
}
