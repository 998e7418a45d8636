//! Access to the parts of an object that every stage of a write needs.

use serde_json::{Map, Value};

use crate::kinds::json_access;

/// Returns the metadata of an object, created if absent.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    object_mut(object, "metadata")
}

/// Returns a part of an object, created if absent.
pub(super) fn object_mut<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    json_access::object(object.as_object_mut().expect("it was made an object above"), key)
}

/// Sets a field, or removes it.
pub(super) fn set_or_remove(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}
