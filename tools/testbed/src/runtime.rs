//! Runs a task that starts processes, so that an interrupted one leaves none behind.

use anyhow::{Context, Result, bail};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a task to its end. On SIGINT or SIGTERM the task is dropped, with everything that it
/// started.
pub fn run(task: impl Future<Output = Result<()>>) -> Result<()> {
    run_on(&Runtime::new().context("cannot start a runtime")?, task)
}

/// Does the same on a runtime with this many worker threads.
pub fn run_with_workers(workers: usize, task: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    run_on(&runtime.context("cannot start a runtime")?, task)
}

fn run_on(runtime: &Runtime, task: impl Future<Output = Result<()>>) -> Result<()> {
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = task => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })
}
