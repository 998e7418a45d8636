//! One version of one object, encoded once and immutable.
//!
//! Lists and watches write these bytes as they are: an object is stored as the line of a watch
//! event, and the object itself is a slice of it. The version is at a known offset, so that the
//! last state of a deleted object can carry the version of the deletion without being encoded
//! again.
//!
//! The same object in protobuf is encoded when a client asks for it first, and then kept for all
//! others.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dogwatch_core::{Labels, ObjectKey};
use serde::Serialize;
use serde_json::{Map, Value};

use super::event_type::EventType;
use super::protobuf_frame::ProtobufFrame;
use crate::depth;
use crate::plain_json;
use crate::protobuf::{EncodeError, has_protobuf};

/// The field that is left empty in the encoding, and filled in when the version is known.
const VERSION: &str = "resourceVersion";

/// The metadata fields that [`Encoded::is_tied`] reports.
const TIE_FIELDS: [&str; 3] = ["ownerReferences", "finalizers", "deletionTimestamp"];

/// The bytes after the object in the line of a watch event.
const LINE_END: &[u8] = b"}\n";

/// The number of bytes by which an object that is kept in protobuf may be larger than its JSON: the
/// lengths of a large text, and the structure around the bytes.
const PROTOBUF_OVERHEAD: usize = size_of::<ProtobufFrame>() + 64;

/// A selectable field of an object: its name and its value.
pub(crate) type SelectableField = (FieldName, String);

/// The name of a selectable field.
#[derive(Clone, Debug)]
pub enum FieldName {
    /// A field of a built-in kind.
    Static(&'static str),
    /// A field of a custom kind, shared by all objects of the kind.
    Shared(Arc<str>),
}

/// The reason that an object cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unstorable {
    /// It has no valid name, or no metadata at all.
    #[error("the object has no name to store it under")]
    NoName,
    /// It is nested too deeply to be read back.
    #[error("{}", depth::exceeded())]
    TooDeep,
}

/// An object that is encoded except for its version.
///
/// [`Draft::new`] is the only way into the store, so every object that it accepts must stay
/// readable: [`Encoded::to_value`] relies on its checks.
#[derive(Clone, Debug)]
pub struct Draft {
    attributes: Attributes,
    /// The object without the digits of its version, but with the quotes around them.
    text: Vec<u8>,
    /// The number of bytes of `text` with kind and API version, which items of a typed list omit.
    preamble: usize,
    /// The offset in `text` of the digits of the version.
    version_at: usize,
}

