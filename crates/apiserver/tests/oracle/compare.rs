//! Compares two documents and describes the differences.

use std::fmt;

use serde_json::{Map, Value};

/// The number of characters of a value that are shown.
const SHOWN: usize = 300;

/// A value in the response that differs from the expected one.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The path of the value: `$` is the body; also `status`, `headers.NAME`, `events[i]…` and
    /// `end`.
    path: String,
    /// The expected value, or `None` if the path must be absent.
    expected: Option<Value>,
    /// The actual value, or `None` if the path is absent.
    got: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.path, shown(&self.expected), shown(&self.got))
    }
}

fn shown(value: &Option<Value>) -> String {
    let Some(value) = value else { return "<absent>".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Compares the response of one step. In both arguments, symbols replace the volatile values.
pub(crate) fn step(expected: &Value, got: &Value) -> Vec<Difference> {
    let nothing = Map::new();
    let expected = expected.as_object().unwrap_or(&nothing);
    let got = got.as_object().unwrap_or(&nothing);
    let mut found = Vec::new();
    for part in ["events", "end", "status", "headers", "body", "text"] {
        // Missing headers count as an empty set.
        let empty = Value::Object(Map::new());
        let or_empty =
            |it| if part == "headers" && !expected.contains_key("events") { Some(it) } else { None };
        let path = if part == "body" { "$" } else { part };
        let expected = expected.get(part).or(or_empty(&empty));
        part_of(expected, got.get(part).or(or_empty(&empty)), path, &mut found);
    }
    found
}

/// Puts the managed fields of all objects in the order of their managers. Their own order is that
/// of their times, which are whole seconds: with a clock that runs, it depends on when a second
/// ended.
pub(crate) fn order_by_manager(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                entries.sort_by_cached_key(|it| {
                    let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
                    (text("manager"), text("operation"), text("subresource"), it["fieldsV1"].to_string())
                });
            }
            fields.values_mut().for_each(order_by_manager);
        }
        Value::Array(items) => items.iter_mut().for_each(order_by_manager),
        _ => {}
    }
}

fn part_of(expected: Option<&Value>, got: Option<&Value>, path: &str, found: &mut Vec<Difference>) {
    match (expected, got) {
        (Some(Value::Object(expected)), Some(Value::Object(got))) => {
            for (key, value) in expected {
                part_of(Some(value), got.get(key), &below(path, key), found);
            }
            for (key, value) in got.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                part_of(None, Some(value), &below(path, key), found);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(got))) => {
            for index in 0..expected.len().max(got.len()) {
                part_of(expected.get(index), got.get(index), &format!("{path}[{index}]"), found);
            }
        }
        (expected, got) if same(expected, got) => {}
        (expected, got) => {
            let path = path.to_owned();
            found.push(Difference { path, expected: expected.cloned(), got: got.cloned() });
        }
    }
}

/// Returns true if two values that are not both objects or lists are equal; 1 equals 1.0.
fn same(expected: Option<&Value>, got: Option<&Value>) -> bool {
    match (expected, got) {
        (Some(Value::Number(expected)), Some(Value::Number(got))) => {
            expected == got || expected.as_f64() == got.as_f64()
        }
        (expected, got) => expected == got,
    }
}

fn below(path: &str, key: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if !key.is_empty() && key.chars().all(plain) {
        format!("{path}.{key}")
    } else {
        format!("{path}['{key}']")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_ordered_by_their_managers_at_any_depth() {
        let entry = |manager: &str, operation: &str| json!({"manager": manager, "operation": operation});
        let object = |entries: &[Value]| json!({"items": [{"metadata": {"managedFields": entries}}]});
        let (first, second, third) = (entry("a", "Apply"), entry("a", "Update"), entry("b", "Apply"));
        let mut document = object(&[third.clone(), second.clone(), first.clone()]);
        order_by_manager(&mut document);
        assert_eq!(document, object(&[first, second, third]));
    }

    fn differences(expected: Value, got: Value) -> Vec<String> {
        step(&expected, &got).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn every_difference_is_reported_with_its_path() {
        let expected =
            json!({"status": 200, "headers": {"warning": ["a"]}, "body": {"a": [1, 2.0], "b.c": null}});
        let got = json!({"status": 201, "headers": {}, "body": {"a": [1.0, 2, 3], "d": []}});
        assert_eq!(
            differences(expected, got),
            [
                r#"status: expected 200, got 201"#,
                r#"headers.warning: expected ["a"], got <absent>"#,
                r#"$.a[2]: expected <absent>, got 3"#,
                r#"$['b.c']: expected null, got <absent>"#,
                r#"$.d: expected <absent>, got []"#,
            ]
        );
    }

    #[test]
    fn missing_headers_equal_an_empty_set() {
        assert_eq!(differences(json!({"status": 200}), json!({"status": 200, "headers": {}})), [""; 0]);
    }

    #[test]
    fn a_body_where_none_is_expected_and_text_in_place_of_json_are_differences() {
        assert_eq!(differences(json!({}), json!({"body": {}})), ["$: expected <absent>, got {}"]);
        assert_eq!(
            differences(json!({"body": {}}), json!({"text": "no"})),
            ["$: expected {}, got <absent>", r#"text: expected <absent>, got "no""#]
        );
    }

    #[test]
    fn the_end_of_a_stream_is_compared_like_its_events() {
        assert_eq!(
            differences(json!({"events": [], "end": "open"}), json!({"events": [1], "end": "eof"})),
            ["events[0]: expected <absent>, got 1", r#"end: expected "open", got "eof""#]
        );
    }
}
