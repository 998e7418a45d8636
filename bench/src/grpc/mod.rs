//! `cargo xtask bench grpc [picks|load|score|parts] [--quick] [--alone]`: what it costs to choose an endpoint and to call one, and what
//! becomes of calls while endpoints come, go, die and dawdle; beside tonic's own channels, tonic-lb-k8s and kuberesolver.
//!
//! ```text
//! this process: API server, pods, measuring ─── lines ──► one process per contender: resolver, channel, calls
//! ```
//!
//! The `mod` lines below are in layer order.

mod effort;
mod switches;
mod goals;
mod caller;
mod picks;
mod bare;
mod pods;
mod town;
mod halves;
mod own;
mod contenders;
mod asking;
mod load;
mod parts;
mod score;

use anyhow::{Result, bail, ensure};

use self::contenders::Contender;
use self::effort::{Effort, QUICK, THOROUGH};
use self::halves::Halves;
use self::switches::Switches;
use testbed::waiting;

/// Runs one part, or all of them one after the other.
///
/// # Errors
/// When a goal is missed, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // What the benchmark starts to have somebody who calls.
    if let ["call", caller @ ..] = arguments.as_slice() {
        return waiting::wait(own::call(caller));
    }
    if let ["call-parts", switches, workers, caller @ ..] = arguments.as_slice() {
        return waiting::wait_with(workers.parse()?, own::call_parts(Switches::named(switches)?, caller));
    }
    let (mut effort, mut alone, mut parts) = (&THOROUGH, false, Vec::new());
    for argument in arguments {
        match argument {
            "--quick" => effort = &QUICK,
            "--alone" => alone = true,
            part @ ("picks" | "load" | "score" | "parts") => parts.push(part),
            other => {
                bail!("unknown argument {other:?}; there are picks, load, score, parts, --quick and --alone")
            }
        }
    }
    // What the parts of a connection bring is a question of its own, and has no goal.
    if parts == ["parts"] {
        return waiting::wait(parts::run(effort));
    }
    ensure!(!parts.contains(&"parts"), "parts are measured alone");
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    // A goal that one part misses does not hide what the others have to say.
    let picks = if wanted("picks") { picks::run(effort.repeats < THOROUGH.repeats) } else { Ok(()) };
    if !wanted("load") && !wanted("score") {
        return picks;
    }
    let contenders = contenders::find(alone)?;
    let load = if wanted("load") { calls_per_second(&contenders, effort) } else { Ok(()) };
    let score = if wanted("score") { waiting::wait(score::run(&contenders, effort)) } else { Ok(()) };
    picks.and(load).and(score)
}

/// The pods live in threads that are started when the processors are divided.
fn calls_per_second(contenders: &[Contender], effort: &Effort) -> Result<()> {
    let halves = Halves::divide()?;
    waiting::wait(load::run(contenders, effort, &halves))
}
