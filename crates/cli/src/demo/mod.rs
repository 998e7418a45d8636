//! `dogwatch demo`: a story in acts, on a whole cluster in this process.
//!
//! ```text
//! Scene (API server, simulator, informer, naive clients) ◄── acts ──► Stage ──lines──► Printer
//!                                                             └── outcomes ──► Summary, Comparison
//! ```
//!
//! An act changes the cluster, waits for what follows and prints what it measured. A user may
//! change it too: an act that cannot finish says why, and the next one is played. Nothing that is
//! printed as a fact is written down in advance. With a connection flag, the command prints the API
//! of that server instead, and changes nothing there.

mod survey_table;
mod wrapping;
mod stage;
mod waiting;
mod connect;
mod versions;
mod kill_switch;
mod tap;
mod tapped_pods;
mod naive_client;
mod decoded_size;
mod ingress_replica;
mod page;
mod scene;
mod workload;
mod greeter;
mod backend;
mod pod_servers;
mod steady_calls;
mod steady_changes;
mod comparison;
mod acts;
mod summary;
mod aftermath;

use std::io::{self, Write as _};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::printer::Printer;
use crate::sanitize::without_controls;
use crate::{number, signals, survey};
use acts::ACTS;
use comparison::Comparison;
use scene::Scene;
use stage::{Ink, Look, Stage, took};
use summary::Summary;
use wrapping::wrapped;

/// The time for a reader to take the remaining output after a shutdown signal.
const SUMMARY_GRACE: Duration = Duration::from_secs(2);
/// The number of acts after which the clients can be compared: by then, a watch has been resumed
/// and history has expired.
const COMPARABLE_AFTER: usize = 3;

/// Show in six acts how clients survive failures, on its own cluster.
///
/// It needs no cluster: it starts an API server with simulated nodes. In each act it makes
/// something happen, and prints what it measured. The acts: (1) an informer lists and watches pods;
/// (2) its connection is cut; (3) the server drops its history, so that no watch can resume; (4)
/// two replicas of a controller run, and the leader is killed; (5) pods are replaced during gRPC
/// calls; (6) a handler is slow. A table at the end compares the informer with two clients that
/// list and watch without one.
///
/// The acts take about half a minute on a terminal. Then the cluster keeps running until Ctrl-C. At
/// any time you can look around, and change what you like: on the live page, whose address is
/// printed, or with
///
/// kubectl --server URL get pods --all-namespaces --watch
///
/// An act that cannot finish because of a change says so, and the demo goes on.
///
/// Output: a line that begins with "ACT" opens an act, and the next one says what it is about. The
/// lines of an act begin with the seconds since the start; "> " marks what the demo does, and the
/// rest is what it measured. On a pipe or file the text is the same, one fact per line, without
/// colours and without pauses for reading. NO_COLOR and TERM=dumb turn colours off.
///
/// With a connection flag, such as --server or --kubeconfig, there are no acts: it prints the
/// resource types of that server, counts the objects of common ones, and changes nothing there.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Stop after this many seconds, if need be in the middle of an act, with a summary. By default
    /// it runs until Ctrl-C.
    #[arg(long, value_name = "N", value_parser = number::whole::<u64>(1..=u64::MAX), conflicts_with = "connection")]
    seconds: Option<u64>,
    /// Print only the titles of the acts, the summary and the closing table.
    #[arg(short, long, conflicts_with = "connection")]
    quiet: bool,
    /// The port of the API server, on 127.0.0.1. By default a free one is chosen.
    #[arg(long, value_name = "P", value_parser = number::port(), conflicts_with = "connection")]
    port: Option<u16>,
    /// The port of the live page, on 127.0.0.1. By default a free one is chosen.
    #[arg(long, value_name = "P", value_parser = number::port(), conflicts_with = "connection")]
    page_port: Option<u16>,
    /// With a connection flag: count only the objects of this namespace.
    #[arg(short, long, value_name = "NAME", requires = "connection")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// The story, and how far it got.
struct Story {
    scene: Scene,
    stage: Stage,
    summary: Summary,
    /// True if `--seconds` ends the demo.
    is_limited: bool,
    /// Set once the summary was printed.
    is_closed: bool,
}

