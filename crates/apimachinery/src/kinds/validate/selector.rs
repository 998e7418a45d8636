//! Label selectors: validation, matching, and formatting in messages.

use serde_json::Value;

use super::check::{FieldErrors, forbidden, invalid, invalid_string, required};
use crate::kinds::json_access::{at, entries, items, text};
use crate::kinds::names;
use crate::{FieldError, FieldErrorKind};

/// Validates a selector.
pub(crate) fn check(out: &mut FieldErrors, selector: &Value, field: &str) {
    for (key, value) in entries(selector, "/matchLabels") {
        let field = format!("{field}.matchLabels");
        invalid_string(out, &field, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        invalid_string(out, &field, value, names::label_value(value));
    }
    for (index, expression) in items(selector, "/matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = items(expression, "/values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                required(out, &format!("{field}.values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                forbidden(out, &format!("{field}.values"), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                invalid(out, &format!("{field}.operator"), &other.into(), "not a valid selector operator");
            }
        }
        let key = text(expression, "/key");
        invalid_string(out, &format!("{field}.key"), key, names::qualified(key));
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            invalid_string(out, &format!("{field}.values[{index}]"), value, names::label_value(value));
        }
    }
}

/// Returns true if a selector matches everything.
pub(in crate::kinds) fn is_empty(selector: &Value) -> bool {
    entries(selector, "/matchLabels").next().is_none() && items(selector, "/matchExpressions").is_empty()
}

/// Returns true if a selector matches labels.
pub(in crate::kinds) fn selects(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let plain = entries(selector, "/matchLabels").all(|(key, value)| label(key) == value.as_str());
    plain
        && items(selector, "/matchExpressions").iter().all(|expression| {
            let found = label(text(expression, "/key"));
            let listed = || {
                items(expression, "/values").iter().any(|value| value.as_str() == found && found.is_some())
            };
            match text(expression, "/operator") {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Reports a problem that shows a selector, with its fields in kube-apiserver's order.
pub(in crate::kinds) fn invalid_selector(out: &mut FieldErrors, selector: &Value, field: &str, detail: &str) {
    let parts: Vec<String> = ["matchLabels", "matchExpressions"]
        .into_iter()
        .filter_map(|key| Some(format!("\"{key}\":{}", selector.get(key)?)))
        .collect();
    let shown = if selector.is_null() { "null".to_owned() } else { format!("{{{}}}", parts.join(",")) };
    out.push(FieldError::with_value(field, FieldErrorKind::Invalid, shown, detail));
}

/// Checks that the selector of a workload has not changed.
pub(in crate::kinds) fn fixed_selector(out: &mut FieldErrors, new: &Value, old: &Value) {
    if at(new, "/spec/selector") != at(old, "/spec/selector") {
        invalid_selector(out, &new["spec"]["selector"], "spec.selector", "field is immutable");
    }
}
