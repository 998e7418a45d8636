//! The errors of expressions: problems found by the compiler, and failures of an evaluation.

use std::fmt;

/// The longest line that a message repeats, in bytes: `maxSnippetLength` of cel-go v0.26.0
/// common/error.go.
const MAX_SNIPPET: usize = 16_384;

/// The length of the message of a failed evaluation, in bytes, from which on it is cut.
const MAX_MESSAGE: usize = 4_096;

/// One problem of an expression, with the place where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The offset in bytes.
    pub(crate) at: usize,
    /// The message without the place.
    pub message: String,
}

/// The reason why an expression does not compile.
///
/// It is formatted as kube-apiserver does (cel-go v0.26.0 common/error.go): each problem with its
/// line, its column and the source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    source: String,
    issues: Vec<Issue>,
}

impl CompileError {
    pub(crate) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.at);
        Self { source: source.to_owned(), issues }
    }

    /// Returns the problems in the order of the source.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    fn show(&self, issue: &Issue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = issue.at.min(self.source.len());
        let before = self.source.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |it| it + 1);
        let line = before.matches('\n').count() + 1;
        let in_line = before.get(line_start..).unwrap_or_default();
        let column = in_line.chars().count() + 1;
        write!(f, "ERROR: <input>:{line}:{column}: {}", issue.message)?;
        let text = self.source.get(line_start..).unwrap_or_default();
        let text = text.split('\n').next().unwrap_or_default();
        if text.len() > MAX_SNIPPET {
            return Ok(());
        }
        write!(f, "\n | {}\n | ", text.replace('\t', " "))?;
        for ch in in_line.chars() {
            // Full-width characters below wide ones.
            f.write_str(if ch.len_utf8() > 1 { "\u{ff0e}" } else { "." })?;
        }
        let wide =
            text.get(in_line.len()..).and_then(|it| it.chars().next()).is_some_and(|it| !it.is_ascii());
        f.write_str(if wide { "\u{ff3e}" } else { "^" })
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            self.show(issue, f)?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

/// The reason why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvaluationError {
    /// The message of kube-apiserver, such as `no such key: size`.
    pub message: String,
    /// The type of the failure.
    pub kind: EvaluationErrorKind,
}

/// The types of failures that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluationErrorKind {
    /// A value had an unexpected type: possible where types are only known at run time.
    NoSuchOverload,
    /// The evaluation was stopped, because it exceeded its budget of cost, work or memory.
    LimitExceeded,
    /// An operation failed, such as a division by zero or the selection of a missing key.
    Failed,
}

impl EvaluationError {
    /// Creates an error of an operation that failed. A long message is cut: an error that a loop
    /// absorbs is copied for each of its items.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.shrink_to_fit();
            message.push_str("...");
        }
        Self { message, kind: EvaluationErrorKind::Failed }
    }

    /// Creates an error of a call with arguments of the wrong types.
    pub(crate) fn no_such_overload() -> Self {
        Self { message: "no such overload".to_owned(), kind: EvaluationErrorKind::NoSuchOverload }
    }

    /// Creates the error of an evaluation that is stopped.
    pub(crate) fn limit_exceeded() -> Self {
        Self {
            message: "operation cancelled: actual cost limit exceeded".to_owned(),
            kind: EvaluationErrorKind::LimitExceeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_with_its_line_and_a_mark() {
        let source = "self.a &&\n self.\u{e9}b";
        let at = source.find('b').unwrap();
        let issue = Issue { at, message: "undefined field 'b'".to_owned() };
        let error = CompileError::new(source, vec![issue]);
        assert_eq!(
            error.to_string(),
            "ERROR: <input>:2:8: undefined field 'b'\n |  self.\u{e9}b\n | ......\u{ff0e}^"
        );
    }
}
