//! `dogwatch bench`: what following a server costs, as one line of JSON for scripts that compare.

mod cost;
mod payload;
mod sync;

use std::process::ExitCode;

/// Measure what following a server costs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Sync(sync::Options),
}

/// Measures, and prints what it found.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.what {
        What::Sync(options) => sync::run(&options).await,
    }
}
