//! Unusual but valid JSON: strategies for the property tests of the other files.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Generates text that is difficult for scanners: quotes, runs of backslashes, brackets and
/// non-ASCII characters.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\\\\\\".to_owned()),
        Just("{".to_owned()),
        Just("}]".to_owned()),
        Just("\n\t\u{0}".to_owned()),
        Just("é😀\u{2028}".to_owned()),
        Just("managedFields".to_owned()),
        "[a-z ,:]{0,70}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// Generates any value; objects may contain keys that have a meaning elsewhere.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Halves survive printing and both readers without loss.
        any::<i32>().prop_map(|it| json!(f64::from(it) + 0.5)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((key(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Generates an object with a name and random other fields.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    (value(), value(), proptest::option::of(value()), "[a-z]{1,9}").prop_map(
        |(spec, status, managed, name)| {
            let mut metadata = json!({"annotations": status, "name": name, "namespace": "default"});
            if let Some(managed) = managed {
                metadata["managedFields"] = managed;
            }
            json!({"metadata": metadata, "spec": {"template": {"metadata": {"managedFields": spec}}}})
        },
    )
}

/// Formats a value, optionally with escapes in keys and with white space.
pub(crate) fn written(value: &Value, escape_keys: bool, pretty: bool) -> String {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    let text = text.expect("a value can be serialized");
    if escape_keys { text.replace("\"metadata\"", r#""metad\u0061ta""#) } else { text }
}

/// Splits a body at the given positions.
pub(crate) fn cut<'a>(body: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|it| it.index(body.len() + 1)).collect();
    places.sort_unstable();
    let starts = [0].into_iter().chain(places.iter().copied());
    starts.zip(places.iter().copied().chain([body.len()])).map(|(from, to)| &body[from..to]).collect()
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("metadata".to_owned()),
        Just("managedFields".to_owned()),
        Just("items".to_owned()),
        text()
    ]
}
