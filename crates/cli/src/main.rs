//! The `dogwatch` command: reads the command line, starts the log and the runtime, and hands over to one command.
//!
//! Exit codes: 0 done, 1 failed (one line on stderr says what to do about it), 2 bad usage.

mod failure;
mod logging;
mod ending;
mod connection;
mod advice;
mod survey;
mod target;
mod demo;
mod serve;
mod resolve;
mod watch;
mod bench;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

/// Keeps programs in step with a Kubernetes cluster.
#[derive(Debug, Parser)]
#[command(name = "dogwatch", version, disable_help_subcommand = true, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    verbosity: logging::Verbosity,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything at once, without a cluster: an API server, a simulated workload, and what happens to it.
    Demo(demo::Options),
    /// Run a Kubernetes API server on this machine, without a cluster behind it.
    Serve(serve::Options),
    /// Look up the endpoints of a gRPC target, and show them as they change.
    Resolve(resolve::Options),
    /// Follow any resource of a server and show it as it changes.
    Watch(Box<watch::Options>),
    /// Measure what following a server costs.
    Bench(bench::Options),
}

impl Command {
    /// Whether it tells by itself what keeps its informers from being in step, so that the log need not.
    fn tells_problems(&self) -> bool {
        matches!(self, Self::Resolve(_) | Self::Watch(_))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    logging::start(arguments.verbosity, arguments.command.tells_problems());
    run(arguments.command).unwrap_or_else(|error| failure::report(&error, advice::on(&error)))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Demo(options) => demo::run(&options).await,
            Command::Serve(options) => serve::run(options).await,
            Command::Resolve(options) => resolve::run(&options).await,
            Command::Watch(options) => watch::run(*options).await,
            Command::Bench(options) => bench::run(options).await,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
