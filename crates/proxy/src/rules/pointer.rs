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

    /// Returns true if one of the places is the other, or contains it.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, other)| one == other)
    }

    /// Returns true if the other place is inside this one.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.overlaps(other) && self.0.len() < other.0.len()
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
    fn places_overlap_if_one_contains_the_other() {
        let overlap = |one: &str, other: &str| {
            let (one, other) = (Pointer::parse(one).unwrap(), Pointer::parse(other).unwrap());
            (one.overlaps(&other), one.contains(&other))
        };
        assert_eq!(overlap("/spec/ports", "/spec/ports"), (true, false));
        assert_eq!(overlap("/spec", "/spec/ports"), (true, true));
        assert_eq!(overlap("/spec/ports/0", "/spec/ports"), (true, false));
        assert_eq!(overlap("/spec/a", "/spec/b"), (false, false));
        assert!(Pointer::of(&[]).contains(&Pointer::of(&["a"])));
        assert!(Pointer::parse("spec").is_err());
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
