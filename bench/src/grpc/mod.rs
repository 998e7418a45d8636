//! `cargo xtask bench grpc [picks|load|score|parts] [--quick] [--alone]`: the cost of picking an
//! endpoint and of a call, and the failures and latencies of calls while endpoints are added and
//! removed, die or respond slowly; compared with tonic's channels, tonic-lb-k8s and kuberesolver.
//!
//! ```text
//! this process                      one process per contender
//! API server, pods, ── commands ──► resolver, channel, calls
//! measurements
//! ```
//!
//! The `mod` lines below are in layer order.

mod settings;
mod switches;
mod goals;
mod caller;
mod picks;
mod bare;
mod pods;
mod test_cluster;
mod cpu_split;
mod local_callers;
mod contenders;
mod caller_process;
mod load;
mod ablation;
mod score;

use anyhow::{Result, bail, ensure};

use self::contenders::Contender;
use self::cpu_split::CpuSplit;
use self::settings::{BenchSettings, QUICK, THOROUGH};
use self::switches::Switches;
use testbed::runtime;

/// Runs one part, or all of them one after the other.
///
/// # Errors
/// If a goal is missed, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The subcommands with which the benchmark starts its caller processes.
    if let ["call", caller @ ..] = arguments.as_slice() {
        return runtime::run(local_callers::call(caller));
    }
    if let ["call-ablated", switches, workers, caller @ ..] = arguments.as_slice() {
        return runtime::run_with_workers(
            workers.parse()?,
            local_callers::call_ablated(Switches::named(switches)?, caller),
        );
    }
    let (mut settings, mut alone, mut parts) = (&THOROUGH, false, Vec::new());
    for argument in arguments {
        match argument {
            "--quick" => settings = &QUICK,
            "--alone" => alone = true,
            part @ ("picks" | "load" | "score" | "ablation") => parts.push(part),
            other => {
                bail!(
                    "unknown argument {other:?}; there are picks, load, score, ablation, --quick and --alone"
                )
            }
        }
    }
    // The contribution of each part of a connection is a separate question without a goal.
    if parts == ["ablation"] {
        return runtime::run(ablation::run(settings));
    }
    ensure!(!parts.contains(&"ablation"), "`ablation` cannot be combined with other parts of the benchmark");
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    // A missed goal in one part does not stop the other parts.
    let picks = if wanted("picks") { picks::run(settings.repeats < THOROUGH.repeats) } else { Ok(()) };
    if !wanted("load") && !wanted("score") {
        return picks;
    }
    let contenders = contenders::find(alone)?;
    let load = if wanted("load") { calls_per_second(&contenders, settings) } else { Ok(()) };
    let score = if wanted("score") { runtime::run(score::run(&contenders, settings)) } else { Ok(()) };
    picks.and(load).and(score)
}

/// Runs `load`. The threads of the pods are started after the processors are split.
fn calls_per_second(contenders: &[Contender], settings: &BenchSettings) -> Result<()> {
    let cpu_split = CpuSplit::divide()?;
    runtime::run(load::run(contenders, settings, &cpu_split))
}
