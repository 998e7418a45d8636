//! Reading a schema that is still JSON: its keywords, and how paths in it are written.

use serde_json::Value;

/// The path of a property.
pub(crate) fn property(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

/// The named schemas below a key of a schema.
pub(crate) fn named<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// The listed schemas below a key of a schema.
pub(crate) fn listed<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at a key of a schema; empty where there is none.
pub(crate) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a key of a schema is set to true.
pub(crate) fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}
