//! JSON inside an annotation, as k8s.io/kubernetes v1.36.4 pkg/apis/autoscaling/v1/conversion.go
//! decodes and encodes it into typed structures: fields in the order of their declaration, names in
//! any case, no undeclared fields, and nothing at all if one value has the wrong type.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::kinds::quantity::Quantity;
use crate::plain_json;
use crate::scalar_syntax;

/// The declared fields of all objects in an annotation, in an order that is consistent with each of
/// them.
pub(super) type Fields = &'static [(&'static str, FieldType)];

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    String,
    Number,
    Quantity,
    Time,
    Object,
    Objects,
    Strings,
    StringMap,
}

/// Decodes an annotation that holds an object or a list of objects. Returns `None` if any value has
/// the wrong type.
pub(super) fn read(text: &str, fields: Fields) -> Option<Value> {
    conform(plain_json::from_str(text).ok()?, fields)
}

/// Encodes an annotation.
pub(super) fn write(value: &Value, fields: Fields) -> String {
    let mut out = String::new();
    write_value(&mut out, value, fields);
    out
}

fn conform(value: Value, fields: Fields) -> Option<Value> {
    match value {
        Value::Array(items) => {
            let item = |it| match it {
                Value::Object(_) => conform(it, fields),
                // As in Go, where it is an object without any field.
                Value::Null => Some(Value::Object(Map::new())),
                _ => None,
            };
            items.into_iter().map(item).collect::<Option<_>>().map(Value::Array)
        }
        Value::Object(map) => {
            let mut out = Map::new();
            for (name, value) in map {
                let declared = fields.iter().find(|(it, _)| it.eq_ignore_ascii_case(&name));
                if let (Some((name, field_type)), false) = (declared, value.is_null()) {
                    out.insert((*name).to_owned(), conform_field(value, *field_type, fields)?);
                }
            }
            Some(Value::Object(out))
        }
        Value::Null => Some(Value::Null),
        _ => None,
    }
}

fn conform_field(value: Value, field_type: FieldType, fields: Fields) -> Option<Value> {
    let fits = match (field_type, &value) {
        (FieldType::Quantity, _) => return Quantity::read(&value).map(|it| it.canonical().into()),
        (FieldType::Object, Value::Object(_)) | (FieldType::Objects, Value::Array(_)) => {
            return conform(value, fields);
        }
        (FieldType::String, Value::String(_)) => true,
        (FieldType::Number, Value::Number(number)) => {
            number.as_i64().is_some_and(|it| i32::try_from(it).is_ok())
        }
        (FieldType::Time, Value::String(text)) => scalar_syntax::time(text).is_none(),
        (FieldType::Strings, Value::Array(items)) => items.iter().all(Value::is_string),
        (FieldType::StringMap, Value::Object(map)) => map.values().all(Value::is_string),
        _ => false,
    };
    fits.then_some(value)
}

fn write_value(out: &mut String, value: &Value, fields: Fields) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                write_value(out, item, fields);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(map) => {
            let mut before = '{';
            for (name, field_type) in fields {
                let Some(value) = map.get(*name) else { continue };
                // Writing to a string cannot fail.
                let _ = write!(out, "{before}{name:?}:");
                before = ',';
                match field_type {
                    FieldType::StringMap => out.push_str(&value.to_string()),
                    _ => write_value(out, value, fields),
                }
            }
            out.push_str(if before == '{' { "{}" } else { "}" });
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIELDS: Fields = &[
        ("type", FieldType::String),
        ("inner", FieldType::Object),
        ("amount", FieldType::Quantity),
        ("labels", FieldType::StringMap),
        ("at", FieldType::Time),
        ("count", FieldType::Number),
        ("words", FieldType::Strings),
    ];

    #[test]
    fn names_match_in_any_case_and_unknown_and_null_fields_are_dropped() {
        let text = r#"[{"TYPE": "x", "Inner": {"amount": "1000m", "other": 1}, "count": null, "labels": {"TYPE": "y"}}]"#;
        let read = read(text, FIELDS).expect("well typed");
        assert_eq!(read, json!([{ "type": "x", "inner": { "amount": "1" }, "labels": { "TYPE": "y" } }]));
        assert_eq!(write(&read, FIELDS), r#"[{"type":"x","inner":{"amount":"1"},"labels":{"TYPE":"y"}}]"#);
        assert_eq!(write(&json!([{}, { "words": [] }]), FIELDS), r#"[{},{"words":[]}]"#);
        assert_eq!(super::read("[null]", FIELDS), Some(json!([{}])));
    }

    #[test]
    fn one_wrong_type_invalidates_the_annotation() {
        for text in [
            "{",
            "1",
            r#"{"type": 1}"#,
            r#"{"inner": []}"#,
            r#"{"inner": {"amount": "much"}}"#,
            r#"{"labels": {"a": 1}}"#,
            r#"{"at": "soon"}"#,
            r#"{"at": "2026-01-02 03:04:05Z"}"#,
            r#"{"count": 5000000000}"#,
            r#"[{"words": ["a", 1]}]"#,
            "[[]]",
            "[1]",
        ] {
            assert_eq!(read(text, FIELDS), None, "{text}");
        }
    }
}