/// The attributes of an object that are known without decoding it.
#[derive(Clone, Debug)]
struct Attributes {
    key: ObjectKey,
    uid: String,
    labels: BTreeMap<String, String>,
    /// Set if the metadata has owners, finalizers or a deletion timestamp.
    tied: bool,
    /// The selectable fields other than name and namespace.
    fields: Vec<SelectableField>,
    /// The schema that the object was prepared with.
    schema: Option<u64>,
    /// Set if the kind has a protobuf encoding.
    has_protobuf: bool,
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Encoded {
    version: u64,
    attributes: Arc<Attributes>,
    /// The event type in `line`.
    event_type: EventType,
    /// The line of a watch event. Invariant: the head of the event type, one JSON object,
    /// [`LINE_END`].
    line: Bytes,
    /// The number of bytes of the object with kind and API version.
    preamble: usize,
    /// The offset in the object of the digits of the version.
    version_at: usize,
    /// The object in protobuf, once it was requested; `None` if it is not kept.
    protobuf: OnceLock<Option<Box<ProtobufFrame>>>,
}

impl FieldName {
    fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl From<&'static str> for FieldName {
    fn from(name: &'static str) -> Self {
        Self::Static(name)
    }
}

impl Attributes {
    /// Returns the approximate number of bytes outside of the structure itself: labels and selectable
    /// fields are copied from the object. Shared names do not count.
    fn heap_size(&self) -> usize {
        let label = |(key, value): (&String, &String)| 2 * size_of::<String>() + key.len() + value.len();
        let field = |(_, value): &SelectableField| size_of::<SelectableField>() + value.len();
        let labels: usize = self.labels.iter().map(label).sum();
        labels + self.fields.iter().map(field).sum::<usize>()
    }
}

impl Draft {
    /// Encodes an object; the version that it carries is ignored. `fields` are the selectable
    /// fields of its kind other than name and namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if it has no name, or is nested too deeply to be read back.
    pub fn new(object: &Value, fields: Vec<SelectableField>) -> Result<Self, Unstorable> {
        if depth::is_exceeded_by(object) {
            return Err(Unstorable::TooDeep);
        }
        let object = object.as_object().ok_or(Unstorable::NoName)?;
        let metadata = object.get("metadata").and_then(Value::as_object).ok_or(Unstorable::NoName)?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let key =
            ObjectKey::from_parts(Some(text("namespace")), text("name")).map_err(|_| Unstorable::NoName)?;
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels =
            labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
        let tied = TIE_FIELDS.iter().any(|it| metadata.contains_key(*it));
        let type_field = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let attributes = Attributes {
            key,
            uid: text("uid").to_owned(),
            labels,
            tied,
            fields,
            schema: None,
            has_protobuf: has_protobuf(type_field("apiVersion"), type_field("kind")),
        };

        let mut out = Vec::with_capacity(2048);
        out.push(b'{');
        // Kind and API version come first, so that a list can omit them.
        for name in ["kind", "apiVersion"] {
            if let Some(value) = object.get(name) {
                write_entry(&mut out, name, value);
            }
        }
        let preamble = out.len();
        let mut version_at = 0;
        for (name, value) in object {
            match name.as_str() {
                "kind" | "apiVersion" => {}
                "metadata" => {
                    out.extend_from_slice(b"\"metadata\":");
                    version_at = write_metadata(&mut out, metadata);
                    out.push(b',');
                }
                _ => write_entry(&mut out, name, value),
            }
        }
        // There is a comma after the last entry, and at least one entry: the metadata.
        out.pop();
        out.push(b'}');
        Ok(Self { attributes, text: out, preamble, version_at })
    }

    /// Records the schema that the object was prepared with. Its bytes can be served unchanged only
    /// under the same schema.
    #[must_use]
    pub fn under(mut self, schema: u64) -> Self {
        self.attributes.schema = Some(schema);
        self
    }

    /// Returns the key that it is stored under.
    pub fn key(&self) -> &ObjectKey {
        &self.attributes.key
    }

    /// Returns its size in bytes, without the digits of its version.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Returns true if a stored object has the same content, apart from its version.
    pub fn says_what(&self, stored: &Encoded) -> bool {
        let (head, tail) = self.text.split_at(self.version_at);
        let (stored_head, stored_tail) = stored.around_version();
        head == stored_head && tail == stored_tail
    }

    /// Returns the object at the version at which it was created.
    pub fn at(self, version: u64) -> Encoded {
        self.encode(EventType::Added, version)
    }

    /// Returns the object at the version of an event of this type.
    pub fn encode(self, event_type: EventType, version: u64) -> Encoded {
        let (head, tail) = self.text.split_at(self.version_at);
        let line = line(event_type, head, version, tail);
        let (preamble, version_at) = (self.preamble, self.version_at);
        let (attributes, protobuf) = (Arc::new(self.attributes), OnceLock::new());
        Encoded { version, attributes, event_type, line, preamble, version_at, protobuf }
    }
}

impl Encoded {
    /// Returns the key that it is stored under.
    pub fn key(&self) -> &ObjectKey {
        &self.attributes.key
    }

    /// Returns its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns its uid, which differs from that of an earlier object of the same name.
    pub fn uid(&self) -> &str {
        &self.attributes.uid
    }

    /// Returns its labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::from(&self.attributes.labels)
    }

    /// Returns the schema that it was prepared with, if that was recorded.
    pub fn schema(&self) -> Option<u64> {
        self.attributes.schema
    }

    /// Returns true if it has owners, finalizers or a deletion timestamp. Most objects do not.
    pub fn is_tied(&self) -> bool {
        self.attributes.tied
    }

    /// Returns the value of a selectable field.
    pub fn field(&self, field: &str) -> Option<&str> {
        match field {
            "metadata.name" => Some(self.key().name()),
            "metadata.namespace" => self.key().namespace(),
            other => {
                let mut fields = self.attributes.fields.iter();
                fields.find(|(it, _)| it.as_str() == other).map(|(_, value)| value.as_str())
            }
        }
    }

