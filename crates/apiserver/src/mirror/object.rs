//! Objects and events as another server sends them.

use bytes::Bytes;
use serde_json::Value;

use crate::plain_json;
use crate::protobuf::{self, Envelope};
use crate::registry::ReceivedBytes;
use crate::store::{Encoded, EventType};

/// An object in the encoding in which a server sends it. A clone shares the bytes.
///
/// Lists leave out the kind of their items; the mirror adds it.
///
/// ```
/// use dogwatch_apiserver::mirror::{MirrorEncoding, MirrorObject};
///
/// let object = MirrorObject::json(r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#);
/// assert_eq!(object.encoding(), MirrorEncoding::Json);
/// assert_eq!(object.to_value()?["data"]["k"], "v");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorObject {
    encoding: MirrorEncoding,
    bytes: Bytes,
}

/// The encoding of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MirrorEncoding {
    /// JSON.
    Json,
    /// Protobuf: the message in its envelope, or alone.
    Protobuf,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorEvent {
    /// The type of the event.
    pub event_type: MirrorEventType,
    /// The object after the change, or its last state if it was deleted, at the version of the
    /// change.
    pub object: MirrorObject,
}

/// The type of an event of a watch. Bookmarks and errors are not events of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MirrorEventType {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl MirrorObject {
    /// Creates an object of its JSON.
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self { encoding: MirrorEncoding::Json, bytes: bytes.into() }
    }

    /// Creates an object of its protobuf: the message in its envelope, as in events, or alone, as
    /// in lists.
    pub fn protobuf(bytes: impl Into<Bytes>) -> Self {
        Self { encoding: MirrorEncoding::Protobuf, bytes: bytes.into() }
    }

    /// Encodes an object as JSON.
    pub fn from_value(object: &Value) -> Self {
        Self::json(object.to_string())
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> MirrorEncoding {
        self.encoding
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Decodes the object. Those that a mirror passes to a view can always be decoded.
    ///
    /// # Errors
    ///
    /// Returns a description of the problem if the bytes are malformed, or are a message without
    /// its envelope.
    pub fn to_value(&self) -> Result<Value, String> {
        match self.encoding {
            MirrorEncoding::Json => plain_json::from_slice(&self.bytes).map_err(|it| it.to_string()),
            MirrorEncoding::Protobuf => protobuf::decode_stored(&self.bytes).map_err(|it| it.to_string()),
        }
    }

    /// Returns a stored object in the encoding that it is stored in.
    pub(super) fn stored(object: &Encoded) -> Self {
        match object.stored_protobuf() {
            Some(bytes) => Self::protobuf(bytes),
            None => Self::json(object.bytes()),
        }
    }

    /// Returns the bytes as they are stored.
    pub(super) fn received(&self) -> ReceivedBytes<'_> {
        match self.encoding {
            MirrorEncoding::Protobuf if !self.bytes.starts_with(Envelope::MAGIC) => {
                ReceivedBytes::Message(&self.bytes)
            }
            _ => ReceivedBytes::Object(&self.bytes),
        }
    }
}

impl MirrorEvent {
    /// Creates an event.
    pub fn new(event_type: MirrorEventType, object: MirrorObject) -> Self {
        Self { event_type, object }
    }
}

impl From<MirrorEventType> for EventType {
    fn from(event_type: MirrorEventType) -> Self {
        match event_type {
            MirrorEventType::Added => Self::Added,
            MirrorEventType::Modified => Self::Modified,
            MirrorEventType::Deleted => Self::Deleted,
        }
    }
}
