//! The errors of Go's parser (Go 1.26 regexp/syntax/parse.go).

use std::fmt;

/// A syntax error, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::custom) struct SyntaxError {
    what: &'static str,
    /// The invalid part of the expression.
    place: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.what, self.place)
    }
}

pub(super) fn error(what: &'static str, place: &str) -> SyntaxError {
    SyntaxError { what, place: place.to_owned() }
}
