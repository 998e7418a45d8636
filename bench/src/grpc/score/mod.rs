//! The scoreboard: failures, latencies and shares of calls while endpoints are added and removed,
//! dead, slow or many.
//!
//! In each scenario every contender has its own pods, service and process, and all contenders see
//! the same events.
//!
//! The `mod` lines below are in layer order.

mod scenario;
mod rollout;
mod propagation;
mod degraded;
mod distribution;

use anyhow::Result;
use futures_util::future::try_join_all;

use self::propagation::PropagationDelay;
use self::rollout::ShutdownOrder;
use self::scenario::Scenario;
use super::caller::outcome::Outcome;
use super::caller_process::Balancing;
use super::contenders::{Contender, ContenderKind};
use super::goals::Goals;
use super::settings::BenchSettings;
use super::test_cluster::TestCluster;

/// The minimum fairness, at any rate. It is not 1, because the first calls may start before all
/// pods are connected.
const FAIRNESS_GOAL: f64 = 0.9;

/// The results of one contender.
struct ScoreCard {
    kind: ContenderKind,
    slice_first: Outcome,
    pod_first: Outcome,
    propagation: PropagationDelay,
    dead: Outcome,
    /// Jain's index with 1, 10 and 1,000 calls per second.
    fairness: [f64; 3],
    slow: Outcome,
    /// The same with the policy by load, for contenders that have one.
    slow_by_load: Option<Outcome>,
    pods_called: usize,
}

/// Prints the table, then the goals.
///
/// # Errors
/// If a goal is missed, or a contender fails.
pub(super) async fn run(contenders: &[Contender], settings: &BenchSettings) -> Result<()> {
    let cluster = TestCluster::start().await?;
    let resolving =
        contenders.iter().filter(|it| !matches!(it.kind, ContenderKind::Single | ContenderKind::Each));
    let scenarios: Vec<_> =
        resolving.map(|contender| Scenario { contender, cluster: &cluster, settings }).collect();
    // These need little CPU and much time, so they run concurrently.
    let (seldom, often, dead) = tokio::try_join!(
        try_join_all(scenarios.iter().map(|it| distribution::fairness(it, 1))),
        try_join_all(scenarios.iter().map(|it| distribution::fairness(it, 10))),
        try_join_all(scenarios.iter().map(degraded::dead)),
    )?;
    let mut cards = Vec::new();
    for (((scenario, seldom), often), dead) in scenarios.iter().zip(seldom).zip(often).zip(dead) {
        let by_load = scenario.contender.kind.supports_load();
        cards.push(ScoreCard {
            kind: scenario.contender.kind,
            slice_first: rollout::run(scenario, ShutdownOrder::SliceFirst).await?,
            pod_first: rollout::run(scenario, ShutdownOrder::PodFirst).await?,
            propagation: propagation::measure(scenario).await?,
            dead,
            fairness: [seldom, often, distribution::fairness(scenario, 1_000).await?],
            slow: degraded::slow(scenario, Balancing::RoundRobin).await?,
            slow_by_load: if by_load {
                Some(degraded::slow(scenario, Balancing::ByLoad).await?)
            } else {
                None
            },
            pods_called: distribution::pods_called(scenario).await?,
        });
    }
    print(&cards);
    judge(&cards)
}

fn print(cards: &[ScoreCard]) {
    let failed = |it: &Outcome| format!("{} of {}", it.failed, it.calls);
    let ms = |it: Option<f64>| it.map_or_else(|| "never".to_owned(), |it| format!("{it:.1}"));
    let p99 = |it: &Outcome| format!("{:.1}", it.p99_us / 1e3);
    let row = |what: String, of: &dyn Fn(&ScoreCard) -> String| {
        let figures: Vec<_> = cards.iter().map(|it| format!("{:>16}", of(it))).collect();
        println!("{what:46} {}", figures.join(" "));
    };
    println!();
    row(String::new(), &|it| it.kind.name().to_owned());
    row("failed in a rolling restart, slice first".into(), &|it| failed(&it.slice_first));
    row("failed in a rolling restart, pod first".into(), &|it| failed(&it.pod_first));
    row("first call on a new pod, after ms".into(), &|it| ms(it.propagation.first));
    row("last call on a removed pod, after ms".into(), &|it| ms(it.propagation.last));
    row(format!("failed with 1 pod of {} dead", degraded::PODS), &|it| failed(&it.dead));
    for (number, rate) in ["1", "10", "1,000"].iter().enumerate() {
        row(format!("fairness (Jain) at {rate} calls/s"), &|it| format!("{:.3}", it.fairness[number]));
    }
    let slow = format!("p99 with 1 pod of {} slow by {} ms, ms", degraded::PODS, degraded::DELAY.as_millis());
    row(slow, &|it| p99(&it.slow));
    row("  the same, balanced by load".into(), &|it| it.slow_by_load.as_ref().map_or("-".into(), p99));
    row(format!("pods called of {} in 3 slices", distribution::MANY), &|it| it.pods_called.to_string());
    println!();
    for it in cards {
        let all = [("slice first", &it.slice_first), ("pod first", &it.pod_first), ("one dead", &it.dead)];
        for (scenario, outcome) in all.into_iter().filter(|(_, it)| it.failed > 0) {
            println!("{}, {scenario}, the first failure: {}", it.kind.name(), outcome.why);
        }
    }
}

/// Judges our own channel; the other contenders have no goals.
fn judge(cards: &[ScoreCard]) -> Result<()> {
    let mut goals = Goals::default();
    for it in cards.iter().filter(|it| it.kind == ContenderKind::Kube) {
        let rolled = it.slice_first.failed + it.pod_first.failed;
        goals.add(rolled == 0, format!("no call fails in a rolling restart ({rolled})"));
        goals.add(it.dead.failed == 0, format!("no call fails for a dead pod ({})", it.dead.failed));
        let least = it.fairness.into_iter().fold(1.0, f64::min);
        goals.add(
            least >= FAIRNESS_GOAL,
            format!("fairness of at least {FAIRNESS_GOAL} at any rate ({least:.3})"),
        );
        goals.add(
            it.pods_called == usize::from(distribution::MANY),
            format!("all {} pods are called ({})", distribution::MANY, it.pods_called),
        );
    }
    goals.judge()
}
