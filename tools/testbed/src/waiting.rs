//! Runs a task that starts processes, so that an interrupted one leaves none behind.

use anyhow::{Context, Result, bail};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a task to its end. On SIGINT or SIGTERM the task is dropped, with everything that it
/// started.
pub fn wait(task: impl Future<Output = Result<()>>) -> Result<()> {
    wait_on(&Runtime::new().context("cannot start a runtime")?, task)
}

/// Does the same on a runtime with this many worker threads.
pub fn wait_with(workers: usize, task: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    wait_on(&runtime.context("cannot start a runtime")?, task)
}

fn wait_on(runtime: &Runtime, task: impl Future<Output = Result<()>>) -> Result<()> {
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = task => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })
}
