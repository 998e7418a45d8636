//! Events of the group `events.k8s.io`, which are stored as events of the core group and converted.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 pkg/apis/events/v1/conversion.go and
//! pkg/apis/core/validation/events.go.

use serde_json::{Map, Value};

use crate::kinds::core::event::{FIELDS, cells, common};
use crate::kinds::fields::SelectableFields;
use crate::kinds::json_access::{at, number, text};
use crate::kinds::rules::{Accounting, COMMON, Conversion, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{FieldErrors, invalid, required};

/// The rules of the kind Event.
pub(crate) static RULES: KindRules = KindRules {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    traits: KindTraits { allow_create_on_update: true, ..KindTraits::COMMON },
    validate_create: create,
    validate_update: Some(update),
    fields: SelectableFields {
        aliases: &[
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
            ("reportingController", "reportingComponent"),
        ],
        hidden: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reportingComponent",
            "source",
        ],
        ..SelectableFields::of(FIELDS)
    },
    cells,
    conversion: Some(Conversion {
        version: None,
        stored_group: "",
        to_stored: to_core_group,
        from_stored: to_events_group,
    }),
    is_collected: false,
    accounting: Accounting::Ignored,
    ..COMMON
};

/// The fields with different names: that in the core group, that in `events.k8s.io`.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

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

/// Converts a stored event to the group `events.k8s.io`.
pub fn to_events_group(event: &Value) -> Value {
    let mut shown = renamed(event, |core, new| (core, new), "events.k8s.io/v1");
    if let Some(map) = shown.as_object_mut() {
        map.entry("eventTime").or_insert(Value::Null);
        for key in ["regarding", "deprecatedSource"] {
            map.entry(key).or_insert_with(|| Value::Object(Map::new()));
        }
        for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            map.entry(key).or_insert(Value::Null);
        }
        for key in ["reportingController", "reportingInstance"] {
            if map.get(key).and_then(Value::as_str) == Some("") {
                map.remove(key);
            }
        }
    }
    shown
}

/// Converts an event of the group `events.k8s.io` to its stored form.
pub fn to_core_group(event: &Value) -> Value {
    renamed(event, |core, new| (new, core), "v1")
}

fn renamed<'a>(
    event: &Value,
    direction: impl Fn(&'a str, &'a str) -> (&'a str, &'a str),
    version: &str,
) -> Value {
    let Some(map) = event.as_object() else { return event.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        let name = RENAMED.iter().map(|(core, new)| direction(core, new)).find(|(from, _)| from == key);
        out.insert(name.map_or(key.clone(), |(_, to)| to.to_owned()), value.clone());
    }
    out.insert("apiVersion".to_owned(), version.into());
    Value::Object(out)
}

/// Validates a new event of `events.k8s.io`.
fn create(out: &mut FieldErrors, event: &Value) {
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
fn update(out: &mut FieldErrors, new: &Value, old: &Value) {
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

    #[test]
    fn an_event_converts_to_the_other_group_and_back() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R", "message": "m",
            "involvedObject": {"kind": "Pod"}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "count": 1,
            "eventTime": null, "reportingComponent": "c", "reportingInstance": "i"});
        let new = to_events_group(&core);
        assert_eq!(new["regarding"]["kind"], "Pod");
        assert_eq!(new["note"], "m");
        assert_eq!(new["reportingController"], "c");
        assert_eq!(new["apiVersion"], "events.k8s.io/v1");
        assert_eq!(to_core_group(&new), core);
    }

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
