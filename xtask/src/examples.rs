//! The examples, run against our own server. They are programs, and a test of the facade starts
//! each of them.

use processes::cargo::Cargo;

/// Runs every example.
///
/// # Errors
/// If one fails, or does not print the expected output.
pub(crate) fn run() -> anyhow::Result<()> {
    // The first command builds the examples; `--test examples` alone would not. Both use the
    // features of `cargo test --workspace`, so that nothing is built twice.
    Cargo::new(["test", "--workspace", "--no-run", "--quiet"]).run()?;
    Cargo::new(["test", "--workspace", "--test", "examples"]).run()
}
