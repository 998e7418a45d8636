//! Conversion between the versions of a custom kind: with the strategy `None` only `apiVersion` changes.

use serde_json::Value;

/// Gives an object another version of its group.
pub fn to_version(object: &mut Value, group: &str, version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), Value::String(format!("{group}/{version}")));
    }
}
