//! The log: goes to stderr, so that it never mixes with the output of a command, and is quiet by
//! default.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::terminal;

/// The verbosity of the log.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Verbosity {
    /// Log more to stderr; repeat for more (-v, -vv, -vvv).
    #[arg(short = 'v', long = "verbose", action = clap::ArgAction::Count, global = true, display_order = 900)]
    level: u8,
}

impl Verbosity {
    /// Returns the verbosity of this many `-v`.
    pub(crate) fn of(level: u8) -> Self {
        Self { level }
    }

    /// Returns true with at least one `-v`.
    pub(crate) fn is_given(self) -> bool {
        self.level > 0
    }
}

/// The additional log targets of a command, besides warnings and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// None.
    Plain,
    /// Omits the warnings of informers, which the command prints by itself.
    WithoutInformers,
    /// With one `-v`, each request to the server in this process.
    WithRequests,
    /// Nothing, if stderr is the terminal that the command draws on.
    BesideScreen,
}

/// Sends the log to stderr. Called once, before anything else happens.
///
/// Without `-v` the variable `RUST_LOG` applies; if it is not set, warnings and errors are shown.
pub(crate) fn start(verbosity: Verbosity, detail: Detail) {
    let rust_log = std::env::var("RUST_LOG").ok();
    if detail == Detail::BesideScreen && io::stderr().is_terminal() {
        return;
    }
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // Otherwise tracing reports a log line that cannot be written with `eprintln!`, which
        // panics if stderr is closed: after `serve -v 2>&1 | head` every request would be dropped
        // without a response.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && terminal::allows_colour())
        .with_env_filter(EnvFilter::new(filter(verbosity.level, rust_log.as_deref(), detail)));
    log.init();
}

/// Returns the filter directives for a level. The names of our crates all begin with `dogwatch`,
/// and a directive applies to all targets with its prefix.
fn filter(level: u8, rust_log: Option<&str>, detail: Detail) -> String {
    let directives = match (level, rust_log, detail) {
        (0, Some(rust_log), _) if !rust_log.is_empty() => rust_log,
        (0, _, Detail::WithoutInformers | Detail::BesideScreen) => {
            "warn,dogwatch_informer=error,dogwatch_client::watch=error"
        }
        (0, _, _) => "warn",
        (1, _, Detail::WithRequests) => {
            "warn,dogwatch=info,dogwatch_apiserver::requests=debug,dogwatch_proxy::requests=debug"
        }
        (1, _, _) => "warn,dogwatch=info",
        (2, _, _) => "info,dogwatch=debug",
        (3.., _, _) => "debug,dogwatch=trace",
    };
    directives.to_owned()
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing::level_filters::LevelFilter;

    use super::*;

    #[test]
    fn each_v_logs_more() {
        let levels = [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE];
        for (level, expected) in levels.into_iter().enumerate() {
            let filter = EnvFilter::new(
                filter(u8::try_from(level).unwrap(), Some("off"), Detail::Plain).replace("off", "warn"),
            );
            assert_eq!(filter.max_level_hint(), Some(expected), "{level}");
        }
    }

    #[test]
    fn the_variable_applies_only_without_v() {
        for detail in [Detail::Plain, Detail::WithoutInformers] {
            assert_eq!(filter(0, Some("off"), detail), "off");
            assert_eq!(filter(1, Some("off"), detail), "warn,dogwatch=info");
        }
        assert_eq!(filter(0, Some(""), Detail::Plain), "warn");
        assert_eq!(filter(0, None, Detail::Plain), "warn");
    }

    #[test]
    fn problems_that_a_command_prints_are_not_logged_too() {
        let filter = EnvFilter::new(filter(0, None, Detail::WithoutInformers));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::sink).finish();
        tracing::subscriber::with_default(log, || {
            assert!(!tracing::enabled!(target: "dogwatch_informer::reflector::run", Level::WARN));
            assert!(tracing::enabled!(target: "dogwatch_informer::reflector::run", Level::ERROR));
            assert!(tracing::enabled!(target: "dogwatch_client::exchange", Level::WARN));
        });
    }

    #[test]
    fn a_directive_covers_all_our_crates() {
        let filter = EnvFilter::new(filter(1, None, Detail::Plain));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::sink).finish();
        tracing::subscriber::with_default(log, || {
            assert!(tracing::enabled!(target: "dogwatch_client::transport", Level::INFO));
            assert!(!tracing::enabled!(target: "hyper_util", Level::INFO));
        });
    }

    #[test]
    fn one_v_shows_the_requests_of_a_server_and_of_no_other_command() {
        for (detail, expected) in [(Detail::WithRequests, true), (Detail::Plain, false)] {
            let filter = EnvFilter::new(filter(1, None, detail));
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::sink).finish();
            tracing::subscriber::with_default(log, || {
                let shown = tracing::enabled!(target: "dogwatch_apiserver::requests", Level::DEBUG);
                let passed_on = tracing::enabled!(target: "dogwatch_proxy::requests", Level::DEBUG);
                assert_eq!((shown, passed_on), (expected, expected), "{detail:?}");
                assert!(!tracing::enabled!(target: "dogwatch_apiserver::serving", Level::DEBUG));
            });
        }
    }
}
