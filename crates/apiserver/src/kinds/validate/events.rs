//! Validation of events: lenient for those of the core group, strict for those of `events.k8s.io`.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 pkg/apis/core/validation/events.go.

use serde_json::Value;

use super::check::{FieldErrors, invalid, invalid_string, required};
use crate::kinds::events::to_core_group;
use crate::kinds::json_access::{at, number, text};
use crate::kinds::names;

/// The maximum length of names.
const NAME: usize = 128;
/// The maximum length of a note.
const NOTE: usize = 1024;

/// Deprecated fields that an event of `events.k8s.io` must not set.
const OLD: [(&str, &str); 2] = [("/firstTimestamp", "firstTimestamp"), ("/lastTimestamp", "lastTimestamp")];

/// The immutable fields of an event of `events.k8s.io`, by their core names.
const FIXED: [&str; 13] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// Validates an event of the core group.
pub(super) fn core(out: &mut FieldErrors, event: &Value) {
    common(out, event, "reportingComponent");
}

/// Validates a new event of `events.k8s.io`.
pub(super) fn create(out: &mut FieldErrors, event: &Value) {
    let event = to_core_group(event);
    common(out, &event, "reportingController");
    if at(&event, "/eventTime").is_none() {
        required(out, "eventTime", "");
    }
    series(out, &event);
    let kind = text(&event, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        invalid(out, "type", &"".into(), &format!("has invalid value: {kind}"));
    }
    for (pointer, field) in OLD {
        if at(&event, pointer).is_some() {
            invalid(out, field, &"".into(), "needs to be unset");
        }
    }
    if number(&event, "/count").unwrap_or(0) != 0 {
        invalid(out, "count", &"".into(), "needs to be unset");
    }
    if !text(&event, "/source/component").is_empty() || !text(&event, "/source/host").is_empty() {
        invalid(out, "source", &"".into(), "needs to be unset");
    }
}

/// Validates the new state of an event of `events.k8s.io`: only its series may change.
pub(super) fn update(out: &mut FieldErrors, new: &Value, old: &Value) {
    let (new, old) = (to_core_group(new), to_core_group(old));
    common(out, &new, "reportingController");
    if new.get("series") != old.get("series") {
        series(out, &new);
    }
    for field in FIXED {
        let (now, before) = (new.get(field).unwrap_or(&Value::Null), old.get(field).unwrap_or(&Value::Null));
        if now != before {
            let field = if field == "reportingComponent" { "reportingController" } else { field };
            invalid(out, field, now, "field is immutable");
        }
    }
}

fn common(out: &mut FieldErrors, event: &Value, controller: &str) {
    let (of, own) = (text(event, "/involvedObject/namespace"), text(event, "/metadata/namespace"));
    if of != own && !(of.is_empty() && own == "default") {
        invalid(out, "involvedObject.namespace", &of.into(), "does not match event.namespace");
    }
    // Only events with an event time follow the rules of `events.k8s.io`.
    if at(event, "/eventTime").is_none() {
        return;
    }
    match text(event, "/reportingComponent") {
        "" => required(out, controller, ""),
        name => invalid_string(out, controller, name, names::qualified(name)),
    }
    for (field, longest) in [("reportingInstance", NAME), ("action", NAME), ("reason", NAME)] {
        let value = text(event, &format!("/{field}"));
        if value.is_empty() {
            required(out, field, "");
        } else if value.len() > longest {
            invalid(out, field, &"".into(), &format!("can have at most {longest} characters"));
        }
    }
    if text(event, "/message").len() > NOTE {
        invalid(out, "message", &"".into(), &format!("can have at most {NOTE} characters"));
    }
}

fn series(out: &mut FieldErrors, event: &Value) {
    let Some(series) = at(event, "/series") else { return };
    if number(series, "/count").unwrap_or(0) < 2 {
        invalid(out, "series.count", &"".into(), "should be at least 2");
    }
    if at(series, "/lastObservedTime").is_none() {
        required(out, "series.lastObservedTime", "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Value {
        json!({"metadata": {"namespace": "n"}, "regarding": {"namespace": "n"}, "eventTime": "2020-01-01T00:00:00.000000Z",
            "reportingController": "example.com/c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"})
    }

    #[test]
    fn an_event_of_the_new_group_needs_time_reporter_and_action() {
        let found = |event: &Value| {
            let mut out = FieldErrors::new();
            create(&mut out, event);
            out.iter().map(|it| it.field.clone()).collect::<Vec<_>>()
        };
        assert!(found(&event()).is_empty());
        let mut poor = event();
        for field in ["reportingController", "action", "type"] {
            poor.as_object_mut().expect("an object").remove(field);
        }
        poor["series"] = json!({"count": 1});
        poor["deprecatedCount"] = 3.into();
        let expected =
            ["reportingController", "action", "series.count", "series.lastObservedTime", "type", "count"];
        assert_eq!(found(&poor), expected);
    }

    #[test]
    fn only_the_series_of_an_event_may_change() {
        let mut out = FieldErrors::new();
        let mut new = event();
        new["series"] = json!({"count": 2, "lastObservedTime": "2020-01-01T00:00:01.000000Z"});
        update(&mut out, &new, &event());
        assert!(out.is_empty(), "{out:?}");
        new["note"] = "n".into();
        update(&mut out, &new, &event());
        assert_eq!(out[0].to_string(), "message: Invalid value: \"n\": field is immutable");
    }
}
