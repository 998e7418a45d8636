//! The scoreboard: failures, latencies and shares of calls while endpoints are added and removed,
//! dead, slow or many.
//!
//! In each scenario every contender has its own pods, service and process, and all contenders see
//! the same events.
//!
//! The `mod` lines below are in layer order.

mod scene;
mod rollout;
mod visit;
mod weak;
mod shares;

use anyhow::Result;
use futures_util::future::try_join_all;

use self::rollout::Order;
use self::scene::Scene;
use self::visit::Lag;
use super::asking::Choice;
use super::caller::outcome::Outcome;
use super::contenders::{Contender, Who};
use super::effort::Effort;
use super::goals::Goals;
use super::town::Town;

/// The minimum fairness, at any rate. It is not 1, because the first calls may start before all
/// pods are connected.
const FAIRNESS_GOAL: f64 = 0.9;

/// The results of one contender.
struct Card {
    who: Who,
    told_first: Outcome,
    told_late: Outcome,
    lag: Lag,
    dead: Outcome,
    /// Jain's index with 1, 10 and 1,000 calls per second.
    fairness: [f64; 3],
    slow: Outcome,
    /// The same with the policy by load, for contenders that have one.
    slow_by_load: Option<Outcome>,
    seen: usize,
}

/// Prints the table, then the goals.
///
/// # Errors
/// If a goal is missed, or a contender fails.
pub(super) async fn run(contenders: &[Contender], effort: &Effort) -> Result<()> {
    let town = Town::start().await?;
    let resolving = contenders.iter().filter(|it| !matches!(it.who, Who::Single | Who::Each));
    let scenes: Vec<_> = resolving.map(|contender| Scene { contender, town: &town, effort }).collect();
    // These need little CPU and much time, so they run concurrently.
    let (seldom, often, dead) = tokio::try_join!(
        try_join_all(scenes.iter().map(|it| shares::fairness(it, 1))),
        try_join_all(scenes.iter().map(|it| shares::fairness(it, 10))),
        try_join_all(scenes.iter().map(weak::dead)),
    )?;
    let mut cards = Vec::new();
    for (((scene, seldom), often), dead) in scenes.iter().zip(seldom).zip(often).zip(dead) {
        let by_load = scene.contender.who.knows_load();
        cards.push(Card {
            who: scene.contender.who,
            told_first: rollout::roll(scene, Order::ToldFirst).await?,
            told_late: rollout::roll(scene, Order::ToldLate).await?,
            lag: visit::lag(scene).await?,
            dead,
            fairness: [seldom, often, shares::fairness(scene, 1_000).await?],
            slow: weak::slow(scene, Choice::Turns).await?,
            slow_by_load: if by_load { Some(weak::slow(scene, Choice::Load).await?) } else { None },
            seen: shares::seen(scene).await?,
        });
    }
    print(&cards);
    judge(&cards)
}

fn print(cards: &[Card]) {
    let failed = |it: &Outcome| format!("{} of {}", it.failed, it.calls);
    let ms = |it: Option<f64>| it.map_or_else(|| "never".to_owned(), |it| format!("{it:.1}"));
    let p99 = |it: &Outcome| format!("{:.1}", it.p99_us / 1e3);
    let row = |what: String, of: &dyn Fn(&Card) -> String| {
        let figures: Vec<_> = cards.iter().map(|it| format!("{:>16}", of(it))).collect();
        println!("{what:46} {}", figures.join(" "));
    };
    println!();
    row(String::new(), &|it| it.who.name().to_owned());
    row("failed in a rolling restart, slice first".into(), &|it| failed(&it.told_first));
    row("failed in a rolling restart, pod first".into(), &|it| failed(&it.told_late));
    row("first call on a new pod, after ms".into(), &|it| ms(it.lag.first));
    row("last call on a removed pod, after ms".into(), &|it| ms(it.lag.last));
    row(format!("failed with 1 pod of {} dead", weak::PODS), &|it| failed(&it.dead));
    for (number, rate) in ["1", "10", "1,000"].iter().enumerate() {
        row(format!("fairness (Jain) at {rate} calls/s"), &|it| format!("{:.3}", it.fairness[number]));
    }
    let slow = format!("p99 with 1 pod of {} slow by {} ms, ms", weak::PODS, weak::DELAY.as_millis());
    row(slow, &|it| p99(&it.slow));
    row("  the same, balanced by load".into(), &|it| it.slow_by_load.as_ref().map_or("-".into(), p99));
    row(format!("pods called of {} in 3 slices", shares::MANY), &|it| it.seen.to_string());
    println!();
    for it in cards {
        let all = [("slice first", &it.told_first), ("pod first", &it.told_late), ("one dead", &it.dead)];
        for (scene, outcome) in all.into_iter().filter(|(_, it)| it.failed > 0) {
            println!("{}, {scene}, the first failure: {}", it.who.name(), outcome.why);
        }
    }
}

/// Judges our own channel; the other contenders have no goals.
fn judge(cards: &[Card]) -> Result<()> {
    let mut goals = Goals::default();
    for it in cards.iter().filter(|it| it.who == Who::Kube) {
        let rolled = it.told_first.failed + it.told_late.failed;
        goals.add(rolled == 0, format!("no call fails in a rolling restart ({rolled})"));
        goals.add(it.dead.failed == 0, format!("no call fails for a dead pod ({})", it.dead.failed));
        let least = it.fairness.into_iter().fold(1.0, f64::min);
        goals.add(
            least >= FAIRNESS_GOAL,
            format!("fairness of at least {FAIRNESS_GOAL} at any rate ({least:.3})"),
        );
        goals.add(
            it.seen == usize::from(shares::MANY),
            format!("all {} pods are called ({})", shares::MANY, it.seen),
        );
    }
    goals.judge()
}
