//! An object as lines of text: as YAML, or described with its events. Pure.
//!
//! The values of a Secret are not shown, only their sizes.

use dogwatch_apimachinery::print::age;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::sanitize::without_controls;

/// The number of lines of a text.
const MAX_LINES: usize = 20_000;
/// The number of events that are shown, the newest ones.
const MAX_EVENTS: usize = 50;
/// An annotation of kubectl with the whole object in it, so also the values of a Secret.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Yaml,
    Description,
}

/// Formats an object as YAML.
pub(super) fn yaml(object: &Value) -> Vec<String> {
    let shown = without_secrets(object.clone());
    let text = serde_saphyr::to_string(&shown).unwrap_or_else(|error| format!("cannot write YAML: {error}"));
    clean(text.lines())
}

/// Formats an object and its events. `events` is an error message if they cannot be read.
pub(super) fn describe(object: &Value, events: &Result<Vec<Value>, String>, now: Timestamp) -> Vec<String> {
    let shown = without_secrets(object.clone());
    let mut lines = Vec::new();
    let metadata = &shown["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or("<none>").to_owned();
    let mut field = |name: &str, value: String| lines.push(format!("{name:<14}{value}"));
    field("Name:", text(&metadata["name"]));
    if metadata["namespace"].is_string() {
        field("Namespace:", text(&metadata["namespace"]));
    }
    field("Kind:", text(&shown["kind"]));
    field("API Version:", text(&shown["apiVersion"]));
    let created = metadata["creationTimestamp"].as_str().unwrap_or_default();
    field("Created:", format!("{created} ({} ago)", age::since(created, now)));
    if let Some(deleted) = metadata["deletionTimestamp"].as_str() {
        field("Terminating:", format!("since {deleted}"));
    }
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        field("Owner:", format!("{}/{}", text(&owner["kind"]), text(&owner["name"])));
    }
    for (name, values) in [("Labels:", &metadata["labels"]), ("Annotations:", &metadata["annotations"])] {
        lines.extend(pairs(name, values));
    }
    let others = shown.as_object().into_iter().flatten();
    let others = others.filter(|(key, _)| !["metadata", "kind", "apiVersion"].contains(&key.as_str()));
    for (key, value) in others {
        lines.push(format!("{}:", title(key)));
        nested(value, 1, &mut lines);
    }
    lines.extend(events_of(events, now));
    clean(lines.iter().flat_map(|it| it.lines()))
}

/// Replaces the values of a Secret by their sizes.
fn without_secrets(mut object: Value) -> Value {
    if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
        return object;
    }
    for field in ["data", "stringData"] {
        let values = object.get_mut(field).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(Map::values_mut) {
            let text = value.as_str().unwrap_or_default();
            // Four characters of base64 are three bytes; padding is none.
            let bytes = if field == "data" { text.trim_end_matches('=').len() * 3 / 4 } else { text.len() };
            *value = Value::String(format!("<{bytes} bytes, not shown>"));
        }
    }
    if let Some(applied) = object.pointer_mut("/metadata/annotations").and_then(|it| it.get_mut(LAST_APPLIED))
    {
        *applied = Value::String("<not shown: it contains the values>".to_owned());
    }
    object
}

/// Formats labels or annotations, one on each line.
fn pairs(name: &str, values: &Value) -> Vec<String> {
    let Some(values) = values.as_object().filter(|it| !it.is_empty()) else {
        return vec![format!("{name:<14}<none>")];
    };
    let pair = |(at, (key, value)): (usize, (&String, &Value))| {
        let name = if at == 0 { name } else { "" };
        let value = value.as_str().unwrap_or_default().lines().next().unwrap_or_default();
        format!("{name:<14}{key}={value}")
    };
    values.iter().enumerate().map(pair).collect()
}

/// Formats a value by its structure, as kubectl describes custom resources.
fn nested(value: &Value, depth: usize, lines: &mut Vec<String>) {
    if lines.len() > MAX_LINES {
        return;
    }
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match scalar(value) {
                    Some(text) => lines.push(format!("{indent}{}: {text}", title(key))),
                    None => {
                        lines.push(format!("{indent}{}:", title(key)));
                        nested(value, depth.saturating_add(1), lines);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match scalar(item) {
                    Some(text) => lines.push(format!("{indent}- {text}")),
                    None => {
                        let begin = lines.len();
                        nested(item, depth.saturating_add(1), lines);
                        if let Some(first) = lines.get_mut(begin) {
                            first.replace_range(indent.len()..indent.len() + 2, "- ");
                        }
                    }
                }
            }
        }
        other => lines.extend(scalar(other).map(|it| format!("{indent}{it}"))),
    }
}

/// Returns the text of a value that fits on a line.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("<none>".to_owned()),
        Value::String(text) => Some(text.replace('\n', "\\n")),
        Value::Object(fields) if fields.is_empty() => Some("{}".to_owned()),
        Value::Array(items) if items.is_empty() => Some("[]".to_owned()),
        Value::Object(_) | Value::Array(_) => None,
        other => Some(other.to_string()),
    }
}

/// Returns the name of a field with spaces: `Restart Policy`.
fn title(field: &str) -> String {
    // Keys of data are not names of fields.
    if !field.starts_with(|it: char| it.is_ascii_lowercase()) || !field.chars().all(|it| it.is_alphanumeric())
    {
        return field.to_owned();
    }
    let mut title = String::new();
    let mut was_lower = false;
    for (at, letter) in field.chars().enumerate() {
        if at == 0 {
            title.extend(letter.to_uppercase());
        } else {
            if letter.is_uppercase() && was_lower {
                title.push(' ');
            }
            title.push(letter);
        }
        was_lower = letter.is_lowercase();
    }
    title
}

