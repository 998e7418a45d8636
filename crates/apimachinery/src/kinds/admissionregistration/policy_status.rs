//! The status of validating admission policies, which a controller writes.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{items, number, text};
use crate::kinds::names;
use crate::kinds::validate::check::{FieldErrors, duplicate, invalid, invalid_string, required, unsupported};
use crate::{FieldError, FieldErrorKind};

/// The lengths of the texts of a condition, in bytes.
const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name', or 'MY_NAME', or 'MyName', or 'ReasonA,ReasonB', or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates the status of a policy.
pub(super) fn validate(out: &mut FieldErrors, policy: &Value) {
    for (index, warning) in items(policy, "/status/typeChecking/expressionWarnings").iter().enumerate() {
        let path = format!("status.typeChecking.expressionWarnings[{index}]");
        for field in ["warning", "fieldRef"] {
            if text(warning, &format!("/{field}")).trim().is_empty() {
                required(out, &format!("{path}.{field}"), "");
            }
        }
    }
    let mut types_before = HashSet::new();
    for (index, condition) in items(policy, "/status/conditions").iter().enumerate() {
        let path = format!("status.conditions[{index}]");
        let kind = text(condition, "/type");
        if !types_before.insert(kind) {
            duplicate(out, &format!("{path}.type"), &kind.into());
        }
        invalid_string(out, &format!("{path}.type"), kind, names::qualified(kind));
        validate_condition(out, condition, &path);
    }
}

/// Validates a condition, except for its type (`ValidateCondition` of k8s.io/apimachinery v0.36.4
/// pkg/apis/meta/v1/validation/validation.go).
fn validate_condition(out: &mut FieldErrors, condition: &Value, path: &str) {
    let status = text(condition, "/status");
    if !["True", "False", "Unknown"].contains(&status) {
        unsupported(out, &format!("{path}.status"), &status.into(), &["False", "True", "Unknown"]);
    }
    if let Some(generation) = number(condition, "/observedGeneration").filter(|it| *it < 0) {
        let detail = "must be greater than or equal to zero";
        invalid(out, &format!("{path}.observedGeneration"), &generation.into(), detail);
    }
    if text(condition, "/lastTransitionTime").is_empty() {
        required(out, &format!("{path}.lastTransitionTime"), "");
    }
    let reason = text(condition, "/reason");
    if reason.is_empty() {
        required(out, &format!("{path}.reason"), "");
    } else if !is_reason(reason) {
        invalid(out, &format!("{path}.reason"), &reason.into(), REASON);
    }
    for (field, limit) in [("reason", MAX_REASON), ("message", MAX_MESSAGE)] {
        if text(condition, &format!("/{field}")).len() > limit {
            let detail = format!("may not be more than {limit} bytes");
            let path = format!("{path}.{field}");
            out.push_with(|| FieldError::new(path, FieldErrorKind::TooLong, &detail));
        }
    }
}

fn is_reason(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
    text.starts_with(|it: char| it.is_ascii_alphabetic())
        && text.ends_with(is_plain)
        && text.chars().all(|it| is_plain(it) || it == ',' || it == ':')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_and_conditions_are_complete() {
        let status = json!({ "status": {
            "typeChecking": { "expressionWarnings": [{ "fieldRef": " ", "warning": "w" }] },
            "conditions": [{ "type": "A", "status": "Maybe", "reason": "not good" },
                { "type": "A", "status": "True", "reason": "Good:1", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        let mut out = FieldErrors::new();
        validate(&mut out, &status);
        let fields: Vec<&str> = out.iter().map(|it| &*it.field).collect();
        assert_eq!(
            fields,
            [
                "status.typeChecking.expressionWarnings[0].fieldRef",
                "status.conditions[0].status",
                "status.conditions[0].lastTransitionTime",
                "status.conditions[0].reason",
                "status.conditions[1].type",
            ]
        );
    }
}
