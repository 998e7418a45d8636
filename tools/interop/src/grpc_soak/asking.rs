//! The hand on who calls: starts the process, tells it what to do and reads its answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::held::Held;
use super::load::Outcome;
use super::town::{SERVICE, Town};
use super::wishes::{Standing, Streamed, Wish, agree};

/// Longer than any answer takes, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take until what changed last has come to rest.
pub(super) const SETTLING: Duration = Duration::from_secs(30);
/// How often one looks whether it has.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// For glibc's allocator: one arena, and what is given out is touched at once. Otherwise buffers that nobody has filled yet are not resident,
/// and the memory of who uses them later seems to grow.
const ALLOCATOR: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_PERTURB_", "85")];

/// A process that calls. Dropping it kills it.
pub(super) struct Asking {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Asking {
    /// Starts this program once more.
    ///
    /// # Errors
    /// When that cannot be done.
    pub(super) fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["grpc-soak", "--caller"])
            .envs(ALLOCATOR)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the process that calls")?;
        let input = child.stdin.take().context("it has an input")?;
        let output = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        Ok(Self { input, output, child })
    }

    pub(super) async fn held(&mut self) -> Result<Held> {
        self.ask(Wish::Held).await
    }

    /// Returns when so many endpoints of the town's service are connected.
    pub(super) async fn connect(&mut self, town: &Town, endpoints: usize) -> Result<()> {
        let wish = Wish::Connect { url: town.url().to_owned(), service: SERVICE.to_owned(), endpoints };
        self.ask(wish).await
    }

    pub(super) async fn begin(&mut self, rate: u32) -> Result<()> {
        self.ask(Wish::Begin { rate }).await
    }

    pub(super) async fn end(&mut self) -> Result<Outcome> {
        self.ask(Wish::End).await
    }

    /// Calls at a rate for so long.
    pub(super) async fn steady(&mut self, rate: u32, time: Duration) -> Result<Outcome> {
        self.begin(rate).await?;
        sleep(time).await;
        self.end().await
    }

    /// Returns when the first message was read.
    pub(super) async fn stream(&mut self, messages: u64, every: Duration) -> Result<()> {
        self.ask(Wish::Stream { messages, milliseconds: every.as_millis() as u64 }).await
    }

    pub(super) async fn streamed(&mut self) -> Result<Streamed> {
        self.ask(Wish::Streamed).await
    }

    /// Drops the channel.
    pub(super) async fn drop_channel(&mut self) -> Result<()> {
        self.ask(Wish::Drop).await
    }

    /// Waits until the channel is connected to exactly these endpoints. The last it says, and whether it came to that.
    pub(super) async fn settled(
        &mut self,
        expected: &BTreeMap<String, SocketAddr>,
    ) -> Result<(Vec<Standing>, bool)> {
        let end = Instant::now() + SETTLING;
        loop {
            let standings: Vec<Standing> = self.ask(Wish::Endpoints).await?;
            let agreed = agree(&standings, expected);
            if agreed || Instant::now() > end {
                return Ok((standings, agreed));
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until it holds as many tasks and files as that. What it holds in the end, whatever that is.
    pub(super) async fn returned_to(&mut self, before: Held) -> Result<Held> {
        let end = Instant::now() + SETTLING;
        loop {
            let held = self.held().await?;
            if held.counts_are(before) || Instant::now() > end {
                return Ok(held);
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until it has ended of itself, as it does with its input.
    ///
    /// # Errors
    /// When it does not end, or not well.
    pub(super) async fn dismiss(self) -> Result<()> {
        let Self { input, mut child, .. } = self;
        drop(input);
        let status =
            timeout(PATIENCE, child.wait()).await.context("the process that calls does not end")??;
        ensure!(status.success(), "the process that calls ended with {status}");
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(&mut self, wish: Wish) -> Result<T> {
        let line = serde_json::to_string(&wish)? + "\n";
        self.input.write_all(line.as_bytes()).await.context("the process that calls is gone")?;
        let answer = timeout(PATIENCE, self.output.next_line()).await;
        let answer = answer.with_context(|| format!("no answer to {wish:?}"))??;
        let answer = answer.with_context(|| format!("the process that calls has ended at {wish:?}"))?;
        serde_json::from_str(&answer).with_context(|| format!("{wish:?} is answered by {answer}"))
    }
}
