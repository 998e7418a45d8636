//! The problems that the checks of a value find, with the limits of their number and size.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;

use super::budget::Checks;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::custom::go_format::quoted;
use crate::custom::value_path::ValuePath;

/// The largest number of problems that are reported. kube-apiserver reports all and compares each
/// with all others: 2,000 invalid items in a list whose schema has an `enum` of 500 values exceed
/// its time limit of 34 seconds.
pub(super) const MOST_REPORTED: usize = 1_000;

/// The size of all messages, in bytes, from which on no more problems are reported.
pub(super) const MOST_BYTES: usize = 1024 * 1024;

/// The size of all repeated messages, in bytes, from which on no more problems are reported. Each
/// is formatted before it is known to be a repeat, and `allOf` can have the same problem in each
/// entry.
const MOST_REPEATED_BYTES: usize = 4 * 1024 * 1024;

/// The way in which a value is checked.
#[derive(Clone, Copy)]
pub(super) struct Mode<'a> {
    /// The problems so far. `None` if problems are not reported, only [`Outcome::failed`] is set:
    /// alternatives are first compared, and then only the closest one is reported; and an update is
    /// checked once more if it fails. A message costs as much as the path is long.
    pub(super) report: Option<&'a RefCell<Report>>,
    pub(super) checks: &'a Checks,
}

impl Mode<'_> {
    pub(super) fn quietly(self) -> Self {
        Self { report: None, ..self }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.report.is_none()
    }

    /// Returns true if no more problems are reported, so that the rest can be skipped.
    pub(super) fn is_full(&self) -> bool {
        self.checks.are_spent() || self.has_full_report()
    }

    pub(super) fn has_full_report(&self) -> bool {
        self.report.is_some_and(|report| report.borrow().is_full())
    }
}

/// One problem. `words` is the message of kube-apiserver's validator; equal ones are reported once.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) kind: FieldErrorKind,
    pub(super) message: String,
    pub(super) words: String,
}

/// The problems of a value and of all parts of it, which share the limits of their number and size.
#[derive(Default)]
pub(super) struct Report {
    pub(super) found: Vec<Found>,
    /// The words of everything in `found`.
    said: HashSet<String>,
    /// The number of bytes in `found`.
    bytes: usize,
    /// The number of bytes of the problems that were left out because they repeat another.
    repeated_bytes: usize,
}

impl Report {
    fn add(&mut self, found: Found) {
        let bytes = found.name.len() + found.message.len() + found.words.len();
        if self.said.contains(&found.words) {
            self.repeated_bytes += bytes;
        } else {
            self.said.insert(found.words.clone());
            self.bytes += bytes;
            self.found.push(found);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MOST_REPORTED
            || self.bytes >= MOST_BYTES
            || self.repeated_bytes >= MOST_REPEATED_BYTES
    }
}

/// The result of a check. `matches` counts the checks that passed: of several alternatives the
/// closest is reported.
pub(super) struct Outcome<'a> {
    pub(super) mode: Mode<'a>,
    /// True if there was a problem.
    pub(super) failed: bool,
    pub(super) matches: usize,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(mode: Mode<'a>) -> Self {
        Self { mode, failed: false, matches: 0 }
    }

    /// Takes a number of checks, or fails if they are spent.
    pub(super) fn take_checks(&mut self, count: usize, path: &ValuePath<'_>) -> bool {
        let taken = self.mode.checks.take(count, path);
        self.failed |= !taken;
        taken
    }

    /// Adds a problem, which is only formatted if it is reported.
    pub(super) fn add_with(&mut self, found: impl FnOnce() -> Found) {
        self.failed = true;
        if let Some(report) = self.mode.report.filter(|_| !self.mode.is_full()) {
            report.borrow_mut().add(found());
        }
    }

    /// Returns true if no more problems are reported, so that the rest can be skipped.
    pub(super) fn is_full(&self) -> bool {
        self.mode.is_full()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.failed |= other.failed;
        self.matches += other.matches;
    }

    pub(super) fn invalid(&mut self, path: &ValuePath<'_>, value: impl Display, words: impl Display) {
        self.add_with(|| {
            let words = words.to_string();
            let message = format!("Invalid value: {value}: {words}");
            Found { name: path.to_string(), kind: FieldErrorKind::Invalid, message, words }
        });
    }

    pub(super) fn wrong_type(&mut self, path: &ValuePath<'_>, expected: impl Display, actual: &str) {
        self.add_with(|| {
            let words = format!("{path} in body must be of type {expected}: {}", quoted(actual));
            let message = format!("Invalid value: {}: {words}", quoted(actual));
            Found { name: path.to_string(), kind: FieldErrorKind::TypeInvalid, message, words }
        });
    }

    /// Adds a problem that is not about one field.
    pub(super) fn nowhere(&mut self, words: impl Display) {
        self.add_with(|| {
            let words = words.to_string();
            let message = format!("Invalid value: \"\": {words}");
            Found { name: String::new(), kind: FieldErrorKind::Invalid, message, words }
        });
    }

    pub(super) fn other(
        &mut self,
        path: &ValuePath<'_>,
        kind: FieldErrorKind,
        detail: impl Display,
        words: impl Display,
    ) {
        self.add_with(|| {
            let message = FieldError::new("", kind, &detail.to_string()).message;
            Found { name: path.to_string(), kind, message, words: words.to_string() }
        });
    }
}
