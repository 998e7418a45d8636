//! Channels at full scale:
//! `cargo xtask soak grpc [rollout|churn|grpc-go] [--quick|--long] [--release]`.
//!
//! ```text
//! this process                      one caller process
//! API server, pods, ── commands ──► resolver, channel, load,
//! changes of pods                   counts of resources
//! ```
//!
//! The tests of the crate run the same scenarios at a small scale with a paused clock
//! (crates/grpc/tests/it/rollouts.rs and churn.rs).
//!
//! The `mod` lines below are in layer order.

mod checks;
mod limit;
mod echo;
mod test_cluster;
mod resource_usage;
mod load;
mod commands;
mod caller;
mod caller_process;
mod rollout;
mod membership;
mod churn;
mod go_server;

use std::time::Duration;

use anyhow::Result;

use self::checks::Checks;
use self::rollout::Order;
use processes::cargo;
use testbed::runtime;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenarios to run. Defaults to all.
    #[arg(value_enum, value_name = "SCENARIO")]
    scenarios: Vec<Scenario>,
    /// Use a stream of 6 s instead of 30 s, and a churn of 5 s instead of 60 s.
    #[arg(long)]
    quick: bool,
    /// Run grpc-go for twenty minutes instead of 150 s, to include keep-alive pings every five
    /// minutes.
    #[arg(long, conflicts_with = "quick")]
    long: bool,
    /// Build with optimizations, without the assertions of debug builds.
    #[arg(long)]
    release: bool,
    /// Run as the caller process that this task starts.
    #[arg(long, hide = true)]
    caller: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scenario {
    /// ten pods are replaced under 5,000 calls a second, in both orders
    Rollout,
    /// of 1,000 connected endpoints, 100 are replaced each second
    Churn,
    /// a quiet stream, an idle channel and an unread response, to a server with grpc-go's defaults
    GrpcGo,
}

/// Runs the selected scenarios, and prints the results.
///
/// # Errors
/// If a check fails, or a scenario cannot run here.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.release && cfg!(debug_assertions) {
        return cargo::in_release("interop");
    }
    if options.caller {
        return runtime::run(caller::serve());
    }
    runtime::run(run_scenarios(options))
}

async fn run_scenarios(options: &Options) -> Result<()> {
    let wanted = |it| options.scenarios.is_empty() || options.scenarios.contains(&it);
    let seconds = |whole, quick| Duration::from_secs(if options.quick { quick } else { whole });
    let mut checks = Checks::default();
    if wanted(Scenario::Rollout) {
        for order in [Order::Announced, Order::Racing] {
            rollout::run(order, seconds(30, 6), &mut checks).await?;
        }
    }
    if wanted(Scenario::Churn) {
        churn::run(seconds(60, 5), &mut checks).await?;
    }
    if wanted(Scenario::GrpcGo) {
        // grpc-go closes connections that ping every 30 s: idle ones after 90 s, those with a
        // stream after 120 s (google.golang.org/grpc v1.85.0 internal/transport/http2_server.go,
        // handlePing: more than two pings that come too early).
        let whole = if options.long { 20 * 60 } else { 150 };
        go_server::run(seconds(whole, 130), &mut checks).await?;
    }
    checks.judge()
}
