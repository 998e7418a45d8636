//! `cargo xtask bench informer [store|fan_out] [--quick]`: what a local copy costs to keep, to read and to tell of.

mod store;
mod fan_out;

/// Runs one part, or all of them one after the other.
///
/// # Errors
/// When a goal is missed, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (mut quick, mut parts) = (false, Vec::new());
    for argument in arguments {
        match argument.as_str() {
            "--quick" => quick = true,
            part @ ("store" | "fan_out") => parts.push(part),
            other => anyhow::bail!("unknown argument {other:?}; there are store, fan_out and --quick"),
        }
    }
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    // A goal that one part misses does not hide what the other has to say.
    let store = if wanted("store") { store::run(quick) } else { Ok(()) };
    let fan_out = if wanted("fan_out") { fan_out::run(quick) } else { Ok(()) };
    store.and(fan_out)
}
