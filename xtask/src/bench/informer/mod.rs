//! `cargo xtask bench informer [--quick]`: what a local copy costs to keep and to read.

mod store;
mod fan_out;

/// Runs the parts one after the other.
///
/// # Errors
/// When a goal is missed, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let quick = match arguments {
        [] => false,
        [only] if only == "--quick" => true,
        other => anyhow::bail!("unknown arguments {other:?}; there is only --quick"),
    };
    store::run(quick)?;
    fan_out::run(quick)
}
