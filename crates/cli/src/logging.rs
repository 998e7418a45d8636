//! The log: to stderr, so that it never mixes with what a command prints, and quiet unless asked.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// How much to say.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Verbosity {
    /// Log more to stderr; repeat for more (-v, -vv, -vvv). `serve -v` logs every request.
    #[arg(short = 'v', long = "verbose", action = clap::ArgAction::Count, global = true, display_order = 900)]
    level: u8,
}

/// What a command wants in its log besides warnings and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Nothing else.
    Plain,
    /// Not the warnings of informers, which the command prints by itself.
    WithoutInformers,
    /// With one `-v`, each request to the server that runs in this process.
    WithRequests,
}

/// Sends the log to stderr from now on. Called once, before anything else happens.
///
/// Without `-v` the variable `RUST_LOG` decides, and warnings and errors are shown where it is not set.
pub(crate) fn start(verbosity: Verbosity, detail: Detail) {
    let asked = std::env::var("RUST_LOG").ok();
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // Otherwise a log line that cannot be written is reported with `eprintln!`, which panics where stderr is closed: after
        // `serve -v 2>&1 | head` every request would be dropped without an answer.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()))
        .with_env_filter(EnvFilter::new(filter(verbosity.level, asked.as_deref(), detail)));
    log.init();
}

/// The directives for a level. Names of our crates all begin with `dogwatch`, and a directive covers what begins with it.
fn filter(level: u8, asked: Option<&str>, detail: Detail) -> String {
    let directives = match (level, asked, detail) {
        (0, Some(asked), _) if !asked.is_empty() => asked,
        (0, _, Detail::WithoutInformers) => "warn,dogwatch_informer=error,dogwatch_client::watch=error",
        (0, _, _) => "warn",
        (1, _, Detail::WithRequests) => "warn,dogwatch=info,dogwatch_apiserver::requests=debug",
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
    fn each_v_says_more() {
        let levels = [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE];
        for (level, expected) in levels.into_iter().enumerate() {
            let filter = EnvFilter::new(
                filter(u8::try_from(level).unwrap(), Some("off"), Detail::Plain).replace("off", "warn"),
            );
            assert_eq!(filter.max_level_hint(), Some(expected), "{level}");
        }
    }

    #[test]
    fn the_variable_decides_only_where_no_v_is_given() {
        for detail in [Detail::Plain, Detail::WithoutInformers] {
            assert_eq!(filter(0, Some("off"), detail), "off");
            assert_eq!(filter(1, Some("off"), detail), "warn,dogwatch=info");
        }
        assert_eq!(filter(0, Some(""), Detail::Plain), "warn");
        assert_eq!(filter(0, None, Detail::Plain), "warn");
    }

    #[test]
    fn what_a_command_tells_is_not_logged_as_well() {
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
                assert_eq!(shown, expected, "{detail:?}");
                assert!(!tracing::enabled!(target: "dogwatch_apiserver::serving", Level::DEBUG));
            });
        }
    }
}
