//! A controller over many objects under fault injection, in release mode: it has to converge, with
//! a limited number of reconciles.
//!
//! It is an ordinary test of the controller crate, which reads the variable set here; `cargo test`
//! runs it with fewer objects.

use processes::cargo::Cargo;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The number of objects.
    #[arg(long, default_value_t = 20_000, value_name = "NUMBER")]
    objects: usize,
}

/// Runs the test. It fails if the number of reconciles differs from the number of changes by more
/// than 5 %.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let fixed = ["test", "--release", "--package", "dogwatch-controller", "--test", "it"];
    let chosen = ["--", "storm::", "--nocapture"];
    let objects = options.objects.to_string();
    Cargo::new(fixed.into_iter().chain(chosen)).env("DOGWATCH_STORM_OBJECTS", &objects).run()
}
