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

/// Checks that a failure is one line with the error, and at most one more with a hint.
fn assert_failure(printed: &str) {
    let lines: Vec<&str> = printed.lines().collect();
    let is_it = match lines[..] {
        [error] => error.starts_with("error: "),
        [error, hint] => error.starts_with("error: ") && hint.starts_with("hint: "),
        _ => false,
    };
    assert!(is_it && printed.ends_with('\n'), "{printed:?}");
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command prints UTF-8")
}
