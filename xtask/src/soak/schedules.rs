//! Random schedules of writes, faults and restarts on our own server, for longer than a test may take.
//!
//! The runs are ordinary tests of the informer and controller crates. They read the variables set here; `cargo test --workspace` does not
//! set them, and plays the same few hundred seeds each time. Progress, totals and, for a failure, the seed and its schedule are printed by
//! the tests.

use crate::cargo::Cargo;

#[derive(Debug, clap::Args)]
// It is flattened into the options of the task, whose group would have the same name.
#[group(id = "schedule-options")]
pub(crate) struct Options {
    /// Play new seeds for this many minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 5, conflicts_with_all = ["seed", "schedules"])]
    minutes: u64,
    /// Play this many schedules, from seed 0 on.
    #[arg(long, value_name = "COUNT", conflicts_with = "seed")]
    schedules: Option<u64>,
    /// Play this seed and no other.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Play the schedules of controllers instead of those of informers.
    #[arg(long)]
    controllers: bool,
    /// Play each schedule in two processes, in opposite orders, and compare what they do line by line: a seed must do the same in every
    /// process. Whether it ends as it should is not judged.
    #[arg(long, requires = "schedules")]
    compare: bool,
    /// Build with optimizations: several times as many schedules, without the assertions of debug builds.
    #[arg(long)]
    release: bool,
}

/// Plays; fails if a schedule does not end as it should.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
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
