//! The parts of an object that are needed to store it, picked from its bytes in either encoding.
//!
//! All of the object is read, so that malformed bytes, unknown fields of a message and objects that
//! are nested too deeply are found here and not when a client asks for the object. But values are
//! made only of the picked parts: most of an object is not allocated.

use std::collections::BTreeMap;
use std::fmt;

use dogwatch_wire::{Fields, UndecodableItem, decode_with};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The parts to pick: a tree of the members of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// Set if the value is picked with everything in it.
    is_whole: bool,
    members: BTreeMap<String, Paths>,
}

/// Reads a value: its picked parts, or nothing of it.
#[derive(Clone, Copy)]
struct Picker<'p>(Option<&'p Paths>);

/// Reads the name of a member, and returns its paths.
struct Member<'p>(&'p Paths);

impl Paths {
    /// Adds the value at a JSON pointer; the empty one is that of the whole object. A pointer of a
    /// field of an API has no escapes.
    pub(crate) fn add(&mut self, pointer: &str) {
        match pointer.strip_prefix('/') {
            None => self.is_whole = true,
            Some(path) => {
                let (name, rest) = path.find('/').map_or((path, ""), |at| path.split_at(at));
                self.members.entry(name.to_owned()).or_default().add(rest);
            }
        }
    }

    /// Picks from an object in JSON, or in protobuf in its envelope.
    ///
    /// # Errors
    ///
    /// Returns an error with the name of the object, as far as it can be read, if the object is
    /// malformed, is nested too deeply, or has a field that is not known in protobuf.
    pub(crate) fn pick(&self, object: &[u8]) -> Result<Value, UndecodableItem> {
        decode_with(object, Fields::default().keep_managed_fields().reject_unknown(), Picker(Some(self)))
    }
}

impl<'de> DeserializeSeed<'de> for Picker<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Picker<'_> {
    fn is_whole(&self) -> bool {
        self.0.is_some_and(|it| it.is_whole)
    }

    /// Returns a scalar if it is picked.
    fn scalar(self, value: impl Into<Value>) -> Value {
        if self.is_whole() { value.into() } else { Value::Null }
    }
}

impl<'de> Visitor<'de> for Picker<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(self.scalar(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        // Nothing is allocated for a text that is only read.
        Ok(if self.is_whole() { value.into() } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let item = Self(self.0.filter(|it| it.is_whole));
        while let Some(value) = items.next_element_seed(item)? {
            if self.is_whole() {
                list.push(value);
            }
        }
        Ok(if self.is_whole() { list.into() } else { Value::Null })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Some(paths) = self.0 else {
            while members.next_key::<IgnoredAny>()?.is_some() {
                members.next_value_seed(Self(None))?;
            }
            return Ok(Value::Null);
        };
        let mut picked = Map::new();
        while let Some(name) = members.next_key_seed(Member(paths))? {
            match name {
                Some((name, paths)) => {
                    picked.insert(name, members.next_value_seed(Self(Some(paths)))?);
                }
                None => {
                    members.next_value_seed(Self(None))?;
                }
            }
        }
        Ok(picked.into())
    }
}

impl<'de, 'p> DeserializeSeed<'de> for Member<'p> {
    type Value = Option<(String, &'p Paths)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'p> Visitor<'_> for Member<'p> {
    type Value = Option<(String, &'p Paths)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(match self.0.is_whole {
            true => Some((name.to_owned(), self.0)),
            false => self.0.members.get(name).map(|paths| (name.to_owned(), paths)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(pointers: &[&str]) -> Paths {
        let mut paths = Paths::default();
        pointers.iter().for_each(|it| paths.add(it));
        paths
    }

    #[test]
    fn only_the_parts_at_the_paths_are_picked_from_either_encoding() {
        let pod = json!({ "kind": "Pod", "apiVersion": "v1",
            "metadata": { "name": "a", "labels": { "k": "v" }, "annotations": { "x": "y" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "c" }], "hostNetwork": true },
            "status": { "podIPs": [{ "ip": "1.2.3.4" }] } });
        let paths =
            paths(&["/kind", "/metadata/name", "/metadata/labels", "/spec/nodeName", "/status/podIPs"]);
        let expected = json!({ "kind": "Pod", "metadata": { "name": "a", "labels": { "k": "v" } },
            "spec": { "nodeName": "n" }, "status": { "podIPs": [{ "ip": "1.2.3.4" }] } });
        let in_protobuf = crate::protobuf::encode(&pod).expect("a built-in kind");
        assert_eq!(paths.pick(pod.to_string().as_bytes()).expect("JSON"), expected);
        assert_eq!(paths.pick(&in_protobuf).expect("protobuf"), expected);
    }

    #[test]
    fn the_empty_path_picks_the_whole_object() {
        let object = json!({ "a": [1, -2, 1.5, null, true, { "b": "c" }], "d": {} });
        assert_eq!(paths(&[""]).pick(object.to_string().as_bytes()).expect("JSON"), object);
    }

    #[test]
    fn a_value_of_another_type_than_expected_is_not_picked() {
        for spec in [json!(null), json!(5), json!("text"), json!([{ "nodeName": "n" }])] {
            let object = json!({ "spec": spec });
            let picked = paths(&["/spec/nodeName"]).pick(object.to_string().as_bytes()).expect("JSON");
            assert_eq!(picked, json!({ "spec": null }), "{object}");
        }
    }

    #[test]
    fn what_could_not_be_read_back_is_found_in_parts_that_are_not_picked() {
        let head = r#"{"metadata":{"name":"a","namespace":"b"},"spec":"#;
        let deep = format!("{head}{}1{}}}", "[".repeat(130), "]".repeat(130));
        for bad in [format!("{head}nul}}"), format!("{head}\"\\x\"}}"), format!("{head}[}}"), deep] {
            assert!(paths(&["/metadata/name"]).pick(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
