//! The handle on a caller process: starts it, sends it commands and reads the outcomes.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::caller::outcome::Outcome;
use super::contenders::{Contender, ContenderKind};
use super::cpu_split::CpuSplit;
use super::test_cluster::TestCluster;

/// The time within which a caller has to respond. It is longer than any of them takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The balancing policy of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Balancing {
    /// Round robin, or the only policy of a contender that has no choice.
    RoundRobin,
    /// The contender's best policy by load.
    ByLoad,
}

/// A process that calls a service. Dropping this kills the process.
pub(super) struct CallerProcess {
    pub(super) kind: ContenderKind,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl CallerProcess {
    /// Starts a contender and waits until it has a channel. It finds the endpoints by itself.
    pub(super) async fn start(
        contender: &Contender,
        cluster: &TestCluster,
        service: &str,
        balancing: Balancing,
        cpu_split: &CpuSplit,
    ) -> Result<Self> {
        let name = contender.kind.name();
        let policy = if balancing == Balancing::ByLoad { "load" } else { "turns" };
        let mut command = Command::new(&contender.program);
        command
            .args(&contender.arguments)
            .args([cluster.url(), service, policy])
            .env("KUBECONFIG", cluster.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let child = cpu_split.on_caller_cpus(|| command.spawn())?;
        let mut child = child.with_context(|| format!("cannot start {name}"))?;
        let input = child.stdin.take().context("standard input is not piped")?;
        let output = BufReader::new(child.stdout.take().context("standard output is not piped")?).lines();
        let mut caller = Self { kind: contender.kind, input, output, _child: child };
        let ready: Value = caller.read_response().await?;
        ensure!(ready["ready"] == true, "unexpected first line from {name}: {ready}");
        Ok(caller)
    }

    /// Calls without a pause, with `in_flight` concurrent calls.
    pub(super) async fn burst(&mut self, in_flight: usize, time: Duration) -> Result<Outcome> {
        self.send_command(&format!("burst {in_flight} {}", time.as_millis())).await?;
        self.read_response().await
    }

    /// Starts calling at a rate of calls per second.
    pub(super) async fn begin(&mut self, rate: u32) -> Result<()> {
        self.send_command(&format!("begin {rate}")).await
    }

    /// Stops the calls that [`begin`](Self::begin) started.
    pub(super) async fn end(&mut self) -> Result<Outcome> {
        self.send_command("end").await?;
        self.read_response().await
    }

    /// Calls at a rate for a duration.
    pub(super) async fn steady(&mut self, rate: u32, time: Duration) -> Result<Outcome> {
        self.begin(rate).await?;
        tokio::time::sleep(time).await;
        self.end().await
    }

    async fn send_command(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        self.input
            .write_all(line.as_bytes())
            .await
            .with_context(|| format!("cannot write to {}", self.kind.name()))
    }

    async fn read_response<T: DeserializeOwned>(&mut self) -> Result<T> {
        let name = self.kind.name();
        let line = tokio::time::timeout(TIMEOUT, self.output.next_line()).await;
        let line = line.with_context(|| format!("{name} does not respond within {TIMEOUT:?}"))??;
        let line = line.with_context(|| format!("{name} exited"))?;
        serde_json::from_str(&line).with_context(|| format!("unexpected line from {name}: {line}"))
    }
}
