//! Informers in bad weather, for longer than a test may take: random schedules on our own server with its fault lab.
//!
//! The runs are an ordinary test of the informer crate. It reads the variables set here; `cargo test --workspace` leaves them
//! alone and plays the same few hundred seeds each time. What it prints goes where ours goes: how far it is, the totals at the end, and
//! for a failure the seed and what happened.

use crate::cargo::Cargo;

#[derive(Debug, clap::Args)]
// It is part of the options of another, which has the name that it would have.
#[group(id = "informers")]
pub(crate) struct Options {
    /// For how long to play new seeds.
    #[arg(long, value_name = "MINUTES", default_value_t = 5, conflicts_with = "seed")]
    minutes: u64,
    /// Play this seed and no other.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Build with optimizations: several times as many schedules, without the assertions of debug builds.
    #[arg(long)]
    release: bool,
}

/// Plays; fails if a schedule does not end as it should.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut arguments = vec!["test", "--package", "dogwatch-informer", "--test", "soak"];
    arguments.extend(options.release.then_some("--release"));
    arguments.extend(["--", "--nocapture", "whatever_happens"]);
    let cargo = Cargo::new(arguments);
    let cargo = match options.seed {
        Some(seed) => cargo.env("DOGWATCH_SOAK_SEED", &seed.to_string()),
        None => cargo.env("DOGWATCH_SOAK_MINUTES", &options.minutes.to_string()),
    };
    cargo.run()
}
