//! The handle on the caller process: starts it, sends commands and reads the responses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::commands::{CallerCommand, EndpointState, StreamOutcome, matches_expected};
use super::load::Outcome;
use super::resource_usage::ResourceUsage;
use super::test_cluster::{SERVICE, TestCluster};

/// The time within which the caller has to respond, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The time within which the effects of the last change have to settle.
pub(super) const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval at which that is polled.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// Settings of glibc's allocator: one arena, and allocated memory is touched at once. Otherwise
/// buffers that have not been filled yet are not resident, and memory seems to grow when they are
/// used later.
const ALLOCATOR: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_PERTURB_", "85")];

/// The caller process. Dropping this kills it.
pub(super) struct CallerProcess {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl CallerProcess {
    /// Starts this program once more, as the caller.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(super) fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["grpc-soak", "--caller"])
            .envs(ALLOCATOR)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the caller process")?;
        let input = child.stdin.take().context("standard input is not piped")?;
        let output = BufReader::new(child.stdout.take().context("standard output is not piped")?).lines();
        Ok(Self { input, output, child })
    }

    pub(super) async fn resource_usage(&mut self) -> Result<ResourceUsage> {
        self.run(CallerCommand::ResourceUsage).await
    }

    /// Connects a channel to the cluster's service. Returns when `endpoints` endpoints are
    /// connected.
    pub(super) async fn connect(&mut self, cluster: &TestCluster, endpoints: usize) -> Result<()> {
        let command =
            CallerCommand::Connect { url: cluster.url().to_owned(), service: SERVICE.to_owned(), endpoints };
        self.run(command).await
    }

    pub(super) async fn begin(&mut self, rate: u32) -> Result<()> {
        self.run(CallerCommand::Begin { rate }).await
    }

    pub(super) async fn end(&mut self) -> Result<Outcome> {
        self.run(CallerCommand::End).await
    }

    /// Calls at a rate for a duration.
    pub(super) async fn steady(&mut self, rate: u32, time: Duration) -> Result<Outcome> {
        self.begin(rate).await?;
        sleep(time).await;
        self.end().await
    }

    /// Starts a stream. Returns when the first message is received.
    pub(super) async fn stream(&mut self, messages: u64, every: Duration) -> Result<()> {
        self.run(CallerCommand::Stream { messages, milliseconds: every.as_millis() as u64 }).await
    }

    pub(super) async fn end_stream(&mut self) -> Result<StreamOutcome> {
        self.run(CallerCommand::EndStream).await
    }

    /// Drops the channel.
    pub(super) async fn drop_channel(&mut self) -> Result<()> {
        self.run(CallerCommand::Drop).await
    }

    /// Waits until the channel is connected to exactly these endpoints. Returns its last state, and
    /// true if it matches.
    pub(super) async fn wait_for_endpoints(
        &mut self,
        expected: &BTreeMap<String, SocketAddr>,
    ) -> Result<(Vec<EndpointState>, bool)> {
        let end = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let states: Vec<EndpointState> = self.run(CallerCommand::Endpoints).await?;
            let matched = matches_expected(&states, expected);
            if matched || Instant::now() > end {
                return Ok((states, matched));
            }
            sleep(POLL).await;
        }
    }

    /// Waits until the process has as many tasks and files as `before`. Returns the last usage,
    /// equal or not.
    pub(super) async fn wait_for_usage(&mut self, before: ResourceUsage) -> Result<ResourceUsage> {
        let end = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let usage = self.resource_usage().await?;
            if usage.has_same_counts(before) || Instant::now() > end {
                return Ok(usage);
            }
            sleep(POLL).await;
        }
    }

    /// Closes the process's input and waits until it exits.
    ///
    /// # Errors
    /// If it does not exit, or exits with an error.
    pub(super) async fn shut_down(self) -> Result<()> {
        let Self { input, mut child, .. } = self;
        drop(input);
        let status = timeout(TIMEOUT, child.wait()).await.context("the caller process does not exit")??;
        ensure!(status.success(), "the caller process exited with {status}");
        Ok(())
    }

    async fn run<T: DeserializeOwned>(&mut self, command: CallerCommand) -> Result<T> {
        let line = serde_json::to_string(&command)? + "\n";
        self.input.write_all(line.as_bytes()).await.context("cannot write to the caller process")?;
        let answer = timeout(TIMEOUT, self.output.next_line()).await;
        let answer = answer.with_context(|| format!("no response to {command:?}"))??;
        let answer = answer.with_context(|| format!("the caller process exited during {command:?}"))?;
        serde_json::from_str(&answer).with_context(|| format!("unexpected response to {command:?}: {answer}"))
    }
}
