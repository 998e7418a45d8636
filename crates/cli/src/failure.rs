//! How a command fails: a line on stderr that says what happened, one that says what to do about it, and exit code 1.
//!
//! Knows errors only as chains of causes; what to advise is the caller's to say. A reader of our output that went away
//! is no failure: `dogwatch … | head` ends quietly.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::sanitize::without_controls;

/// Prints what went wrong, with the advice if there is any, and returns the code to exit with.
pub(crate) fn report(error: &anyhow::Error, advice: Option<&str>) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    // If stderr is gone too, there is nobody left to tell.
    let _ = write!(io::stderr(), "{}", lines(error, advice));
    ExitCode::FAILURE
}

/// The failure as it is printed, each part on a line of its own.
fn lines(error: &anyhow::Error, advice: Option<&str>) -> String {
    let hint = advice.map(|it| format!("hint: {it}\n")).unwrap_or_default();
    format!("error: {}\n{hint}", line(error))
}

/// What happened, on one line: its causes from the outermost in, each once.
fn line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let said = on_one_line(&cause.to_string());
        // Some errors already repeat their cause in their own text.
        if !line.contains(&said) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&said);
        }
    }
    line
}

/// A message of several lines, such as a list of problems, with `; ` between them. It may be a server's, so nothing in it controls
/// the terminal.
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

/// True when nobody reads what we print any more. Only our own writing gives an I/O error as such; that of a connection
/// or a file comes inside an error of its library.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn causes_are_joined_and_the_advice_is_a_line_of_its_own() {
        let error = anyhow!("connection refused").context("cannot reach https://a");
        assert_eq!(lines(&error, None), "error: cannot reach https://a: connection refused\n");
        let advised = "error: cannot reach https://a: connection refused\nhint: start it\n";
        assert_eq!(lines(&error, Some("start it")), advised);
    }

    #[test]
    fn a_cause_that_was_already_said_is_not_said_again() {
        let error = anyhow!("timed out").context("gave up: timed out").context("no list");
        assert_eq!(line(&error), "no list: gave up: timed out");
    }

    #[test]
    fn a_list_of_problems_becomes_one_line() {
        let error = anyhow!("the file is wrong:\n  a: is missing\n\n  b: is odd\n");
        assert_eq!(line(&error), "the file is wrong: a: is missing; b: is odd");
    }

    #[test]
    fn a_message_of_a_server_does_not_control_the_terminal() {
        let error = anyhow!("no: \u{1b}]0;title\u{7}\u{1b}[2J\rerror: all is well");
        assert_eq!(line(&error), "no: \u{fffd}]0;title\u{fffd}\u{fffd}[2J\u{fffd}error: all is well");
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone: anyhow::Result<()> = Err(io::Error::from(ErrorKind::BrokenPipe)).context("cannot print");
        assert!(is_broken_pipe(&gone.unwrap_err()));
    }

    #[test]
    fn a_server_that_went_away_is_a_failure() {
        #[derive(Debug, thiserror::Error)]
        #[error("the server is gone")]
        struct Gone(#[source] io::Error);
        let gone = anyhow::Error::new(Gone(ErrorKind::BrokenPipe.into()));
        assert!(!is_broken_pipe(&gone));
        assert_eq!(line(&gone), "the server is gone: broken pipe");
    }
}
