//! `cargo xtask bench peers`: the same informer of pods with client-go, kube-rs and our payloads,
//! and curl as the floor: processor time, memory, and the costs of a change and of a relist.
//!
//! ```text
//! this process                          one process per contender and round
//! pods, changes ──► API server ◄─────── list and watch
//! table, goals  ◄── lines of JSON ───── cache
//! ```
//!
//! Contenders take turns on one server. The `mod` lines below are in layer order.

mod names;
mod report;
mod spread;
mod table;
mod goals;
mod relisting;
mod task;
mod times;
#[cfg(feature = "heap")]
mod heap;
mod own;
mod curl;
mod programs;
mod contender_process;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dogwatch::config::Overrides;
use dogwatch::{Client, Config};

use self::contender_process::{ContenderProcess, Purpose};
use self::curl::Curl;
use self::names::{CURL_JSON, CURL_PROTOBUF};
use self::programs::Program;
use self::report::Report;
use self::table::Results;
use crate::server_pods::{NAMESPACE, ServerPods};
use testbed::runtime;
use testbed::server::{OwnServer, Server};

/// Measures an informer of pods, and compares it with client-go, kube-rs and curl.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench peers")]
struct Options {
    /// The number of pods.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// The number of times that each contender is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The number of changes that each contender receives in a round.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
    /// Use the API server of this kubeconfig. It must not have controllers that delete pods of
    /// nodes and owners that do not exist. The pods are left in the namespace bench-peers for the
    /// next run. Without it, our own server is started.
    #[arg(long, value_name = "FILE", conflicts_with = "server_binary")]
    kubeconfig: Option<PathBuf>,
    /// Measure our own contenders and curl only.
    #[arg(long)]
    alone: bool,
    #[command(flatten)]
    ours: OwnServer,
}

/// Prints the table and the goals.
///
/// # Errors
/// If the server does not start, or a contender fails. A missed goal is not an error.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    // The subcommand with which the benchmark starts its own contenders.
    if let [first, contender @ ..] = arguments
        && first == "contend"
    {
        return own::run(contender);
    }
    let name = "cargo xtask bench peers".to_owned();
    let options = Options::parse_from(std::iter::once(&name).chain(arguments));
    runtime::run(compare(options))
}

async fn compare(options: Options) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a directory")?;
    let programs = programs::find(folder.path(), options.alone)?;
    let server = server_of(&options).await?;
    let kubeconfig = match (&server, &options.kubeconfig) {
        (Some(server), _) => &server.kubeconfig,
        (None, Some(kubeconfig)) => kubeconfig,
        (None, None) => anyhow::bail!("there is no server"),
    };
    let config = Config::from_kubeconfig(kubeconfig, &Overrides::default())?;
    let shown = if server.is_some() { "our own".to_owned() } else { config.server.to_string() };
    let curl = Curl::find(&config, NAMESPACE, folder.path())?;
    if curl.is_none() {
        println!("skipping curl, which is not installed");
    }
    let count = usize::try_from(options.pods)?;
    let pods = ServerPods::prepare(&Client::new(config)?, count).await?;
    let mut turns = Turns { kubeconfig, pods, count, updates: options.updates.into() };

    let mut results = Results::default();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for program in &programs {
            results.add(program.name, turns.times(program).await?);
        }
        for (name, media_type) in MEDIA_TYPES {
            if let Some(curl) = &curl {
                results.add(name, turns.curl(curl, media_type).await?);
            }
        }
    }
    eprintln!("measuring the heap");
    for program in &programs {
        results.add(program.name, turns.heap(program).await?);
    }
    print(&options, &shown, &results);
    Ok(())
}

/// The time after the last change until every watch has received it.
const LAST_CHANGE: Duration = Duration::from_millis(500);

/// The time between two changes: 500 per second, which every contender can follow.
const PACE: Duration = Duration::from_millis(2);

/// The encodings in which curl reads.
const MEDIA_TYPES: [(&str, &str); 2] =
    [(CURL_JSON, "application/json"), (CURL_PROTOBUF, "application/vnd.kubernetes.protobuf")];

/// Starts our own server, unless another one is given.
async fn server_of(options: &Options) -> Result<Option<Server>> {
    if options.kubeconfig.is_some() {
        return Ok(None);
    }
    // The controllers would delete pods whose owner does not exist.
    Ok(Some(options.ours.start(&["--no-controllers"]).await?))
}

/// The server and the pods that the contenders share.
struct Turns<'a> {
    kubeconfig: &'a Path,
    pods: ServerPods,
    count: usize,
    updates: u64,
}

impl Turns<'_> {
    /// Measures times and resident memory of a contender.
    async fn times(&mut self, program: &Program) -> Result<Report> {
        let mut contender = self.start(program, Purpose::Times { updates: self.updates }).await?;
        self.pods.touch(self.updates, PACE).await?;
        contender.report().await
    }

    /// Measures the heap of a contender.
    async fn heap(&self, program: &Program) -> Result<Report> {
        self.start(program, Purpose::Heap).await?.report().await
    }

    /// Measures curl.
    async fn curl(&mut self, curl: &Curl, media_type: &'static str) -> Result<Report> {
        let (version, count, curl) = (self.pods.version().await?, self.count, curl.clone());
        let started = tokio::task::spawn_blocking(move || {
            anyhow::Ok((curl.measure(media_type, count)?, curl.watch(media_type, &version)?))
        });
        let (mut report, watch) = started.await??;
        self.pods.touch(self.updates, PACE).await?;
        tokio::time::sleep(LAST_CHANGE).await;
        report.cpu_us_per_event = Some(watch.end(self.updates)?);
        Ok(report)
    }

    /// Starts a contender and waits until its cache is synced.
    async fn start(&self, program: &Program, purpose: Purpose) -> Result<ContenderProcess> {
        let mut contender = ContenderProcess::start(program, self.kubeconfig, purpose)?;
        let synced = contender.synced().await?;
        ensure!(synced == self.count, "{} has {synced} of {} pods", program.name, self.count);
        Ok(contender)
    }
}

fn print(options: &Options, server: &str, results: &Results) {
    let Options { pods, rounds, updates, .. } = options;
    println!(
        "\n{pods} pods of 12 to 14 KB in JSON, {updates} changes, {rounds} rounds; server: {server}, TLS and HTTP/2; \
         median and half of the range"
    );
    println!("{}\n", results.table());
    println!("goals, by the medians");
    print!("{}", goals::verdicts(results));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