    /// Returns the same content with another version, as a deletion shows it.
    #[must_use]
    pub fn with_version(&self, version: u64) -> Self {
        let (head, tail) = self.around_version();
        let line = line(EventType::Deleted, head, version, tail);
        Self {
            version,
            event_type: EventType::Deleted,
            line,
            attributes: Arc::clone(&self.attributes),
            protobuf: OnceLock::new(),
            ..*self
        }
    }

    /// Returns its JSON.
    pub fn json(&self) -> &[u8] {
        &self.line[self.event_type.head().len()..self.line.len() - LINE_END.len()]
    }

    /// Returns its approximate size in memory, in bytes. It is the same before and after the object
    /// is encoded in protobuf.
    pub(super) fn size(&self) -> usize {
        let encodings = self.line.len() + if self.attributes.has_protobuf { self.max_protobuf() } else { 0 };
        size_of::<Self>() + size_of::<Attributes>() + encodings + self.attributes.heap_size()
    }

    /// Returns the maximum number of bytes in protobuf that are kept: those of the JSON, which is
    /// larger except for objects of mostly small or negative numbers. They count from the beginning,
    /// because a log subtracts the size of an object that it drops from a sum it was added to before.
    fn max_protobuf(&self) -> usize {
        self.line.len() + PROTOBUF_OVERHEAD
    }

    /// Returns the object in protobuf. It is encoded once for all callers.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind has no protobuf encoding, or if a value does not have the type of
    /// its field.
    pub fn protobuf(&self) -> Result<ProtobufFrame, EncodeError> {
        let encode = || ProtobufFrame::encode(self.event_type, &self.to_value());
        let mut encoded = None;
        let kept = self.protobuf.get_or_init(|| {
            let frame = encode();
            let is_kept = |it: &&ProtobufFrame| it.len() <= self.max_protobuf();
            let kept = frame.as_ref().ok().filter(is_kept).cloned().map(Box::new);
            encoded = Some(frame);
            kept
        });
        match (encoded, kept) {
            (Some(encoded), _) => encoded,
            (None, Some(kept)) => Ok((**kept).clone()),
            (None, None) => encode(),
        }
    }

    /// Returns true if [`Self::protobuf`] has nothing to encode.
    pub fn is_in_protobuf(&self) -> bool {
        self.protobuf.get().is_some_and(Option::is_some)
    }

    /// Returns its JSON as shared bytes, without copying.
    pub fn bytes(&self) -> Bytes {
        self.line.slice(self.event_type.head().len()..self.line.len() - LINE_END.len())
    }

    /// Returns its JSON after kind and API version, as it follows the opening brace of an item in a
    /// typed list.
    pub fn bare_bytes(&self) -> Bytes {
        self.bytes().slice(self.preamble..)
    }

    /// Writes the line of a watch event of this type. It is one piece for the event type that the
    /// object was stored with, and three for others.
    pub fn write_line(&self, event_type: EventType, out: &mut impl Extend<Bytes>) {
        if event_type == self.event_type {
            out.extend([self.line.clone()]);
        } else {
            let head = Bytes::from_static(event_type.head());
            out.extend([head, self.bytes(), Bytes::from_static(LINE_END)]);
        }
    }

    /// Returns the object as a value.
    pub fn to_value(&self) -> Value {
        plain_json::from_own_slice(self.json())
            .expect("`Draft::new` accepts only values within the depth limit of the parser")
    }

    /// Returns the bytes before and after the digits of the version.
    fn around_version(&self) -> (&[u8], &[u8]) {
        let (head, rest) = self.json().split_at(self.version_at);
        (head, &rest[digits(self.version)..])
    }
}

/// Returns the number of decimal digits of a number.
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

fn line(event_type: EventType, before: &[u8], version: u64, behind: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(
        event_type.head().len() + before.len() + digits(version) + behind.len() + LINE_END.len(),
    );
    line.extend_from_slice(event_type.head());
    line.extend_from_slice(before);
    line.extend_from_slice(version.to_string().as_bytes());
    line.extend_from_slice(behind);
    line.extend_from_slice(LINE_END);
    Bytes::from(line)
}

