//! The maximum nesting depth of objects.
//!
//! The server walks values recursively in many places (decoding, merging, encoding, dropping), so
//! one limit holds for everything that is read from outside or stored. It is measured on the
//! finished value, because levels add up across encodings and envelopes, such as a protobuf
//! envelope inside raw bytes.
//!
//! kube-apiserver accepts 10,000 levels of JSON (`maxNestingDepth` in Go 1.26
//! encoding/json/scanner.go). serde_json reads 127, which limits what Rust clients can read back in
//! any case; an envelope (a list, a table, a watch event, a review) adds up to three levels to an
//! object.

use serde_json::Value;

/// The maximum nesting depth of an object, except for its `metadata.managedFields`.
pub(crate) const OBJECT: usize = 100;

/// The maximum nesting depth of any text that is parsed, and of an object with its
/// `metadata.managedFields`, which repeat the path to every field five levels further down.
pub(crate) const TEXT: usize = 120;

/// Returns the message for a text or an object that is nested too deeply.
pub fn exceeded() -> String {
    // The first words are those of Go's `encoding/json` (scanner.go).
    format!("exceeded max depth of {OBJECT}")
}

/// Returns the number of lists and objects nested in one another.
pub(crate) fn of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(of).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(of).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns true if an object is nested deeper than the limit.
pub fn is_exceeded_by(object: &Value) -> bool {
    let Value::Object(fields) = object else { return of(object) > OBJECT };
    fields.iter().any(|(name, value)| match (name.as_str(), value) {
        ("metadata", Value::Object(metadata)) => metadata.iter().any(|(name, value)| {
            let limit = if name == "managedFields" { TEXT } else { OBJECT };
            2 + of(value) > limit
        }),
        _ => 1 + of(value) > OBJECT,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(height: usize) -> Value {
        (0..height)
            .fold(json!(1), |inner, at| if at % 2 == 0 { json!({ "a": inner }) } else { json!([inner]) })
    }

    #[test]
    fn lists_and_objects_count_and_scalars_do_not() {
        for (value, depth) in
            [(json!(1), 0), (json!([]), 1), (json!({ "a": [1], "b": 2 }), 2), (nested(50), 50)]
        {
            assert_eq!(of(&value), depth, "{value}");
        }
    }

    #[test]
    fn managed_fields_may_be_nested_deeper_than_the_rest() {
        assert!(!is_exceeded_by(&json!({ "spec": nested(OBJECT - 1) })));
        assert!(is_exceeded_by(&json!({ "spec": nested(OBJECT) })));
        assert!(!is_exceeded_by(&json!({ "metadata": { "a": nested(OBJECT - 2) } })));
        assert!(is_exceeded_by(&json!({ "metadata": { "a": nested(OBJECT - 1) } })));
        assert!(!is_exceeded_by(&json!({ "metadata": { "managedFields": nested(TEXT - 2) } })));
        assert!(is_exceeded_by(&json!({ "metadata": { "managedFields": nested(TEXT - 1) } })));
    }
}
