//! A controller over many objects in bad weather, in release mode: does it converge, and with how many reconciles?
//!
//! It is an ordinary test of the controller's crate, which reads the variable set here; `cargo test` runs it with fewer objects.

use processes::cargo::Cargo;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many objects there are.
    #[arg(long, default_value_t = 20_000, value_name = "NUMBER")]
    objects: usize,
}

/// Runs the test; fails if the number of reconciles is further than 5 % from the number of changes.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let fixed = ["test", "--release", "--package", "dogwatch-controller", "--test", "it"];
    let chosen = ["--", "storm::", "--nocapture"];
    let objects = options.objects.to_string();
    Cargo::new(fixed.into_iter().chain(chosen)).env("DOGWATCH_STORM_OBJECTS", &objects).run()
}
