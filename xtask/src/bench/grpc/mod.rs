//! `cargo xtask bench grpc [picks|calls] [--quick]`: what it costs to choose an endpoint, and to call one.

mod echo;
mod picks;
mod calls;

/// Runs one part, or all of them one after the other.
///
/// # Errors
/// When a goal is missed, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (mut quick, mut parts) = (false, Vec::new());
    let mut given = arguments.iter();
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            part @ ("picks" | "calls") => parts.push(part),
            // What the benchmark starts to have somebody to call.
            "serve" => {
                let count = given.next().and_then(|it| it.parse().ok()).unwrap_or(1);
                return echo::serve(count);
            }
            other => anyhow::bail!("unknown argument {other:?}; there are picks, calls and --quick"),
        }
    }
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    // A goal that one part misses does not hide what the other has to say.
    let picks = if wanted("picks") { picks::run(quick) } else { Ok(()) };
    let calls = if wanted("calls") { calls::run(quick) } else { Ok(()) };
    picks.and(calls)
}
