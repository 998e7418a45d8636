//! One version of one object, encoded once and never changed.
//!
//! A list or a watch writes these bytes as they are. The version stands at a known place in them, so that the last state of
//! a deleted object can carry the version of its deletion without being encoded again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use dogwatch_core::{Labels, ObjectKey};
use serde_json::Value;

/// Stands for the version until it is known. No JSON text holds it by accident: a control character is always escaped.
const PLACEHOLDER: &str = "\u{1}version\u{1}";
/// How serde_json writes it.
const PLACEHOLDER_JSON: &str = "\"\\u0001version\\u0001\"";

/// A field by which an object can be selected: its name and its value.
pub type SelectableField = (Cow<'static, str>, String);

/// An object that is encoded but for its version.
#[derive(Clone, Debug)]
pub struct Draft {
    key: ObjectKey,
    uid: String,
    labels: BTreeMap<String, String>,
    /// The fields besides name and namespace by which it can be selected.
    fields: Vec<SelectableField>,
    /// How many bytes of `head` say kind and version: what items of a typed list leave out.
    preamble: usize,
    /// What comes before the digits of the version, the opening quote included.
    head: Bytes,
    /// What comes behind them, the closing quote included.
    tail: Bytes,
}

/// One version of one object. Invariant: `head`, the digits of `version` and `tail` are one JSON object.
#[derive(Clone, Debug)]
pub struct Encoded {
    version: u64,
    draft: Draft,
}

impl Draft {
    /// Encodes an object; whatever version it carries is left out. `fields` are those, besides name and namespace, by which
    /// objects of its kind can be selected.
    ///
    /// Gives `None` when it has no name to store it under, or no metadata at all.
    pub fn new(mut object: Value, fields: Vec<SelectableField>) -> Option<Self> {
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        metadata.insert("resourceVersion".to_owned(), PLACEHOLDER.into());
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = ObjectKey::from_parts(Some(text("namespace")), text("name")).ok()?;
        let uid = text("uid").to_owned();
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels =
            labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
        // Kind and version come first, so that a list can leave them out.
        let mut encoded = String::with_capacity(1024);
        encoded.push('{');
        for name in ["kind", "apiVersion"] {
            if let Some(value) = object.as_object_mut()?.remove(name) {
                encoded.push_str(&format!("\"{name}\":{value},"));
            }
        }
        let preamble = encoded.len();
        encoded.push_str(serde_json::to_string(&object).ok()?.get(1..)?);
        let at = encoded.find(PLACEHOLDER_JSON)?;
        let tail = Bytes::from(encoded.split_off(at + PLACEHOLDER_JSON.len() - 1));
        encoded.truncate(at + 1);
        Some(Self { key, uid, labels, fields, preamble, head: Bytes::from(encoded), tail })
    }

    /// The key it is stored under.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Whether a stored object says the same, its version aside.
    pub fn says_what(&self, stored: &Encoded) -> bool {
        self.head == stored.draft.head && self.tail == stored.draft.tail
    }

    /// The object at a version.
    pub fn at(self, version: u64) -> Encoded {
        Encoded { version, draft: self }
    }
}

impl Encoded {
    /// The key it is stored under.
    pub fn key(&self) -> &ObjectKey {
        &self.draft.key
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Tells it from an earlier object of the same name.
    pub fn uid(&self) -> &str {
        &self.draft.uid
    }

    /// Its labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::from(&self.draft.labels)
    }

    /// The value of a field by which it can be selected.
    pub fn field(&self, field: &str) -> Option<&str> {
        match field {
            "metadata.name" => Some(self.key().name()),
            "metadata.namespace" => self.key().namespace(),
            other => self.draft.fields.iter().find(|(it, _)| *it == other).map(|(_, value)| value.as_str()),
        }
    }

    /// The same content with another version: what a deletion shows.
    #[must_use]
    pub fn with_version(&self, version: u64) -> Self {
        Self { version, draft: self.draft.clone() }
    }

    /// The three pieces of its JSON, ready to be written one behind the other.
    pub fn pieces(&self) -> [Bytes; 3] {
        [self.draft.head.clone(), Bytes::from(self.version.to_string()), self.draft.tail.clone()]
    }

    /// The pieces of its JSON without kind and version, as items of a typed list have it.
    pub fn bare_pieces(&self) -> [Bytes; 4] {
        let [head, version, tail] = self.pieces();
        [Bytes::from_static(b"{"), head.slice(self.draft.preamble..), version, tail]
    }

    /// Its JSON in one piece.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.draft.head.len() + self.draft.tail.len() + 20);
        self.pieces().iter().for_each(|it| json.extend_from_slice(it));
        json
    }

    /// The object as a value, to be changed.
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.to_json()).expect("it was encoded from a value")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_spliced_in_wherever_the_keys_fall() {
        let object = json!({ "zebra": "\"resourceVersion\":\"5\"", "metadata": { "name": "a", "namespace": "b", "uid": "u",
            "resourceVersion": "7", "labels": { "k": "v" }, "annotations": { "x": "\\u0001version\\u0001" } } });
        let encoded = Draft::new(object.clone(), vec![("spec.nodeName".into(), "n".to_owned())])
            .expect("it has a name")
            .at(42);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(encoded.to_value(), expected);
        assert_eq!(encoded.with_version(43).to_value()["metadata"]["resourceVersion"], "43");
        assert_eq!((encoded.key().as_str(), encoded.uid()), ("b/a", "u"));
        assert_eq!(encoded.labels().get("k"), Some("v"));
        let fields = ["metadata.name", "metadata.namespace", "spec.nodeName", "spec.other"]
            .map(|it| encoded.field(it));
        assert_eq!(fields, [Some("a"), Some("b"), Some("n"), None]);
    }

    #[test]
    fn what_has_no_name_cannot_be_stored() {
        for object in
            [json!({}), json!({ "metadata": {} }), json!({ "metadata": { "name": "a/b" } }), json!(5)]
        {
            assert!(Draft::new(object, vec![]).is_none());
        }
    }
}
