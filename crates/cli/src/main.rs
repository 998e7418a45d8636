//! The `dogwatch` command: parses the command line, starts the log and the runtime, and runs one
//! command.
//!
//! Exit codes: 0 success, 1 failure (stderr has the error, its cause and a hint), 2 bad usage.

mod version;
mod sanitize;
mod display_width;
mod terminal;
#[cfg(all(test, unix))]
mod pseudo_terminal;
mod program;
mod failure;
mod new;
mod logging;
mod signals;
mod printer;
mod connection;
mod private_file;
mod number;
mod listen_address;
mod advice;
mod survey;
mod target;
mod simulation;
mod demo;
mod serve;
mod envtest;
mod proxy;
mod resolve;
mod watch;
mod ui;
mod fault;
mod bench;
mod completion;
mod man;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Builder;

use logging::Detail;

const START: &str = "New here? Start with `dogwatch demo`.";

/// Watch Kubernetes clusters, and simulate one to test clients against.
#[derive(Debug, Parser)]
#[command(name = "dogwatch", version = version::short(), long_version = version::long(), max_term_width = 100, after_help = START)]
struct Arguments {
    #[command(flatten)]
    verbosity: logging::Verbosity,
    #[command(subcommand)]
    command: Command,
}

// The descriptions are those of the `Options`: a comment on a variant would replace them, and its
// long form would never be shown.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Options),
    New(new::Options),
    Serve(serve::Options),
    Envtest(envtest::Options),
    Proxy(Box<proxy::Options>),
    Resolve(resolve::Options),
    Watch(Box<watch::Options>),
    Ui(Box<ui::Options>),
    Fault(fault::Options),
    Bench(bench::Options),
    Completion(completion::Options),
    Man(man::Options),
}

impl Command {
    /// Returns the log detail of the command.
    fn log_detail(&self) -> Detail {
        match self {
            // They print by themselves what keeps their informers from syncing.
            Self::Demo(_) | Self::Resolve(_) | Self::Watch(_) => Detail::WithoutInformers,
            Self::Ui(_) => Detail::BesideScreen,
            Self::Serve(_) | Self::Proxy(_) => Detail::WithRequests,
            _ => Detail::Plain,
        }
    }
}

fn main() -> ExitCode {
    if let Some(code) = envtest::run_as_called() {
        return code;
    }
    let arguments = Arguments::parse();
    logging::start(arguments.verbosity, arguments.command.log_detail());
    run(arguments.command, arguments.verbosity).unwrap_or_else(|error| {
        let advice = advice::on(&error);
        failure::report(&advice::reported(error), advice)
    })
}

fn run(command: Command, verbosity: logging::Verbosity) -> anyhow::Result<ExitCode> {
    match &command {
        Command::New(options) => return new::run(options),
        Command::Envtest(options) => return envtest::run(options),
        Command::Completion(options) => return completion::run(options, Arguments::command()),
        Command::Man(options) => return man::run(options, Arguments::command()),
        _ => {}
    }
    let mut builder = match &command {
        Command::Serve(options) if options.needs_one_thread() => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Demo(options) => demo::run(&options).await,
            Command::Serve(options) => serve::run(options, verbosity.is_given()).await,
            Command::Proxy(options) => proxy::run(*options).await,
            Command::Resolve(options) => resolve::run(&options).await,
            Command::Watch(options) => watch::run(*options).await,
            Command::Ui(options) => ui::run(*options).await,
            Command::Fault(options) => fault::run(options).await,
            Command::Bench(options) => bench::run(options).await,
            // Run above, without a runtime.
            Command::New(_) | Command::Envtest(_) | Command::Completion(_) | Command::Man(_) => {
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// The standard library says what is wrong with a digit, and not what is expected.
    #[test]
    fn no_flag_rejects_a_value_with_a_message_of_the_standard_library() {
        const MESSAGES: [&str; 5] =
            ["invalid digit", "invalid float", "cannot parse integer", "number too", " is not in "];
        fn rejections(command: &clap::Command, path: &[String]) -> Vec<String> {
            let flags = command.get_arguments().filter(|it| it.get_action().takes_values());
            let words = flags.map(|it| match it.get_long() {
                Some(flag) => format!("--{flag}=?!"),
                None => "?!".to_owned(),
            });
            let parsed =
                words.map(|it| Arguments::command().try_get_matches_from(path.iter().cloned().chain([it])));
            let is_about_it = |it: &clap::Error| it.kind() == clap::error::ErrorKind::ValueValidation;
            let own = parsed.filter_map(|it| it.err().filter(is_about_it)).map(|it| it.to_string());
            let below = command.get_subcommands();
            let below = below.flat_map(|it| rejections(it, &[path, &[it.get_name().to_owned()]].concat()));
            own.chain(below).collect()
        }
        let rejections = rejections(&Arguments::command(), &["dogwatch".to_owned()]);
        assert!(rejections.len() > 20, "{rejections:#?}");
        let unclear: Vec<_> =
            rejections.iter().filter(|it| MESSAGES.iter().any(|part| it.contains(part))).collect();
        assert!(unclear.is_empty(), "{unclear:#?}");
    }

    /// Lines that are not wrapped here would be wrapped by the terminal, each with a short rest.
    /// Commands are indented, and stay lines that can be pasted.
    #[test]
    fn descriptions_fit_a_line_and_notes_are_wrapped_for_80_columns() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let notes = [command.get_after_long_help(), command.get_after_help()]
                .map(|it| it.map(ToString::to_string));
            for line in notes.iter().flatten().flat_map(|it| it.lines()).filter(|it| !it.starts_with(' ')) {
                assert!(line.chars().count() <= 80, "{path}: {line}");
            }
            command.get_subcommands().for_each(|it| check(it, &path));
        }
        let command = Arguments::command();
        check(&command, "");
        for command in command.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() <= 66, "{}: {about:?}", command.get_name());
        }
    }

    #[test]
    fn every_command_has_a_short_description_and_those_that_need_it_a_long_one() {
        for command in Arguments::command().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((10..100).contains(&about.len()), "{}: {about:?}", command.get_name());
        }
        for name in ["demo", "new", "serve", "envtest", "proxy", "watch", "ui"] {
            let command = Arguments::command();
            let long = command.find_subcommand(name).and_then(|it| it.get_long_about());
            assert!(long.is_some_and(|it| it.to_string().lines().count() > 1), "{name}");
        }
    }
}
