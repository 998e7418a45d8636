//! `cargo xtask bench informer [store|fan_out|memory] [--quick] [--alone]`: the costs of a local
//! cache in updates, reads, notifications and memory, compared with client-go and kube-rs.

mod settings;
mod peers;
mod store;
mod fan_out;
mod memory;

pub(crate) use fan_out::flood;

use anyhow::{Result, ensure};

use self::peers::{ContendedRates, Figures, Notification};
use self::settings::{Goals, QUICK, THOROUGH};

/// The minimum ratio of our updates to client-go's, with 80 concurrent readers.
const WRITES_GOAL: f64 = 5.0;
/// The maximum ratio of the cost of a notification to client-go's.
const NOTIFICATION_GOAL: f64 = 1.0 / 5.0;
/// The minimum ratio of client-go's time to ours to find 100 of 100,000 objects by label.
const LABEL_GOAL: f64 = 10.0;

/// Runs one part, or all of them one after the other.
///
/// # Errors
/// If a goal is missed, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut settings, mut alone, mut parts) = (&THOROUGH, false, Vec::new());
    for argument in arguments {
        match argument.as_str() {
            "--quick" => settings = &QUICK,
            "--alone" => alone = true,
            part @ ("store" | "fan_out" | "memory") => parts.push(part),
            other => {
                anyhow::bail!(
                    "unknown argument {other:?}; there are store, fan_out, memory, --quick and --alone"
                )
            }
        }
    }
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut goals = Goals::default();
    if wanted("store") || wanted("fan_out") {
        let peers = if alone { Vec::new() } else { peers::measure(settings)? };
        if wanted("store") {
            let measured = store::run(settings, &mut goals)?;
            compare_store(&measured, &peers, &mut goals);
        }
        if wanted("fan_out") {
            let measured = fan_out::run(settings)?;
            compare_notifications(&measured, &peers, &mut goals);
        }
    }
    // A missed goal does not stop the other parts.
    let memory = if wanted("memory") { memory::run(settings.rounds < THOROUGH.rounds) } else { Ok(()) };
    println!();
    for (met, goal) in &goals.0 {
        println!("{}: {goal}", if *met { "met" } else { "MISSED" });
    }
    memory?;
    ensure!(goals.0.iter().all(|(met, _)| *met), "a goal is missed");
    Ok(())
}

fn compare_store(ours: &store::StoreFigures, peers: &[Figures], goals: &mut Goals) {
    let most = ours.contended.iter().map(|it| it.readers).max().unwrap_or_default();
    println!(
        "\nwith {most} concurrent readers, per second\n{:24} {:>8} {:>12} {:>12}",
        "", "pods", "reads", "writes"
    );
    let show = |name: &str, all: &[ContendedRates]| {
        for ContendedRates { pods, reads, writes, .. } in all.iter().filter(|it| it.readers == most) {
            println!("{name:24} {pods:>8} {reads:>12.0} {writes:>12.1}");
        }
    };
    show("dogwatch", &ours.contended);
    peers.iter().for_each(|it| show(&it.peer, &it.contended));
    println!("\n100 of 100,000 by label, in us\n{:24} {:>12.1} by index", "dogwatch", ours.by_index * 1e6);
    peers.iter().for_each(|it| println!("{:24} {:>12.1}", it.peer, it.label_ns / 1e3));

    let Some(client_go) = peers.iter().find(|it| it.peer.starts_with("client-go")) else { return };
    for theirs in client_go.contended.iter().filter(|it| it.readers == most) {
        let same = |it: &&ContendedRates| (it.pods, it.readers) == (theirs.pods, theirs.readers);
        let Some(mine) = ours.contended.iter().find(same) else { continue };
        let times = mine.writes / theirs.writes;
        let goal = format!(
            "at least {WRITES_GOAL} times client-go's writes with {most} readers of {} pods ({times:.1})",
            theirs.pods
        );
        goals.add(times >= WRITES_GOAL, goal);
    }
    let times = client_go.label_ns / (ours.by_index * 1e9);
    let goal = format!(
        "at least {LABEL_GOAL} times as fast as client-go to list 100 of 100,000 by label ({times:.0})"
    );
    goals.add(times >= LABEL_GOAL, goal);
}

fn compare_notifications(ours: &[fan_out::Cost], peers: &[Figures], goals: &mut Goals) {
    let client_go = peers.iter().find(|it| it.peer.starts_with("client-go"));
    if let Some(Figures { peer, notifications, .. }) = client_go {
        println!("\none notification of {peer}\n{:>9} {:>10}", "handlers", "ns");
        notifications.iter().for_each(|Notification { handlers, ns }| println!("{handlers:>9} {ns:>10.0}"));
    }
    for fan_out::Cost { handlers, coalesce, grow } in ours {
        // client-go buffers all notifications without a limit, so its figure is compared with
        // `Grow`.
        if let Some(it) = client_go.and_then(|it| it.notifications.iter().find(|it| it.handlers == *handlers))
        {
            let goal = format!(
                "a notification to {handlers} handlers, growing buffer: at most a fifth of client-go's {:.0} ns ({grow:.0})",
                it.ns
            );
            goals.add(*grow <= it.ns * NOTIFICATION_GOAL, goal);
        }
        let goal = format!(
            "a notification to {handlers} handlers, coalesced: at most a fifth of the {:.0} ns of client-go's own \
             benchmark ({coalesce:.0})",
            fan_out::CLIENT_GO
        );
        goals.add(*coalesce <= fan_out::CLIENT_GO * NOTIFICATION_GOAL, goal);
    }
}
