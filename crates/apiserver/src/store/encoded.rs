//! One version of one object, encoded once and immutable.
//!
//! Lists and watches write the stored bytes as they are: an object is stored as the line of a watch
//! event ([`JsonLine`]) or as the frame of one ([`ProtobufFrame`]), and the object itself is a
//! slice of it. The version is at a known offset, so that the last state of a deleted object can
//! carry the version of the deletion without being encoded again.
//!
//! An object of this server is stored in JSON, one of another server ([`super::received`]) in the
//! encoding in which it arrived. The other encoding is made when a client asks for it first, and
//! then kept for all others. A received object that is not in use is compressed.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use dogwatch_core::{Labels, ObjectKey};
use serde_json::Value;

use super::attributes::{Attributes, SelectableField};
use super::compressed::{BytesCompressor, Compressed};
use super::encodings::Encodings;
use super::event_type::EventType;
use super::json_line::{JsonLine, Unversioned};
use super::protobuf_frame::ProtobufFrame;
use crate::depth;
use crate::protobuf::EncodeError;

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
/// [`Draft::new`] is the only way of this server's own objects into the store, so every object that
/// it accepts must stay readable: [`Encoded::to_value`] relies on its checks.
#[derive(Clone, Debug)]
pub struct Draft {
    attributes: Attributes,
    object: Unversioned,
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Encoded {
    version: u64,
    attributes: Arc<Attributes>,
    stored: Stored,
}

/// The bytes of an object.
#[derive(Clone, Debug)]
enum Stored {
    /// As they are.
    Open(Encodings),
    /// Compressed.
    Compressed(Arc<Compressed>),
}

/// The encodings of an object while they are read.
enum Opened<'a> {
    Stored(&'a Encodings),
    Decompressed(Arc<Encodings>),
}

impl Deref for Opened<'_> {
    type Target = Encodings;

    fn deref(&self) -> &Encodings {
        match self {
            Self::Stored(encodings) => encodings,
            Self::Decompressed(encodings) => encodings,
        }
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
        let attributes = Attributes::of(object, fields).ok_or(Unstorable::NoName)?;
        let members = object.as_object().ok_or(Unstorable::NoName)?;
        Ok(Self { attributes, object: Unversioned::encode(members) })
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
        self.object.len()
    }

    /// Returns true if a stored object has the same content, apart from its version.
    pub fn says_what(&self, stored: &Encoded) -> bool {
        self.object.has_content_of(&stored.line())
    }

    /// Returns the object at the version at which it was created.
    pub fn at(self, version: u64) -> Encoded {
        self.encode(EventType::Added, version)
    }

    /// Returns the object at the version of an event of this type.
    pub fn encode(self, event_type: EventType, version: u64) -> Encoded {
        Encoded::new(version, Arc::new(self.attributes), self.object.at(event_type, version).into())
    }
}

impl Encoded {
    /// Creates a version of an object.
    pub(super) fn new(version: u64, attributes: Arc<Attributes>, encodings: Encodings) -> Self {
        Self { version, attributes, stored: Stored::Open(encodings) }
    }

    /// Compresses the bytes of a received object, if that makes them smaller. With `is_open`, they
    /// are also kept as they are until [`Self::close`].
    #[must_use]
    pub(crate) fn compressed(self, compressor: &BytesCompressor, is_open: bool) -> Self {
        let stored = match self.stored {
            Stored::Open(encodings) => match Compressed::new(&encodings, compressor) {
                Some(compressed) => {
                    if is_open {
                        compressed.keep(Arc::new(encodings));
                    }
                    Stored::Compressed(Arc::new(compressed))
                }
                None => Stored::Open(encodings),
            },
            stored => stored,
        };
        Self { stored, ..self }
    }

    /// Keeps the bytes of a compressed object as they are until [`Self::close`]: it is about to be
    /// read by many.
    pub fn open(&self) {
        if let Stored::Compressed(compressed) = &self.stored {
            compressed.keep(compressed.open());
        }
    }

    /// Drops everything but the compressed bytes, if the object is compressed.
    pub fn close(&self) {
        if let Stored::Compressed(compressed) = &self.stored {
            compressed.close();
        }
    }

    /// Returns true if the object is compressed, whether or not it is also open.
    pub fn is_compressed(&self) -> bool {
        matches!(&self.stored, Stored::Compressed(_))
    }

