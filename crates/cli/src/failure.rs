//! The report of a failed command, in up to three short lines on stderr, and exit code 1.
//!
//! ```text
//! error: what failed
//! cause: the reason, if there is one
//! hint:  the next step, if one is known
//! ```
//!
//! Knows errors only as chains of causes, of which some need no further ones; the caller provides
//! the hint. A closed stdout is not a
//! failure: `dogwatch … | head` exits quietly.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use dogwatch::transport::TransportError;

use crate::display_width::cut;
use crate::sanitize::without_controls;

/// The width of a line that is not yet long: a longer one is divided or shortened where that loses
/// little.
const COLUMNS: usize = 100;

/// The width at which a line is cut. Messages of servers, such as all problems of an invalid
/// object, have no limit of their own; paths and names are shorter than this.
const MAX_COLUMNS: usize = 400;

/// A cause that is only a text, for errors that have no other.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Reason(Cow<'static, str>);

impl<T: Into<Cow<'static, str>>> From<T> for Reason {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// Prints an error, with a hint if there is one, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error, advice: Option<&str>) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    // If stderr is closed too, there is no way to report anything.
    let _ = write!(io::stderr(), "{}", lines(error, advice));
    ExitCode::FAILURE
}

/// Formats the error, its cause and the hint, each on a line of its own.
fn lines(error: &anyhow::Error, advice: Option<&str>) -> String {
    let mut reasons = texts(error);
    let mut what = reasons.remove(0);
    // A list of problems is longer than its headline, and a line that is too long usually has the
    // form "what: why".
    let headline = error.to_string().trim().split_once('\n').map(|(first, _)| on_one_line(first));
    let length = match headline {
        Some(headline) => Some(headline.trim_end_matches(':').len()),
        None if is_long("error", &what) => what.find(": "),
        None => None,
    };
    if let Some(length) = length {
        reasons.insert(0, what[length..].trim_start_matches([':', ';', ' ']).to_owned());
        what.truncate(length);
    }
    let mut lines = line_of("error", &what);
    if !reasons.is_empty() {
        lines.push_str(&line_of("cause", &shortened(&reasons)));
    }
    lines.push_str(&advice.map(|it| line_of("hint", it)).unwrap_or_default());
    lines
}

/// Joins causes. If that makes a long line, only the first and the last are left: the step that
/// failed, and the root of the failure.
fn shortened(reasons: &[String]) -> Cow<'_, str> {
    match reasons {
        [only] => only.into(),
        [first, .., last] if is_long("cause", &reasons.join(": ")) && reasons.len() > 2 => {
            format!("{first}: {last}").into()
        }
        _ => reasons.join(": ").into(),
    }
}

fn is_long(label: &str, text: &str) -> bool {
    let width = COLUMNS.saturating_sub(label.len() + ": ".len());
    matches!(cut(text, width), Cow::Owned(_))
}

fn line_of(label: &str, text: &str) -> String {
    format!("{label}: {}\n", cut(text, MAX_COLUMNS.saturating_sub(label.len() + ": ".len())))
}

/// Formats the error and its causes on one line, from the outermost in, each once. For a view that
/// has one line for it.
pub(crate) fn line(error: &anyhow::Error) -> String {
    texts(error).join(": ")
}

/// Returns the texts of the error and of its causes, from the outermost in. There is at least one.
fn texts(error: &anyhow::Error) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = on_one_line(&cause.to_string());
        let is_explained = cause.is::<TransportError>() && is_explanation(&text);
        // Some errors already repeat their cause in their own text.
        if !texts.iter().any(|it| it.contains(&text)) {
            texts.push(text);
        }
        if is_explained {
            break;
        }
    }
    texts
}

/// Returns true if a text of the client explains a failure of TLS or HTTP in full: its cause is
/// that of a library, such as `invalid peer certificate: UnknownIssuer`, and says less.
pub(crate) fn is_explanation(text: &str) -> bool {
    const PARTS: [&str; 4] =
        ["the certificate of ", " does not speak TLS", " client certificate", "the response is not HTTP"];
    PARTS.iter().any(|it| text.contains(it))
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
    use crate::display_width::CUT;

    #[test]
    fn the_error_its_cause_and_the_hint_have_a_line_each() {
        let error = anyhow!("connection refused").context("cannot reach https://a");
        assert_eq!(lines(&error, None), "error: cannot reach https://a\ncause: connection refused\n");
        let advised = "error: cannot reach https://a\ncause: connection refused\nhint: start it\n";
        assert_eq!(lines(&error, Some("start it")), advised);
        assert_eq!(lines(&anyhow!("it: is odd"), None), "error: it: is odd\n");
    }

    #[test]
    fn causes_between_the_first_and_the_last_are_left_out_of_a_long_line() {
        let error = anyhow!("refused").context("no connection").context("no list").context("no cache");
        assert_eq!(lines(&error, None), "error: no cache\ncause: no list: no connection: refused\n");
        let step = "x".repeat(90);
        let error = anyhow!("refused").context(step).context("no list").context("no cache");
        assert_eq!(lines(&error, None), "error: no cache\ncause: no list: refused\n");
        // Nothing is between two causes, however long they are.
        let (first, last) = ("x".repeat(60), "y".repeat(60));
        let error = anyhow!("{last}").context(first.clone()).context("no cache");
        assert_eq!(lines(&error, None), format!("error: no cache\ncause: {first}: {last}\n"));
    }

    #[test]
    fn a_long_error_is_divided_after_its_first_part() {
        let why = "y".repeat(95);
        let error = anyhow!("no: {why}").context("cannot say: more");
        assert_eq!(lines(&error, None), format!("error: cannot say: more\ncause: no: {why}\n"));
        assert_eq!(lines(&anyhow!("no: {why}"), None), format!("error: no\ncause: {why}\n"));
        // A URL and a path with colons are not divided.
        let url = format!("https://{why}:80");
        assert_eq!(lines(&anyhow!("{url}"), None), format!("error: {url}\n"));
    }

    #[test]
    fn no_line_is_longer_than_its_limit() {
        let long = "long ".repeat(200);
        let error = anyhow!("{long}").context(long.replace(' ', "-"));
        let printed = lines(&error, Some("shorten it"));
        let widths: Vec<_> = printed.lines().map(|it| it.chars().count()).collect();
        assert_eq!(widths, [MAX_COLUMNS, MAX_COLUMNS, "hint: shorten it".len()]);
        assert!(printed.lines().take(2).all(|it| it.ends_with(CUT)), "{printed}");
    }

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let error = anyhow!("timed out").context("gave up: timed out").context("no list");
        assert_eq!(line(&error), "no list: gave up: timed out");
        assert_eq!(lines(&error, None), "error: no list\ncause: gave up: timed out\n");
    }

    #[test]
    fn a_list_of_problems_becomes_the_cause_of_its_headline() {
        let error = anyhow!("the file is wrong:\n  a: is missing\n\n  b: is odd\n");
        assert_eq!(line(&error), "the file is wrong: a: is missing; b: is odd");
        let expected = "error: the file is wrong\ncause: a: is missing; b: is odd\n";
        assert_eq!(lines(&error, None), expected);
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