/// Writes the metadata with an empty version in its sorted position; returns the offset of its
/// digits.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    let mut version_at = None;
    let mut write_version = |out: &mut Vec<u8>| {
        write_entry(out, VERSION, "");
        version_at = Some(out.len() - "\",".len());
    };
    out.push(b'{');
    let mut written = false;
    for (name, value) in metadata {
        if !written && name.as_str() >= VERSION {
            write_version(out);
            written = true;
        }
        if name != VERSION {
            write_entry(out, name, value);
        }
    }
    if !written {
        write_version(out);
    }
    out.pop();
    out.push(b'}');
    version_at.expect("the version was written")
}

/// Writes an entry of an object, followed by a comma.
fn write_entry(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    const TEXT: &str = "writing JSON to memory does not fail";
    serde_json::to_writer(&mut *out, name).expect(TEXT);
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect(TEXT);
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_spliced_in_wherever_the_keys_fall() {
        let object = json!({ "zebra": "\"resourceVersion\":\"5\"", "metadata": { "name": "a", "namespace": "b", "uid": "u",
            "resourceVersion": "7", "labels": { "k": "v" }, "annotations": { "x": "\\u0001version\\u0001" } } });
        let encoded = Draft::new(&object, vec![("spec.nodeName".into(), "n".to_owned())])
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
    fn labels_and_selectable_fields_are_part_of_the_size() {
        let size = |object: Value, field: String| {
            Draft::new(&object, vec![("spec.a".into(), field)]).expect("it has a name").at(1).size()
        };
        let object = |label: &str| json!({ "metadata": { "name": "a", "labels": { "k": label } } });
        let small = size(object(""), String::new());
        assert!(size(object(""), "v".repeat(1_000)) >= small + 1_000);
        // Once in the line and once on its own.
        assert!(size(object(&"v".repeat(1_000)), String::new()) >= small + 2_000);
    }

    #[test]
    fn an_object_is_encoded_in_protobuf_once_and_has_the_same_size_then() {
        let object = json!({ "kind": "ConfigMap", "apiVersion": "v1", "data": { "k": "v".repeat(1_000) },
            "metadata": { "name": "a", "resourceVersion": "42" } });
        let stored = Draft::new(&object, vec![]).expect("it has a name").at(42);
        let before = (stored.size(), stored.is_in_protobuf());
        let first = stored.protobuf().expect("a built-in kind").object();
        assert_eq!(crate::protobuf::decode(&first).expect("protobuf").value, object);
        assert_eq!(stored.protobuf().expect("a built-in kind").object().as_ptr(), first.as_ptr());
        assert_eq!((before, stored.is_in_protobuf()), ((stored.size(), false), true));
        assert!(stored.size() >= stored.json().len() + first.len());
        // The last state has another version, and so other bytes.
        let last = stored.with_version(43).protobuf().expect("a built-in kind").object();
        assert_eq!(
            crate::protobuf::decode(&last).expect("protobuf").value["metadata"]["resourceVersion"],
            "43"
        );
    }

    #[test]
    fn protobuf_that_is_larger_than_its_json_is_not_kept() {
        let groups: Vec<_> = (0..100).map(|_| -1).collect();
        let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a", "resourceVersion": "1" },
            "spec": { "containers": [], "securityContext": { "supplementalGroups": groups } } });
        let stored = Draft::new(&pod, vec![]).expect("it has a name").at(1);
        let object = stored.protobuf().expect("a built-in kind").object();
        assert!(object.len() > stored.json().len() + PROTOBUF_OVERHEAD && !stored.is_in_protobuf());
        assert_eq!(stored.protobuf().expect("a built-in kind").object(), object);
        let custom = json!({ "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "a" } });
        let custom = Draft::new(&custom, vec![]).expect("it has a name").at(1);
        assert!(custom.protobuf().is_err() && custom.protobuf().is_err());
    }

    #[test]
    fn an_object_without_a_name_cannot_be_stored() {
        for object in
            [json!({}), json!({ "metadata": {} }), json!({ "metadata": { "name": "a/b" } }), json!(5)]
        {
            assert_eq!(Draft::new(&object, vec![]).map(|_| ()), Err(Unstorable::NoName));
        }
    }
}
