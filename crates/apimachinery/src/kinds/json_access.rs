//! Access to JSON objects by path. Absent and `null` are the same here, as they are for typed
//! objects.

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Returns the value at a JSON pointer, unless it is null.
pub fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    follow(value, pointer).filter(|found| !found.is_null())
}

/// Returns the value at a JSON pointer. Nearly all pointers in this crate name plain fields, so the
/// common case unescapes nothing.
pub(crate) fn follow<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return value.pointer(pointer);
    }
    let Some(steps) = pointer.strip_prefix('/') else { return pointer.is_empty().then_some(value) };
    steps.split('/').try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the string at a JSON pointer, or an empty one.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    follow(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at a JSON pointer.
pub fn number(value: &Value, pointer: &str) -> Option<i64> {
    follow(value, pointer).and_then(Value::as_i64)
}

/// Returns true if the value at a JSON pointer is `true`.
pub fn flag(value: &Value, pointer: &str) -> bool {
    follow(value, pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the items of the list at a JSON pointer.
pub fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    follow(value, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the entries of the object at a JSON pointer.
pub fn entries<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    follow(value, pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// Returns the object under a key, inserting an empty one if there is none.
pub fn object<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = parent.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("set to an object just above")
}

/// Returns the object under a key, if there is one.
pub(crate) fn object_if_present<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    parent.get_mut(key).and_then(Value::as_object_mut)
}

/// Returns the objects in the list under a key.
pub(crate) fn each<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    parent.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a field that is absent, null or an empty string.
pub(crate) fn fill(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let empty = match map.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if empty {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a number that is absent, null or zero.
pub(crate) fn fill_zero(map: &mut Map<String, Value>, key: &str, value: i64) {
    if map.get(key).and_then(Value::as_i64).unwrap_or(0) == 0 {
        map.insert(key.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_resolve_as_in_the_rfc() {
        let value = json!({ "a": { "b": [{ "c": 1 }, 2], "": 3, "x/y": 4 }, "n": null });
        for pointer in [
            "",
            "/",
            "/a",
            "/a/b/0/c",
            "/a/b/1",
            "/a/b/2",
            "/a/b/-",
            "/a/",
            "/a/x~1y",
            "/n",
            "/n/a",
            "/z",
            "a",
            "/a/b/0/c/d",
        ] {
            assert_eq!(follow(&value, pointer), value.pointer(pointer), "{pointer}");
        }
        assert_eq!((at(&value, "/n"), at(&value, "/a/b/1")), (None, Some(&json!(2))));
    }
}
