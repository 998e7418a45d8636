//! `cargo xtask bench apiserver`: measures our API server and, if its programs are given,
//! kube-apiserver over etcd.
//!
//! Both are measured in the same way in the same run: over TLS on loopback, with the same load,
//! which runs on the same machine. etcd runs without fsync, so neither server waits for the disk;
//! etcd's CPU and memory count as kube-apiserver's.
//!
//! With `--ablation`, our server is compared with itself, without its hand-made parts.

mod load;
mod ablation;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;

use testbed::runtime;
use testbed::server::{self, OwnServer, Server};

use self::load::{CHANGES, CREATES, OBJECTS, WRITERS, WatchLoad};

/// The number of times our server is started. A start takes milliseconds, and the first one reads
/// the program from disk.
const STARTS: usize = 5;
/// The time that a server is left idle before its memory is read.
const REST: Duration = Duration::from_secs(3);

/// Measures our API server, and compares it with kube-apiserver.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench apiserver")]
struct Options {
    #[command(flatten)]
    ours: OwnServer,
    /// A directory with kube-apiserver and etcd, to measure in the same run.
    #[arg(long, value_name = "DIR")]
    kube_apiserver_bin: Option<PathBuf>,
    /// Measure the events of our server with and without each hand-made part of its connections.
    #[arg(long)]
    ablation: bool,
    #[command(flatten)]
    ablated: ablation::AblatedServer,
}

/// The measurements of one server.
#[derive(Clone, Copy, Debug)]
struct Figures {
    ready_ms: f64,
    idle_mb: f64,
    creates_per_second: f64,
    us_per_create: f64,
    list_mb_per_second: f64,
    /// Events delivered per second while writers write as fast as they can.
    events_per_second: f64,
    rushed_us_per_event: f64,
    /// CPU time per event while changes come one by one.
    paced_us_per_event: f64,
    loaded_mb: f64,
}

/// One line of the table.
struct Line {
    label: &'static str,
    of: fn(&Figures) -> f64,
    goal: Goal,
}

#[derive(Clone, Copy)]
enum Goal {
    None,
    /// Ours is below this value.
    Below(f64),
    /// Ours is at least this many times the other value.
    Times(f64),
    /// Ours is at most the other value divided by this number.
    TimesLess(f64),
}

const LINES: &[Line] = &[
    Line { label: "time to ready, ms", of: |it| it.ready_ms, goal: Goal::Below(20.0) },
    Line { label: "memory when idle, MB", of: |it| it.idle_mb, goal: Goal::Below(20.0) },
    Line { label: "creates per second", of: |it| it.creates_per_second, goal: Goal::Times(10.0) },
    Line { label: "CPU per create, us", of: |it| it.us_per_create, goal: Goal::None },
    Line { label: "list, MB/s", of: |it| it.list_mb_per_second, goal: Goal::None },
    Line { label: "events per second, at full speed", of: |it| it.events_per_second, goal: Goal::None },
    Line {
        label: "CPU per event at full speed, us",
        of: |it| it.rushed_us_per_event,
        goal: Goal::TimesLess(5.0),
    },
    Line {
        label: "CPU per event one by one, us",
        of: |it| it.paced_us_per_event,
        goal: Goal::TimesLess(5.0),
    },
    Line { label: "memory at the end, MB", of: |it| it.loaded_mb, goal: Goal::None },
];

/// Prints the table.
///
/// # Errors
/// If a server does not start, a response is not the expected one, or a goal is missed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let name = "cargo xtask bench apiserver".to_owned();
    let options = match Options::try_parse_from([name].iter().chain(arguments)) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    runtime::run(async move {
        if let Some(row) = options.ablated.row() {
            return ablation::serve(row, &options.ablated).await;
        }
        if options.ablation {
            return ablation::run().await;
        }
        let kube_apiserver = match &options.kube_apiserver_bin {
            Some(binaries) => Some(measure(server::start_kube_apiserver(binaries).await?, Vec::new()).await?),
            None => None,
        };
        let mut earlier = Vec::new();
        for _ in 1..STARTS {
            earlier.push(options.ours.start(&[]).await?.ready_after);
        }
        let ours = measure(options.ours.start(&[]).await?, earlier).await?;
        ensure!(print(&ours, kube_apiserver.as_ref()), "a goal is missed");
        Ok(())
    })
}

