//! Tasks that are programs of their own: benchmarks, and everything that needs other programs.
//!
//! They are built on demand. They parse their own arguments, including `--help`.

use processes::cargo::Cargo;

/// The arguments that are passed on.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    rest: Vec<String>,
}

/// Runs a benchmark, in release mode: figures of a debug build are meaningless.
///
/// # Errors
/// If it does not build, or fails.
pub(crate) fn bench(arguments: &Arguments) -> anyhow::Result<()> {
    run(["run", "--quiet", "--release", "--package", "bench", "--"], arguments)
}

/// Runs a task of the program `interop`.
///
/// # Errors
/// If it does not build, or fails.
pub(crate) fn interop(task: &str, arguments: &Arguments) -> anyhow::Result<()> {
    run(["run", "--quiet", "--package", "interop", "--", task], arguments)
}

fn run<'a>(fixed: impl IntoIterator<Item = &'a str>, arguments: &'a Arguments) -> anyhow::Result<()> {
    Cargo::new(fixed.into_iter().chain(arguments.rest.iter().map(String::as_str))).run()
}
