//! The hand on a caller: starts its process, tells it what to do and reads how it went.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::caller::outcome::Outcome;
use super::contenders::{Contender, Who};
use super::halves::Halves;
use super::town::Town;

/// Longer than anybody takes to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How endpoints are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Each in turn, or whatever else a contender does where it has no choice.
    Turns,
    /// By load, as well as it can.
    Load,
}

/// A process that calls a service. Dropping it ends it.
pub(super) struct Caller {
    pub(super) who: Who,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Caller {
    /// Starts a contender; it has a channel when this returns, and whom to call is its own affair.
    pub(super) async fn start(
        contender: &Contender,
        town: &Town,
        service: &str,
        choice: Choice,
        halves: &Halves,
    ) -> Result<Self> {
        let name = contender.who.name();
        let policy = if choice == Choice::Load { "load" } else { "turns" };
        let mut command = Command::new(&contender.program);
        command
            .args(&contender.arguments)
            .args([town.url(), service, policy])
            .env("KUBECONFIG", town.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let child = halves.at_callers(|| command.spawn())?;
        let mut child = child.with_context(|| format!("cannot start {name}"))?;
        let input = child.stdin.take().context("it has an input")?;
        let output = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        let mut caller = Self { who: contender.who, input, output, _child: child };
        let ready: Value = caller.answer().await?;
        ensure!(ready["ready"] == true, "{name} says {ready}");
        Ok(caller)
    }

    /// Calls without a pause, so many at a time.
    pub(super) async fn burst(&mut self, in_flight: usize, time: Duration) -> Result<Outcome> {
        self.tell(&format!("burst {in_flight} {}", time.as_millis())).await?;
        self.answer().await
    }

    /// Begins to call at a rate.
    pub(super) async fn begin(&mut self, rate: u32) -> Result<()> {
        self.tell(&format!("begin {rate}")).await
    }

    /// Ends what was begun.
    pub(super) async fn end(&mut self) -> Result<Outcome> {
        self.tell("end").await?;
        self.answer().await
    }

    /// Calls at a rate for so long.
    pub(super) async fn steady(&mut self, rate: u32, time: Duration) -> Result<Outcome> {
        self.begin(rate).await?;
        tokio::time::sleep(time).await;
        self.end().await
    }

    async fn tell(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        self.input.write_all(line.as_bytes()).await.with_context(|| format!("{} is gone", self.who.name()))
    }

    async fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        let name = self.who.name();
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        let line = line.with_context(|| format!("{name} does not answer"))??;
        let line = line.with_context(|| format!("{name} has ended"))?;
        serde_json::from_str(&line).with_context(|| format!("{name} says {line}"))
    }
}
