//! The log: to stderr, so that it never mixes with what a command prints, and quiet unless asked.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// How much to say.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Verbosity {
    /// Say more about what happens; repeat for more (-v, -vv, -vvv).
    #[arg(short = 'v', long = "verbose", action = clap::ArgAction::Count, global = true)]
    level: u8,
}

/// Sends the log to stderr from now on. Called once, before anything else happens.
///
/// Without `-v` the variable `RUST_LOG` decides, and warnings and errors are shown where it is not set; where the command tells
/// problems by itself, not those that it would be repeating.
pub(crate) fn start(verbosity: Verbosity, told: bool) {
    let asked = std::env::var("RUST_LOG").ok();
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()))
        .with_env_filter(EnvFilter::new(filter(verbosity.level, asked.as_deref(), told)));
    log.init();
}

/// The directives for a level. Names of our crates all begin with `dogwatch`, and a directive covers what begins with it.
fn filter(level: u8, asked: Option<&str>, told: bool) -> String {
    let said = match (level, asked) {
        (0, Some(asked)) if !asked.is_empty() => asked,
        (0, _) if told => "warn,dogwatch_informer=error,dogwatch_client::watch=error",
        (0, _) => "warn",
        (1, _) => "warn,dogwatch=info",
        (2, _) => "info,dogwatch=debug",
        (3.., _) => "debug,dogwatch=trace",
    };
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing::level_filters::LevelFilter;

    use super::*;

    #[test]
    fn each_v_says_more() {
        let levels = [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE];
        for (level, expected) in levels.into_iter().enumerate() {
            let filter = EnvFilter::new(
                filter(u8::try_from(level).unwrap(), Some("off"), false).replace("off", "warn"),
            );
            assert_eq!(filter.max_level_hint(), Some(expected), "{level}");
        }
    }

    #[test]
    fn the_variable_decides_only_where_no_v_is_given() {
        for told in [false, true] {
            assert_eq!(filter(0, Some("off"), told), "off");
            assert_eq!(filter(1, Some("off"), told), "warn,dogwatch=info");
        }
        assert_eq!(filter(0, Some(""), false), "warn");
        assert_eq!(filter(0, None, false), "warn");
    }

    #[test]
    fn what_a_command_tells_is_not_logged_as_well() {
        let filter = EnvFilter::new(filter(0, None, true));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::sink).finish();
        tracing::subscriber::with_default(log, || {
            assert!(!tracing::enabled!(target: "dogwatch_informer::reflector::run", Level::WARN));
            assert!(tracing::enabled!(target: "dogwatch_informer::reflector::run", Level::ERROR));
            assert!(tracing::enabled!(target: "dogwatch_client::exchange", Level::WARN));
        });
    }

    #[test]
    fn a_directive_covers_all_our_crates() {
        let filter = EnvFilter::new(filter(1, None, false));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::sink).finish();
        tracing::subscriber::with_default(log, || {
            assert!(tracing::enabled!(target: "dogwatch_client::transport", Level::INFO));
            assert!(!tracing::enabled!(target: "hyper_util", Level::INFO));
        });
    }
}