/// Formats events, the oldest of the newest ones first.
fn events_of(events: &Result<Vec<Value>, String>, now: Timestamp) -> Vec<String> {
    let events = match events {
        Err(error) => return vec![format!("{:<14}not available: {error}", "Events:")],
        Ok(events) if events.is_empty() => return vec![format!("{:<14}<none>", "Events:")],
        Ok(events) => events,
    };
    let mut events: Vec<_> = events.iter().map(|it| (last_seen(it), it)).collect();
    events.sort_by(|one, other| one.0.cmp(other.0));
    let mut lines = vec![
        "Events:".to_owned(),
        format!("  {:<8}{:<9}{:<20}{:<22}MESSAGE", "AGE", "TYPE", "REASON", "FROM"),
    ];
    let hidden = events.len().saturating_sub(MAX_EVENTS);
    if hidden > 0 {
        lines.push(format!("  ... and {hidden} older ones"));
    }
    for (seen, event) in &events[hidden..] {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let from = [&event["reportingComponent"], &event["source"]["component"]];
        let from = from.into_iter().map(text).find(|it| !it.is_empty()).unwrap_or_default();
        let count = event["count"].as_u64().or_else(|| event["series"]["count"].as_u64()).unwrap_or(1);
        let times = if count > 1 { format!(" (x{count})") } else { String::new() };
        let message = text(&event["message"]).replace('\n', " ");
        let (age, kind, reason) = (age::since(seen, now), text(&event["type"]), text(&event["reason"]));
        lines.push(format!("  {age:<7} {kind:<8} {reason:<19} {from:<21} {message}{times}"));
    }
    lines
}

/// Returns the time at which an event was last observed.
fn last_seen(event: &Value) -> &str {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().find_map(Value::as_str).unwrap_or_default()
}

/// Sanitizes lines, and limits their number.
fn clean<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut clean: Vec<_> =
        lines.take(MAX_LINES + 1).map(|it| without_controls(&it.replace('\t', "    "))).collect();
    if clean.len() > MAX_LINES {
        clean[MAX_LINES] = format!("... only the first {MAX_LINES} lines are shown");
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().expect("a time")
    }

    #[test]
    fn the_values_of_a_secret_are_never_shown() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": { "password": "aHVudGVyMg==" },
            "stringData": { "token": "hunter2" },
            "metadata": { "name": "a", "annotations": { LAST_APPLIED: "{\"data\":{\"password\":\"aHVudGVyMg==\"}}" } },
        });
        for lines in [yaml(&secret), describe(&secret, &Ok(Vec::new()), now())] {
            let text = lines.join("\n");
            assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
            assert!(text.contains("<7 bytes, not shown>"), "{text}");
        }
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "shown" } });
        assert!(yaml(&map).join("\n").contains("shown"));
    }

    #[test]
    fn a_description_has_the_metadata_the_fields_and_the_events() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-1", "namespace": "default", "labels": { "app": "web", "tier": "front" },
                "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{ "kind": "ReplicaSet", "name": "web" }],
            },
            "spec": { "restartPolicy": "Always", "containers": [{ "name": "c", "args": ["a", "b"], "image": "nginx" }] },
        });
        let events = json!([
            { "type": "Warning", "reason": "BackOff", "message": "later", "lastTimestamp": "2026-01-01T00:59:00Z",
              "count": 3, "source": { "component": "kubelet" } },
            { "type": "Normal", "reason": "Scheduled", "message": "first", "eventTime": "2026-01-01T00:00:00.000000Z",
              "lastTimestamp": null, "reportingComponent": "scheduler" },
        ]);
        let events = events.as_array().expect("a list").clone();
        assert_eq!(
            describe(&pod, &Ok(events), now()),
            [
                "Name:         web-1",
                "Namespace:    default",
                "Kind:         Pod",
                "API Version:  v1",
                "Created:      2026-01-01T00:00:00Z (60m ago)",
                "Owner:        ReplicaSet/web",
                "Labels:       app=web",
                "              tier=front",
                "Annotations:  <none>",
                "Spec:",
                "  Containers:",
                "    - Args:",
                "        - a",
                "        - b",
                "      Image: nginx",
                "      Name: c",
                "  Restart Policy: Always",
                "Events:",
                "  AGE     TYPE     REASON              FROM                  MESSAGE",
                "  60m     Normal   Scheduled           scheduler             first",
                "  60s     Warning  BackOff             kubelet               later (x3)",
            ]
        );
        let without = describe(&pod, &Err("forbidden".to_owned()), now());
        assert_eq!(without.last().map(String::as_str), Some("Events:       not available: forbidden"));
    }

    #[test]
    fn hostile_text_cannot_control_the_terminal() {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "a\u{1b}[2J": "b\u{1b}]0;x\u{7}\nc" },
            "metadata": { "name": "a", "labels": { "x": "\u{9b}2J" } },
        });
        let lines = [yaml(&map), describe(&map, &Err("e\u{1b}[2J".to_owned()), now())].concat();
        assert!(lines.iter().all(|it| !it.contains(char::is_control)), "{lines:?}");
    }
}
