//! The tokio runtime of a program that this one is called as.

use std::process::ExitCode;

use anyhow::Context;
use tokio::runtime::Builder;

/// Runs a future to its end on a runtime of its own.
pub(super) fn block_on(future: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().build().context("cannot start the runtime")?.block_on(future)
}
