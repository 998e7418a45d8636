//! Access to the parts of an object that every stage of a write needs.

use serde_json::{Map, Value, json};

use crate::kinds::json_access::{self, at, items, text};

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

/// Sets a condition in the place of the one of its type. The time of the transition is kept if the
/// status is the same.
pub(super) fn set_condition(object: &mut Value, mut condition: Value) {
    let mut conditions = items(object, "/status/conditions").to_vec();
    match conditions.iter_mut().find(|it| text(it, "/type") == text(&condition, "/type")) {
        Some(known) => {
            if let Some(since) = at(known, "/lastTransitionTime")
                && text(known, "/status") == text(&condition, "/status")
            {
                condition["lastTransitionTime"] = since.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
    object_mut(object, "status").insert("conditions".to_owned(), conditions.into());
}

/// Returns the response to a request that succeeded and has no object to show.
pub(super) fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