/// Measures one server and stops it. `earlier` has the durations of its earlier starts.
async fn measure(server: Server, earlier: Vec<Duration>) -> Result<Figures> {
    let mut ready = earlier;
    ready.push(server.ready_after);
    ready.sort();
    let ready_ms = ready[ready.len() / 2].as_secs_f64() * 1e3;
    eprintln!("measuring {}", server.name);
    tokio::time::sleep(REST).await;
    let idle_mb = server.resident_mb()?;

    load::prepare(&server.connector).await?;
    let (before, seconds) = (server.cpu_seconds()?, load::create(&server.connector).await?);
    let us_per_create = (server.cpu_seconds()? - before) * 1e6 / CREATES as f64;
    let creates_per_second = CREATES as f64 / seconds;
    let (bytes, seconds) = load::list(&server.connector).await?;
    let list_mb_per_second = bytes as f64 / 1e6 / seconds;

    let mut watches = WatchLoad::begin(&server.connector).await?;
    let (before, seconds) = (server.cpu_seconds()?, watches.rush().await?);
    let rushed = server.cpu_seconds()? - before;
    let (before, _) = (server.cpu_seconds()?, watches.pace().await?);
    let paced = server.cpu_seconds()? - before;
    let events = (CHANGES * load::WATCHERS) as f64;
    Ok(Figures {
        ready_ms,
        idle_mb,
        creates_per_second,
        us_per_create,
        list_mb_per_second,
        events_per_second: events / seconds,
        rushed_us_per_event: rushed * 1e6 / events,
        paced_us_per_event: paced * 1e6 / events,
        loaded_mb: server.resident_mb()?,
    })
}

/// Prints the table. Returns true if every goal is met that can be judged.
fn print(ours: &Figures, kube_apiserver: Option<&Figures>) -> bool {
    println!(
        "TLS on loopback; {CREATES} creates over {WRITERS} connections, a list of {OBJECTS} objects, {} watchers over {} \
         connections, {CHANGES} changes of 1 KB objects, twice; the load runs on the same machine",
        load::WATCHERS,
        load::WATCH_CONNECTIONS,
    );
    println!("{:34} {:>12} {:>15} {:>8}  goal", "", "dogwatch", "kube-apiserver", "ratio");
    let mut met = true;
    for line in LINES {
        let (mine, other) = ((line.of)(ours), kube_apiserver.map(line.of));
        let ratio = other.map(|it| mine.max(it) / mine.min(it));
        let shown = ratio.map_or_else(String::new, |it| format!("{it:.1}x"));
        let other_shown = other.map_or_else(String::new, number);
        let verdict = judge(line.goal, mine, other);
        met &= verdict.as_ref().is_none_or(|(met, _)| *met);
        let verdict = verdict.map_or_else(String::new, |(met, goal)| {
            format!("{goal}: {}", if met { "met" } else { "MISSED" })
        });
        println!("{:34} {:>12} {other_shown:>15} {shown:>8}  {verdict}", line.label, number(mine));
    }
    met
}

/// Judges a goal. Returns the verdict and the goal as text, or `None` if there is no goal or
/// nothing to compare with.
fn judge(goal: Goal, mine: f64, other: Option<f64>) -> Option<(bool, String)> {
    match goal {
        Goal::None => None,
        Goal::Below(most) => Some((mine < most, format!("under {most}"))),
        Goal::Times(least) => Some((mine >= other? * least, format!("at least {least}x"))),
        Goal::TimesLess(least) => Some((mine * least <= other?, format!("at least {least}x less"))),
    }
}

/// Formats a value with one decimal below 100 and none above.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_judged_in_its_direction_and_only_with_something_to_compare_with() {
        let met = |goal, mine, other| judge(goal, mine, other).map(|it| it.0);
        assert_eq!(met(Goal::Below(20.0), 19.9, None), Some(true));
        assert_eq!(met(Goal::Below(20.0), 20.0, Some(1.0)), Some(false));
        assert_eq!(met(Goal::Times(10.0), 100.0, Some(10.0)), Some(true));
        assert_eq!(met(Goal::Times(10.0), 99.0, Some(10.0)), Some(false));
        assert_eq!(met(Goal::Times(10.0), 99.0, None), None);
        assert_eq!(met(Goal::TimesLess(5.0), 2.0, Some(10.0)), Some(true));
        assert_eq!(met(Goal::TimesLess(5.0), 2.1, Some(10.0)), Some(false));
        assert_eq!(met(Goal::None, 1.0, Some(1.0)), None);
    }
}
