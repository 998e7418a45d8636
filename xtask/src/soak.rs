//! Random schedules of writes, faults and restarts on our own server, for longer than a test may
//! take.
//!
//! The runs are ordinary tests of the informer and controller crates. They read the variables set
//! here; `cargo test --workspace` does not set them and runs the same few hundred seeds each time.
//! The tests print progress, totals and, for a failure, the seed and its schedule. `soak grpc` is a
//! task of the program `interop`.

use processes::cargo::Cargo;

use crate::programs;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    subject: Option<Subject>,
    #[command(flatten)]
    schedules: Schedules,
}

#[derive(Debug, clap::Subcommand)]
enum Subject {
    /// Roll pods, churn endpoints and keep connections to a grpc-go server through a channel, at
    /// full scale.
    #[command(disable_help_flag = true)]
    Grpc(programs::Arguments),
}

#[derive(Debug, clap::Args)]
// Flattened into the options of the task, whose group would have the same name.
#[group(id = "schedule-options")]
struct Schedules {
    /// Run new seeds for this many minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 5, conflicts_with_all = ["seed", "schedules"])]
    minutes: u64,
    /// Run this many schedules, starting with seed 0.
    #[arg(long, value_name = "COUNT", conflicts_with = "seed")]
    schedules: Option<u64>,
    /// Run this seed only.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Run the schedules of controllers instead of those of informers.
    #[arg(long)]
    controllers: bool,
    /// Run each schedule in two processes, in opposite orders, and compare their traces line by
    /// line: a seed has to do the same in every process. The outcome of the schedules is not
    /// checked.
    #[arg(long, requires = "schedules")]
    compare: bool,
    /// Build with optimizations: several times as many schedules, without the assertions of debug
    /// builds.
    #[arg(long)]
    release: bool,
}

/// Runs the schedules.
///
/// # Errors
/// If a schedule fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    match &options.subject {
        Some(Subject::Grpc(rest)) => programs::interop("grpc-soak", rest),
        None => run_schedules(&options.schedules),
    }
}

fn run_schedules(options: &Schedules) -> anyhow::Result<()> {
    let package = if options.controllers { "dogwatch-controller" } else { "dogwatch-informer" };
    let mut arguments = vec!["test", "--package", package, "--test", "soak"];
    arguments.extend(options.release.then_some("--release"));
    let test = if options.compare { "a_seed_does_the_same" } else { "whatever_happens" };
    arguments.extend(["--", "--nocapture", test]);
    let cargo = Cargo::new(arguments);
    let cargo = match (options.seed, options.schedules) {
        (Some(seed), _) => cargo.env("DOGWATCH_SOAK_SEED", &seed.to_string()),
        (None, Some(count)) => cargo.env("DOGWATCH_SOAK_SCHEDULES", &count.to_string()),
        (None, None) => cargo.env("DOGWATCH_SOAK_MINUTES", &options.minutes.to_string()),
    };
    cargo.run()
}
