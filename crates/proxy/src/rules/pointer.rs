//! Places in an object: JSON pointers (RFC 6901), in which `*` stands for every key or item.

use std::fmt;

use serde_json::Value;

/// A place in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

/// The segment that stands for every key or item.
const EVERY: &str = "*";

impl Pointer {
    /// Parses a pointer; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("the path {text:?} does not begin with `/`"));
        };
        let segments = rest.split('/').map(|it| it.replace("~1", "/").replace("~0", "~"));
        Ok(Self(segments.collect()))
    }

    /// Creates a pointer of these keys.
    pub(crate) fn of(segments: &[&str]) -> Self {
        Self(segments.iter().map(|&it| it.to_owned()).collect())
    }

    /// Returns the pointer to a member.
    pub(crate) fn member(&self, key: &str) -> Self {
        Self(self.0.iter().cloned().chain([key.to_owned()]).collect())
    }

    /// Returns true if the place is a field that identifies the object, or contains one.
    pub(crate) fn is_identity(&self) -> bool {
        let segments: Vec<&str> = self.0.iter().map(String::as_str).collect();
        matches!(
            segments.as_slice(),
            [] | ["" | "*" | "apiVersion" | "kind" | "metadata"]
                | ["*" | "metadata", "*" | "name" | "namespace" | "uid" | "resourceVersion"]
        )
    }

    /// Returns the place up to the first item of a list or `*`, and true if that is the whole
    /// pointer: a place that does not move when a list is reordered.
    pub(crate) fn fixed(&self) -> (Self, bool) {
        let moves = |it: &String| it == EVERY || it == "-" || it.bytes().all(|it| it.is_ascii_digit());
        let length = self.0.iter().position(moves).unwrap_or(self.0.len());
        (Self(self.0[..length].to_vec()), length == self.0.len())
    }

    /// Calls `change` for every value at the place, which may replace it, or remove it with `None`.
    pub(crate) fn change(&self, value: &mut Value, change: &dyn Fn(&Value) -> Option<Value>) {
        let Some((last, parents)) = self.0.split_last() else { return };
        for_each(value, parents, &mut |parent| match parent {
            Value::Object(fields) => {
                let keys: Vec<String> =
                    fields.keys().filter(|it| last == EVERY || *it == last).cloned().collect();
                for key in keys {
                    match change(&fields[&key]) {
                        Some(changed) => fields.insert(key, changed),
                        None => fields.remove(&key),
                    };
                }
            }
            Value::Array(items) => {
                let index = last.parse::<usize>().ok();
                let changed = items.drain(..).enumerate().filter_map(|(at, item)| {
                    if last == EVERY || index == Some(at) { change(&item) } else { Some(item) }
                });
                *items = changed.collect();
            }
            _ => {}
        });
    }

    /// Returns the value at a place without `*`.
    pub(crate) fn get<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, key| match value {
            Value::Object(fields) => fields.get(key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Makes the value at a place of keys what it is in `model`. Objects on the way are added if the
    /// model has them, and removed if they become empty and the model does not have them.
    pub(crate) fn copy(&self, model: &Value, value: &mut Value) {
        let (Some((key, rest)), Value::Object(fields)) = (self.0.split_first(), value) else { return };
        match (model.get(key), rest.is_empty()) {
            (Some(model), true) => {
                fields.insert(key.clone(), model.clone());
            }
            (None, true) => {
                fields.remove(key);
            }
            (Some(model), false) => {
                let is_new = !fields.contains_key(key);
                let inner =
                    fields.entry(key.clone()).or_insert_with(|| Value::Object(serde_json::Map::new()));
                Self(rest.to_vec()).copy(model, inner);
                // The model has nothing at the place, so the way there is not needed.
                if is_new && inner != model && inner.as_object().is_some_and(serde_json::Map::is_empty) {
                    fields.remove(key);
                }
            }
            (None, false) => {
                if let Some(inner) = fields.get_mut(key) {
                    Self(rest.to_vec()).copy(&Value::Null, inner);
                    if inner.as_object().is_some_and(serde_json::Map::is_empty) {
                        fields.remove(key);
                    }
                }
            }
        }
    }
}

fn for_each(value: &mut Value, segments: &[String], visit: &mut dyn FnMut(&mut Value)) {
    let Some((key, rest)) = segments.split_first() else { return visit(value) };
    match value {
        Value::Object(fields) if key == EVERY => fields.values_mut().for_each(|it| for_each(it, rest, visit)),
        Value::Object(fields) => {
            if let Some(inner) = fields.get_mut(key) {
                for_each(inner, rest, visit);
            }
        }
        Value::Array(items) if key == EVERY => items.iter_mut().for_each(|it| for_each(it, rest, visit)),
        Value::Array(items) => {
            if let Some(inner) = key.parse::<usize>().ok().and_then(|it| items.get_mut(it)) {
                for_each(inner, rest, visit);
            }
        }
        _ => {}
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| write!(f, "/{}", it.replace('~', "~0").replace('/', "~1")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_star_stands_for_every_key_and_item() {
        let mut pod = json!({ "spec": { "containers": [{ "env": [1], "name": "a" }, { "name": "b" }] }, "data": { "x": 1, "y/z": 2 } });
        let remove = |value: &mut Value, path: &str| Pointer::parse(path).unwrap().change(value, &|_| None);
        remove(&mut pod, "/spec/containers/*/env");
        remove(&mut pod, "/data/y~1z");
        remove(&mut pod, "/missing/*/x");
        assert_eq!(
            pod,
            json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b" }] }, "data": { "x": 1 } })
        );
        remove(&mut pod, "/spec/containers/0");
        remove(&mut pod, "/data/*");
        assert_eq!(pod, json!({ "spec": { "containers": [{ "name": "b" }] }, "data": {} }));
    }

    #[test]
    fn a_pointer_is_fixed_up_to_the_first_item() {
        for (path, fixed, whole) in [
            ("/metadata/annotations/a~1b", "/metadata/annotations/a~1b", true),
            ("/spec/ports/-", "/spec/ports", false),
            ("/spec/containers/*/env", "/spec/containers", false),
            ("/spec/ports/0/port", "/spec/ports", false),
        ] {
            let (found, is_whole) = Pointer::parse(path).unwrap().fixed();
            assert_eq!((found.to_string().as_str(), is_whole), (fixed, whole), "{path}");
        }
        assert!(Pointer::parse("spec").is_err());
    }

    #[test]
    fn copying_adds_and_removes_the_way_there() {
        let copied = |path: &str, model: Value, mut value: Value| {
            Pointer::parse(path).unwrap().copy(&model, &mut value);
            value
        };
        let path = "/metadata/annotations/seen";
        let seen = || json!({ "metadata": { "annotations": { "seen": "x" } } });
        assert_eq!(copied(path, json!({ "metadata": { "name": "a" } }), seen()), json!({ "metadata": {} }));
        assert_eq!(copied(path, seen(), json!({ "metadata": {} })), seen());
        let other = json!({ "metadata": { "annotations": { "other": "y" } } });
        assert_eq!(copied(path, other.clone(), other.clone()), other);
        assert_eq!(copied("/data", json!({}), json!({ "data": { "a": 1 } })), json!({}));
    }

    #[test]
    fn the_identity_of_an_object_is_known() {
        for path in
            ["/metadata", "/metadata/name", "/kind", "/*", "/metadata/*", "/metadata/resourceVersion", "/"]
        {
            assert!(Pointer::parse(path).unwrap().is_identity(), "{path}");
        }
        for path in ["/metadata/labels", "/metadata/annotations/name", "/spec/name", "/data/*"] {
            assert!(!Pointer::parse(path).unwrap().is_identity(), "{path}");
        }
    }
}