    /// Returns true if reading the object takes decompressing it.
    pub fn is_closed(&self) -> bool {
        matches!(&self.stored, Stored::Compressed(compressed) if !compressed.is_open())
    }

    fn encodings(&self) -> Opened<'_> {
        match &self.stored {
            Stored::Open(encodings) => Opened::Stored(encodings),
            Stored::Compressed(compressed) => Opened::Decompressed(compressed.open()),
        }
    }

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
        self.attributes.is_tied
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

    /// Returns the same content with another version, as a deletion shows it. It is not compressed.
    #[must_use]
    pub fn with_version(&self, version: u64) -> Self {
        Self::new(version, Arc::clone(&self.attributes), self.encodings().deleted_at(version))
    }

    /// Returns its approximate size in memory, in bytes. It is the same before and after the object
    /// is made in its second encoding, and for a compressed object while it is open.
    pub(crate) fn size(&self) -> usize {
        let encodings = match &self.stored {
            Stored::Open(encodings) => encodings.size(self.attributes.has_protobuf),
            Stored::Compressed(compressed) => compressed.size(),
        };
        size_of::<Self>() + size_of::<Attributes>() + encodings + self.attributes.heap_size()
    }

    /// Returns the number of bytes of the encoding that it is stored in, without compression: about
    /// the work of reading it.
    pub fn length(&self) -> usize {
        match &self.stored {
            Stored::Open(encodings) => encodings.length(),
            Stored::Compressed(compressed) => compressed.length(),
        }
    }

    /// Returns the event type that the object was encoded with.
    pub fn event_type(&self) -> EventType {
        match &self.stored {
            Stored::Open(encodings) => encodings.event_type(),
            Stored::Compressed(compressed) => compressed.event_type(),
        }
    }

    /// Returns the object in protobuf, in its envelope, if that is the encoding that it is stored
    /// in.
    pub fn stored_protobuf(&self) -> Option<Bytes> {
        match &*self.encodings() {
            Encodings::Json(..) => None,
            Encodings::Protobuf(frame, _) => Some(frame.object()),
        }
    }

    /// Returns the object in protobuf. It is encoded once for all callers, unless it is compressed.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind has no protobuf encoding, or if a value does not have the type
    /// of its field. In an object of another server, a field that protobuf does not have is one
    /// too.
    pub fn protobuf(&self) -> Result<ProtobufFrame, EncodeError> {
        self.encodings().protobuf()
    }

    /// Returns the number of bytes of the object as the entry of a list in protobuf, if that is the
    /// encoding that it is stored in. Costs nothing, also if the object is compressed.
    pub fn protobuf_entry(&self) -> Option<usize> {
        match &self.stored {
            Stored::Open(encodings) => encodings.protobuf_entry(),
            Stored::Compressed(compressed) => compressed.protobuf_entry(),
        }
    }

    /// Returns true if [`Self::protobuf`] has nothing to do.
    pub fn is_in_protobuf(&self) -> bool {
        !self.is_closed() && self.encodings().is_in_protobuf()
    }

    /// Returns true if [`Self::bytes`] has nothing to do.
    pub fn is_in_json(&self) -> bool {
        !self.is_closed() && self.encodings().is_in_json()
    }

    fn line(&self) -> JsonLine {
        self.encodings().line(self.version)
    }

    /// Returns its JSON as shared bytes. It is encoded once for all callers, unless it is
    /// compressed.
    pub fn bytes(&self) -> Bytes {
        self.line().object()
    }

    /// Returns its JSON after kind and API version, as it follows the opening brace of an item in a
    /// typed list.
    pub fn bare_bytes(&self) -> Bytes {
        self.line().bare()
    }

    /// Writes the line of a watch event of this type. It is one piece for the event type that the
    /// object was stored with, and three for others.
    pub fn write_line(&self, event_type: EventType, out: &mut impl Extend<Bytes>) {
        self.line().write_event(event_type, out);
    }

    /// Returns the object as a value.
    pub fn to_value(&self) -> Value {
        self.encodings().to_value()
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
        assert!(stored.size() >= stored.bytes().len() + first.len());
        // The last state has another version, and so other bytes.
        let last = stored.with_version(43).protobuf().expect("a built-in kind").object();
        assert_eq!(
            crate::protobuf::decode(&last).expect("protobuf").value["metadata"]["resourceVersion"],
            "43"
        );
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
