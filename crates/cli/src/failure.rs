//! The report of a failed command: one line on stderr with the error, one with a hint, and exit
//! code 1.
//!
//! Knows errors only as chains of causes; the caller provides the hint. A closed stdout is not a
//! failure: `dogwatch … | head` exits quietly.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::sanitize::without_controls;

/// Prints an error, with a hint if there is one, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error, advice: Option<&str>) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    // If stderr is closed too, there is no way to report anything.
    let _ = write!(io::stderr(), "{}", lines(error, advice));
    ExitCode::FAILURE
}

/// Formats the error and the hint, each on a line of its own.
fn lines(error: &anyhow::Error, advice: Option<&str>) -> String {
    let hint = advice.map(|it| format!("hint: {it}\n")).unwrap_or_default();
    format!("error: {}\n{hint}", line(error))
}

/// Formats the error and its causes on one line, from the outermost in, each once.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = on_one_line(&cause.to_string());
        // Some errors already repeat their cause in their own text.
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
    }
    line
}

/// Joins the lines of a message, such as a list of problems, with `; `. The text may come from a
/// server, so control characters are replaced.
fn on_one_line(message: &str) -> String {
    let mut joined = String::new();
    for part in message.lines().map(str::trim).filter(|it| !it.is_empty()) {
        if !joined.is_empty() {
            joined.push_str(if joined.ends_with(':') { " " } else { "; " });
        }
        joined.push_str(&without_controls(part));
    }
    joined
}

/// Returns true if stdout was closed by its reader. Only our own writes return a plain I/O error;
/// those of a connection or a file are wrapped in an error of their library.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn causes_are_joined_and_the_hint_has_its_own_line() {
        let error = anyhow!("connection refused").context("cannot reach https://a");
        assert_eq!(lines(&error, None), "error: cannot reach https://a: connection refused\n");
        let advised = "error: cannot reach https://a: connection refused\nhint: start it\n";
        assert_eq!(lines(&error, Some("start it")), advised);
    }

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let error = anyhow!("timed out").context("gave up: timed out").context("no list");
        assert_eq!(line(&error), "no list: gave up: timed out");
    }

    #[test]
    fn a_list_of_problems_becomes_one_line() {
        let error = anyhow!("the file is wrong:\n  a: is missing\n\n  b: is odd\n");
        assert_eq!(line(&error), "the file is wrong: a: is missing; b: is odd");
    }

    #[test]
    fn a_server_message_cannot_control_the_terminal() {
        let error = anyhow!("no: \u{1b}]0;title\u{7}\u{1b}[2J\rerror: all is well");
        assert_eq!(line(&error), "no: \u{fffd}]0;title\u{fffd}\u{fffd}[2J\u{fffd}error: all is well");
    }

    #[test]
    fn a_closed_stdout_is_not_a_failure() {
        let gone: anyhow::Result<()> = Err(io::Error::from(ErrorKind::BrokenPipe)).context("cannot print");
        assert!(is_broken_pipe(&gone.unwrap_err()));
    }

    #[test]
    fn a_lost_server_is_a_failure() {
        #[derive(Debug, thiserror::Error)]
        #[error("the server is gone")]
        struct Gone(#[source] io::Error);
        let gone = anyhow::Error::new(Gone(ErrorKind::BrokenPipe.into()));
        assert!(!is_broken_pipe(&gone));
        assert_eq!(line(&gone), "the server is gone: broken pipe");
    }
}
