//! Tests of the `dogwatch` binary: its output, its streams and its exit codes.

mod server;
mod running_command;
mod usage;
mod demo;
mod new;
mod story;
mod serve;
mod proxy;
mod proxy_manifest;
mod resolve;
mod watch;
mod fault;
#[cfg(unix)]
mod picture;
#[cfg(unix)]
mod on_terminal;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod ui;
mod bench;

use std::path::Path;
use std::process::{Command, Output};

/// Returns the command in a clean environment, without anything that could lead to a cluster:
/// `home` is the home directory.
fn dogwatch(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dogwatch"));
    command.args(arguments).env_clear().env("HOME", home);
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    dogwatch(home, arguments).output().expect("the command is built with this test")
}

/// Checks that a failure is a line with the error, and at most one with its cause and one with a
/// hint, and that each fits a terminal.
#[track_caller]
fn assert_failure(printed: &str) {
    let lines: Vec<&str> = printed.lines().collect();
    let labels: Vec<_> = lines.iter().map(|it| it.split_once(": ").map(|(label, _)| label)).collect();
    let is_it = matches!(
        labels[..],
        [Some("error")]
            | [Some("error"), Some("hint" | "cause")]
            | [Some("error"), Some("cause"), Some("hint")]
    );
    assert!(is_it && printed.ends_with('\n'), "{printed:?}");
    let is_complete = |it: &&str| it.split_once(": ").is_some_and(|(_, text)| !text.trim().is_empty());
    assert!(lines.iter().all(is_complete), "{printed:?}");
    let widest = lines.iter().map(|it| it.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns: {printed}");
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command prints UTF-8")
}
