//! The shapes problems come in: required, not supported, out of range.

use serde_json::Value;

use crate::kinds::look::{at, text};
use crate::{Problem, ProblemKind};

/// A list of problems that grows while an object is read.
pub(super) type Problems = Vec<Problem>;

/// A value that is missing.
pub(super) fn required(out: &mut Problems, field: &str, detail: &str) {
    out.push(Problem::new(field, ProblemKind::Required, detail));
}

/// A value that may not be there, or not be changed.
pub(super) fn forbidden(out: &mut Problems, field: &str, detail: &str) {
    out.push(Problem::new(field, ProblemKind::Forbidden, detail));
}

/// A value that is wrong.
pub(super) fn invalid(out: &mut Problems, field: &str, value: &Value, detail: &str) {
    out.push(Problem::with_value(field, ProblemKind::Invalid, value, detail));
}

/// A text that is wrong for each of some reasons.
pub(super) fn wrong_text(out: &mut Problems, field: &str, value: &str, reasons: Vec<String>) {
    for reason in reasons {
        invalid(out, field, &value.into(), &reason);
    }
}

/// A value that is there twice.
pub(super) fn duplicate(out: &mut Problems, field: &str, value: &Value) {
    out.push(Problem::with_value(field, ProblemKind::Duplicate, value, ""));
}

/// A value that is none of those supported.
pub(super) fn unsupported(out: &mut Problems, field: &str, value: &Value, supported: &[&str]) {
    let listed: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
    let detail = format!("supported values: {}", listed.join(", "));
    out.push(Problem::with_value(field, ProblemKind::NotSupported, value, &detail));
}

/// Checks that a text is one of those supported; an absent one is none.
pub(super) fn one_of(out: &mut Problems, object: &Value, pointer: &str, field: &str, supported: &[&str]) {
    let value = text(object, pointer);
    if !supported.contains(&value) {
        unsupported(out, field, &value.into(), supported);
    }
}

/// Checks that a number, where there is one, is not below zero.
pub(super) fn not_negative(out: &mut Problems, object: &Value, pointer: &str, field: &str) {
    if let Some(value) = at(object, pointer).filter(|value| value.as_i64().is_some_and(|it| it < 0)) {
        invalid(out, field, value, "must be greater than or equal to 0");
    }
}

/// Checks that a field stays as it is.
pub(super) fn immutable(out: &mut Problems, new: &Value, old: &Value, pointer: &str, field: &str) {
    if at(new, pointer) != at(old, pointer) {
        let value = at(new, pointer).cloned().unwrap_or_default();
        invalid(out, field, &value, "field is immutable");
    }
}
