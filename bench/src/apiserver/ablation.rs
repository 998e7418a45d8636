//! The contribution of the hand-made parts of our server's connections: each on and off.
//!
//! The load is that of `bench apiserver`: a thousand watches on a hundred connections receive each
//! change. Servers are processes of this program that take turns, a new one for each round, and
//! each round begins with another one. Ratios are to the server with all parts in the same round.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::measure::{ConnectionParts, StreamTasks};
use testbed::server::start_program;

use super::load::{self, CHANGES, WATCH_CONNECTIONS, WATCHERS, WatchLoad};

const ROUNDS: usize = 3;

/// A row of the table: a server with these parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Row {
    AllOn,
    FuturesUnordered,
    NoWakeGate,
    NoWriteCoalescing,
    AllOff,
}

/// The arguments of a server process of this benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct AblatedServer {
    #[arg(long, hide = true)]
    row: Option<Row>,
    #[arg(long, hide = true, requires = "row")]
    token: Option<String>,
    #[arg(long, hide = true, requires = "row")]
    kubeconfig_out: Option<PathBuf>,
}

/// The CPU time of an event, in microseconds.
#[derive(Clone, Copy)]
struct Figures {
    rushed: f64,
    paced: f64,
}

impl AblatedServer {
    /// The row to serve, in a server process.
    pub(super) fn row(&self) -> Option<Row> {
        self.row
    }
}

impl Row {
    fn parts(self) -> ConnectionParts {
        let all = ConnectionParts::default();
        match self {
            Self::AllOn => all,
            Self::FuturesUnordered => ConnectionParts { streams: StreamTasks::Unordered, ..all },
            Self::NoWakeGate => ConnectionParts { wake_gate: false, ..all },
            Self::NoWriteCoalescing => ConnectionParts { write_coalescing: false, ..all },
            Self::AllOff => {
                ConnectionParts { streams: StreamTasks::TaskEach, write_coalescing: false, wake_gate: false }
            }
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::AllOn => "all parts",
            Self::FuturesUnordered => "FuturesUnordered in place of `Streams`",
            Self::NoWakeGate => "no wake gate",
            Self::NoWriteCoalescing => "no write coalescing",
            Self::AllOff => "none: hyper, and a task for each stream",
        }
    }
}

/// Serves one row until the process is killed.
///
/// # Errors
/// If the server does not start, or its kubeconfig cannot be written.
pub(super) async fn serve(row: Row, options: &AblatedServer) -> Result<()> {
    let token = options.token.clone().context("--token is missing")?;
    let file = options.kubeconfig_out.as_ref().context("--kubeconfig-out is missing")?;
    let server = ApiServer::builder().tls(true).token(token).connection_parts(row.parts()).start().await?;
    std::fs::write(file, server.kubeconfig()).with_context(|| format!("cannot write {}", file.display()))?;
    println!("ready {}", server.url());
    std::future::pending().await
}

/// Prints a table in Markdown.
///
/// # Errors
/// If a server fails, or a watcher misses an event.
pub(super) async fn run() -> Result<()> {
    let rows = Row::value_variants();
    let mut figures = vec![Vec::new(); rows.len()];
    for round in 0..ROUNDS {
        for number in 0..rows.len() {
            let at = (number + round) % rows.len();
            eprintln!("round {} of {ROUNDS}: {}", round + 1, rows[at].label());
            figures[at].push(measure(rows[at]).await?);
        }
    }
    println!(
        "{WATCHERS} watches on {WATCH_CONNECTIONS} connections, {CHANGES} changes; medians of {ROUNDS} rounds; ratios \
         are to all parts in the same round\n"
    );
    println!("| parts | CPU us/event, at full speed | ratio | CPU us/event, one by one | ratio |");
    println!("|---|---:|---:|---:|---:|");
    for (row, rounds) in rows.iter().zip(&figures) {
        let value = |of: fn(&Figures) -> f64| median(rounds.iter().map(of));
        let ratio = |of: fn(&Figures) -> f64| {
            median(rounds.iter().zip(&figures[0]).map(|(own, all)| of(own) / of(all)))
        };
        let rushed: fn(&Figures) -> f64 = |it| it.rushed;
        let paced: fn(&Figures) -> f64 = |it| it.paced;
        println!(
            "| {} | {:.1} | {:.2} | {:.1} | {:.2} |",
            row.label(),
            value(rushed),
            ratio(rushed),
            value(paced),
            ratio(paced)
        );
    }
    Ok(())
}

async fn measure(row: Row) -> Result<Figures> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    let name = row.to_possible_value().context("every row has a name")?;
    command.args(["apiserver", "--row", name.get_name()]);
    let server = start_program("bench", command).await?;
    load::prepare(&server.connector).await?;
    let mut watches = WatchLoad::begin(&server.connector).await?;
    let events = (CHANGES * WATCHERS) as f64;
    let before = server.cpu_seconds()?;
    watches.rush().await?;
    let between = server.cpu_seconds()?;
    watches.pace().await?;
    let after = server.cpu_seconds()?;
    Ok(Figures { rushed: (between - before) * 1e6 / events, paced: (after - between) * 1e6 / events })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_parts_and_a_label_of_its_own() {
        let rows = Row::value_variants();
        for row in rows {
            let same = rows.iter().filter(|it| it.parts() == row.parts() || it.label() == row.label());
            assert_eq!(same.count(), 1, "{row:?}");
        }
        assert_eq!(Row::AllOn.parts(), ConnectionParts::default());
    }
}
