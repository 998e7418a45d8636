//! The `dogwatch` command from outside: what it prints, where, and how it ends.

mod server;
mod following;
mod usage;
mod demo;
mod serve;
mod resolve;
mod watch;
#[cfg(unix)]
mod terminal;
mod bench;

use std::path::Path;
use std::process::{Command, Output};

/// The command with nothing around it that could lead to a cluster: `home` stands in for the home directory.
fn dogwatch(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dogwatch"));
    command.args(arguments).env_clear().env("HOME", home);
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    dogwatch(home, arguments).output().expect("the command was built with this test")
}

/// Checks that a failure is a line that says what happened, and at most one more that says what to do.
fn assert_failure(said: &str) {
    let lines: Vec<&str> = said.lines().collect();
    let is_it = match lines[..] {
        [error] => error.starts_with("error: "),
        [error, hint] => error.starts_with("error: ") && hint.starts_with("hint: "),
        _ => false,
    };
    assert!(is_it && said.ends_with('\n'), "{said:?}");
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command prints UTF-8")
}
