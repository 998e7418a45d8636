//! Events of two groups in one collection: those of the core group are stored, those of
//! `events.k8s.io` are converted.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 pkg/apis/events/v1/conversion.go.

use serde_json::{Map, Value};

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
}
