//! All checks except the tests, in the order in which a mistake is cheapest to find.
//!
//! The examples are run by a test of the facade, so that no step here repeats them.

use anyhow::Context;
use clap::ValueEnum;

use crate::{features, kubernetes_versions, licences, tables};
use processes::cargo::{Cargo, target_folder};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The steps to run. Defaults to all, in this order.
    #[arg(value_enum, value_name = "STEP")]
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Step {
    /// rustfmt changes nothing
    Format,
    /// the generated tables match their input data
    Tables,
    /// clippy has no warning, on all targets
    Lints,
    /// rustdoc has no warning, and every link leads somewhere
    Docs,
    /// the loom models of the work queue hold for all interleavings of their threads
    Models,
    /// each feature builds alone
    Features,
    /// the libraries build with the types of the oldest Kubernetes version that k8s-openapi has
    Kubernetes,
    /// every dependency has an allowed licence
    Licences,
}

/// Runs the steps, and stops at the first that fails, with the command to run that one alone.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let steps = if options.steps.is_empty() { Step::value_variants() } else { &options.steps };
    let mut times = Vec::new();
    for step in steps {
        let name = step.to_possible_value().expect("no step is hidden").get_name().to_owned();
        eprintln!("== {name}");
        #[expect(
            clippy::disallowed_types,
            reason = "a task has no paused clock, and tokio would take long to build"
        )]
        let start = std::time::Instant::now();
        step.run().with_context(|| {
            format!("the step `{name}` failed; run it alone with `cargo xtask ci {name}`")
        })?;
        times.push(format!("{name} {:.0} s", start.elapsed().as_secs_f32()));
    }
    eprintln!("== all good: {}", times.join(", "));
    Ok(())
}

impl Step {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Format => Cargo::new(["fmt", "--all", "--check"]).run(),
            Self::Tables => tables::check(),
            Self::Lints => {
                Cargo::new(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
            }
            Self::Docs => {
                Cargo::new(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").run()
            }
            Self::Models => models(),
            Self::Features => features::run(),
            Self::Kubernetes => kubernetes_versions::run(&kubernetes_versions::Options { oldest: true }),
            Self::Licences => licences::run(),
        }
    }
}

/// Runs the loom tests. They need everything built with `--cfg loom`, in a directory of its own:
/// otherwise every other build would start from scratch.
fn models() -> anyhow::Result<()> {
    let folder = target_folder()?.join("loom");
    let folder = folder.to_str().context("the target directory has no name in UTF-8")?;
    Cargo::new([
        "test",
        "--package",
        "dogwatch-workqueue",
        "--release",
        "--test",
        "loom",
        "--target-dir",
        folder,
    ])
    .env("RUSTFLAGS", "--cfg loom")
    .run()
}
