//! Access to JSON objects by path. Absent and `null` are the same here, as they are for typed
//! objects.

use serde_json::Value;

/// Returns the value at a JSON pointer, unless it is null.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    follow(value, pointer).filter(|found| !found.is_null())
}

/// Returns the value at a JSON pointer. Nearly all pointers in this crate name plain fields, so the
/// common case unescapes nothing.
fn follow<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
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
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    follow(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<i64> {
    follow(value, pointer).and_then(Value::as_i64)
}

/// Returns true if the value at a JSON pointer is `true`.
pub(crate) fn flag(value: &Value, pointer: &str) -> bool {
    follow(value, pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the items of the list at a JSON pointer.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    follow(value, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the entries of the object at a JSON pointer.
pub(crate) fn entries<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    follow(value, pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_resolve_as_in_the_rfc() {
        let value = json!({ "a": { "b": [{ "c": 1 }, 2], "": 3, "x/y": 4 }, "n": null });
        for pointer in ["", "/", "/a", "/a/b/0/c", "/a/b/2", "/a/b/-", "/a/", "/a/x~1y", "/n/a", "/z", "a"] {
            assert_eq!(follow(&value, pointer), value.pointer(pointer), "{pointer}");
        }
        assert_eq!((at(&value, "/n"), at(&value, "/a/b/1")), (None, Some(&json!(2))));
    }
}
