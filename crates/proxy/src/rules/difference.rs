//! Differences between the stored object, the one that a caller sees, and the one that it writes.
//!
//! Objects are compared key by key. Lists and scalars are compared as a whole: items of a list have
//! no names by which stored ones could be found again.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::pointer::Pointer;

/// The treatment of an object that only one of two values has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It differs as a whole.
    Whole,
    /// It is compared with an empty one.
    AsEmpty,
}

/// Returns the places at which two values differ.
pub(super) fn differences(one: &Value, other: &Value, missing: Missing) -> Vec<Pointer> {
    let mut places = Vec::new();
    collect(Some(one), Some(other), missing, &Pointer::of(&[]), &mut places);
    places
}

fn collect(
    one: Option<&Value>,
    other: Option<&Value>,
    missing: Missing,
    at: &Pointer,
    places: &mut Vec<Pointer>,
) {
    if one == other {
        return;
    }
    let is_object = |it: Option<&Value>| match it {
        Some(it) => it.is_object(),
        None => missing == Missing::AsEmpty,
    };
    let keys = keys(&[one, other]);
    if !is_object(one) || !is_object(other) || keys.is_empty() {
        return places.push(at.clone());
    }
    for key in keys {
        collect(member(one, key), member(other, key), missing, &at.member(key), places);
    }
}

/// Returns the value to store for a write by a caller who sees `stored` as `shown`: what the caller
/// has changed is as written, and everything else as stored. The error is a place that both the
/// rules and the caller have changed, in ways that cannot be taken apart.
pub(super) fn merged(shown: &Value, written: &Value, stored: &Value) -> Result<Value, Pointer> {
    let merged = merge(Some(shown), Some(written), Some(stored), &Pointer::of(&[]))?;
    Ok(merged.unwrap_or_default())
}

fn merge(
    shown: Option<&Value>,
    written: Option<&Value>,
    stored: Option<&Value>,
    at: &Pointer,
) -> Result<Option<Value>, Pointer> {
    if written == shown {
        return Ok(stored.cloned());
    }
    if shown == stored || written == stored {
        return Ok(written.cloned());
    }
    let all = [shown, written, stored];
    if all.iter().all(|it| it.is_none_or(Value::is_object)) {
        let mut fields = Map::new();
        for key in keys(&all) {
            let [shown, written, stored] = all.map(|it| member(it, key));
            if let Some(value) = merge(shown, written, stored, &at.member(key))? {
                fields.insert(key.to_owned(), value);
            }
        }
        // The object exists for the caller only because of the rules, or the caller has removed it.
        let is_empty = fields.is_empty() && (written.is_none() || stored.is_none());
        let is_asked_for = written.is_some_and(|it| it.as_object().is_some_and(Map::is_empty));
        return Ok((!is_empty || is_asked_for).then_some(Value::Object(fields)));
    }
    match written {
        // It has nothing of the rules in it.
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Ok(written.cloned())
        }
        Some(Value::Array(_) | Value::Object(_)) => Err(at.clone()),
    }
}

fn member<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    value?.get(key)
}

fn keys<'a>(values: &[Option<&'a Value>]) -> BTreeSet<&'a str> {
    let objects = values.iter().filter_map(|it| it.and_then(Value::as_object));
    objects.flat_map(|it| it.keys().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_that_differ_are_as_deep_as_possible() {
        let (one, other) = (
            json!({ "a": { "b": 1, "c": [1, { "x": 1 }] }, "same": { "y": 1 }, "new": { "z": 1 } }),
            json!({ "a": { "b": 2, "c": [1, { "x": 2 }] }, "same": { "y": 1 } }),
        );
        let found = |missing: Missing| -> Vec<String> {
            differences(&one, &other, missing).iter().map(ToString::to_string).collect()
        };
        assert_eq!(found(Missing::Whole), ["/a/b", "/a/c", "/new"]);
        assert_eq!(found(Missing::AsEmpty), ["/a/b", "/a/c", "/new/z"]);
    }

    #[test]
    fn what_the_caller_changed_is_stored_and_the_rest_stays() {
        let stored = json!({ "host": "a", "ports": [80], "data": { "x": "1" } });
        let shown = json!({ "host": "b", "ports": [80, 81], "data": { "x": "1" }, "notes": { "seen": "y" } });
        let written = |change: &dyn Fn(&mut Value)| {
            let mut written = shown.clone();
            change(&mut written);
            merged(&shown, &written, &stored).map_err(|it| it.to_string())
        };
        assert_eq!(written(&|_| {}), Ok(stored.clone()));
        let own = written(&|it| it["notes"]["own"] = "z".into()).unwrap();
        assert_eq!(own["notes"], json!({ "own": "z" }));
        assert_eq!(written(&|it| it["notes"] = json!({})).unwrap()["notes"], json!({}));
        assert_eq!(written(&|it| it["host"] = "c".into()).unwrap()["host"], "c");
        assert_eq!(written(&|it| it["data"]["x"] = "2".into()).unwrap()["data"], json!({ "x": "2" }));
        let removed = written(&|it| drop(it.as_object_mut().unwrap().remove("ports"))).unwrap();
        assert_eq!(removed.get("ports"), None);
        assert_eq!(written(&|it| it["ports"] = json!([82])), Err("/ports".to_owned()));
        assert_eq!(written(&|it| it["ports"] = json!([80])).unwrap()["ports"], json!([80]), "as stored");
        assert_eq!(written(&|it| it["host"] = json!({ "own": 1 })), Err("/host".to_owned()));
    }
}