/// Runs the demo until its time is up.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.connection.is_given() {
        let namespace = options.namespace.as_deref().filter(|it| !it.is_empty());
        let survey = survey::take(&options.connection.client()?, namespace).await?;
        io::stdout().write_all(survey_table::text(&survey).as_bytes()).context("cannot write to stdout")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut ended = pin!(signals::shutdown().context("cannot listen for signals")?.fuse());
    let began = Instant::now();
    let (stage, mut lines) = Stage::new(Look::of_stdout(options.quiet), began);
    let scene = Scene::start(options.port, options.page_port).await?;
    let mut printer = Printer::start().context("cannot start a thread to print")?;
    let is_limited = options.seconds.is_some();
    let mut story = Story { scene, stage, summary: Summary::default(), is_limited, is_closed: false };
    let time_is_up = async {
        match options.seconds.map(Duration::from_secs) {
            Some(length) => tokio::time::sleep(length.saturating_sub(began.elapsed())).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        () = &mut ended => Ok(()),
        () = time_is_up => Ok(()),
        printed = print_lines(&mut lines, &mut printer) => printed,
        failed = story.play() => failed,
    };
    let mut last = String::new();
    while let Ok(line) = lines.try_recv() {
        last.push_str(&line);
    }
    last.push_str(&story.end().await);
    let printed = print_last(printer, last, ended).await;
    outcome?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

impl Story {
    /// Plays all acts, and then follows the cluster. Returns only on an error, which no act causes.
    async fn play(&mut self) -> anyhow::Result<()> {
        self.introduce().await?;
        for index in 0..ACTS.len() {
            self.summary.begin_act();
            let outcome = match acts::play(index, &mut self.scene, &self.stage).await {
                Ok(outcome) => outcome,
                Err(error) => self.give_up(&error).await,
            };
            self.summary.end_act(outcome);
        }
        let closing = self.closing(false).await;
        self.stage.print(closing).await;
        self.is_closed = true;
        self.scene.stop_recording();
        let end = if self.is_limited { "Ctrl-C or the end of --seconds" } else { "Ctrl-C" };
        let over = format!("The cluster keeps running until {end}.");
        let changes = "gRPC calls go on, and the Services of act 4 change twice a second, for the live page.";
        let [over, changes] = [over.as_str(), changes].map(|it| wrapped(it, self.stage.look().width, 0));
        self.stage.print(format!("\n{over}\n{changes}\n{}", self.addresses())).await;
        tokio::select! {
            biased;
            ended = aftermath::watch(&self.scene, &self.stage) => ended,
            never = steady_calls::run(&self.scene, &self.stage) => match never {},
            never = steady_changes::run(&self.scene) => match never {},
        }
    }

    /// Prints the reason for which an act could not finish: after a change by a user, the state
    /// that it waits for may never come. Returns the outcome of the act.
    async fn give_up(&self, error: &anyhow::Error) -> String {
        let reason = without_controls(&format!("{error:#}"));
        let text =
            format!("This act ends here: {reason}. Was the cluster changed meanwhile? The demo goes on.");
        self.stage.print(format!("{}\n", wrapped(&text, self.stage.look().width, 0))).await;
        format!("not finished: {reason}")
    }

    async fn introduce(&self) -> anyhow::Result<()> {
        let look = self.stage.look();
        if look.quiet {
            if let Some(note) = self.scene.versions.note() {
                self.stage.print(format!("{note}\n")).await;
            }
            return Ok(());
        }
        let ready_after = took(self.stage.elapsed());
        let survey = survey::take(&self.scene.client, None).await?;
        let ready = format!(
            "API server {} (Kubernetes {}) is ready after {ready_after}.",
            self.scene.server.url(),
            survey.version,
        );
        let explained = "\"> \" marks what the demo does. The lines after it are what it then measured.";
        let ready = wrapped(&ready, look.width, 0);
        self.stage.print(format!("{ready}\n{}", self.addresses())).await;
        for line in [Some(explained.to_owned()), self.scene.versions.note()].into_iter().flatten() {
            let line = wrapped(&line, look.width, 0);
            self.stage.print(format!("{}\n", look.paint(Ink::Faint, &line))).await;
        }
        Ok(())
    }

    /// Returns where to look at the cluster from outside.
    fn addresses(&self) -> String {
        let url = self.scene.server.url();
        format!(
            "Look around, and change what you like:\n  {} in a browser: the live page of this demo\n  \
             kubectl --server {url} get pods -A --watch\n  \
             kubectl --server {url} scale deployment web -n demo --replicas 4\n  \
             {program} ui --server {url} pods -A\n",
            self.scene.page.url(),
            program = crate::program::command(),
        )
    }

    /// Returns the summary, and the comparison of the clients if the story got that far.
    async fn closing(&self, is_cut_short: bool) -> String {
        let look = self.stage.look();
        let mut text = String::new();
        if self.summary.finished() < COMPARABLE_AFTER {
            return self.summary.text(look, self.stage.elapsed());
        }
        match Comparison::measure(&self.scene, is_cut_short).await {
            Ok(comparison) => text.push_str(&comparison.text(look)),
            Err(error) => text.push_str(&format!("\nThe clients were not compared: {error}.\n")),
        }
        self.summary.text(look, self.stage.elapsed()) + &text
    }

    /// Stops the cluster. Returns the last lines.
    async fn end(self) -> String {
        let last = if self.is_closed {
            format!("\nStopped after {:.1} s.\n", self.stage.elapsed().as_secs_f64())
        } else {
            self.closing(true).await
        };
        self.scene.stop().await;
        last
    }
}

/// Prints the lines of the story, until it ends or the reader closes stdout.
async fn print_lines(lines: &mut mpsc::Receiver<String>, printer: &mut Printer) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            biased;
            closed = printer.closed() => return closed,
            line = lines.recv() => match line {
                Some(line) => printer.print(line).await?,
                None => return Ok(()),
            },
        }
    }
}

/// Prints the last lines. If the reader does not take them, waits until a shutdown signal, and not
/// much longer.
async fn print_last(
    mut printer: Printer,
    last: String,
    ended: impl FusedFuture<Output = ()>,
) -> anyhow::Result<()> {
    let printed = async {
        printer.print(last).await?;
        printer.finish().await
    };
    let given_up = async {
        if !ended.is_terminated() {
            ended.await;
        }
        tokio::time::sleep(SUMMARY_GRACE).await;
    };
    tokio::select! {
        biased;
        printed = printed => printed,
        () = given_up => Ok(()),
    }
}
