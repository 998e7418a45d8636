//! Waiting for a task that talks to others, so that an interrupted one leaves nothing behind.

use anyhow::{Context, Result, bail};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a task to its end. When we are interrupted or told to end, the task is dropped, and with it all that it started.
pub(crate) fn wait(task: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = Runtime::new().context("cannot start a runtime")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = task => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("told to end"),
        }
    })
}
