//! `dogwatch bench`: the cost of an informer, as one line of JSON for scripts.

mod sync;

use std::process::ExitCode;

/// Measure the cost of an informer on a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Sync(sync::Options),
}

/// Runs the measurement, and prints the result.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.what {
        What::Sync(options) => sync::run(&options).await,
    }
}
