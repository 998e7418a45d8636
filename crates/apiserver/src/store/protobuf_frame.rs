//! One version of one object in protobuf.
//!
//! As in JSON, the object is stored as the frame of a watch event. The object in its envelope,
//! which is the response to a read, and its entry in a list are slices of the frame:
//!
//! ```text
//! length of the event │ event type │ k8s\0 │ kind │ message │ end of the envelope
//!                                    ╰─────── object ───────────────────────────╯
//!                                                 ╰ entry ╯
//! ```

use std::ops::Range;

use bytes::Bytes;
use dogwatch_wire::{to_protobuf, with_resource_version};
use serde_json::Value;

use super::event_type::EventType;
use crate::protobuf::{self, EncodeError, Envelope};

/// One version of one object in protobuf. A clone shares the bytes.
#[derive(Clone, Debug)]
pub struct ProtobufFrame {
    /// The event type in `frame`.
    event_type: EventType,
    /// The frame of a watch event, which ends with the object in its envelope.
    frame: Bytes,
    /// The offset in `frame` of the object.
    object_at: usize,
    /// The offsets in `frame` of the entry.
    entry: Range<usize>,
}

impl ProtobufFrame {
    /// Encodes an object, with the event type of most of the events that it is sent in.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind has no protobuf encoding, or if a value does not have the type
    /// of its field.
    pub fn encode(event_type: EventType, object: &Value) -> Result<Self, EncodeError> {
        Ok(Self::of_object(event_type, protobuf::encode(object)?))
    }

    /// Encodes an object like [`Self::encode`]. A field that protobuf does not have is an error
    /// instead of being left out.
    ///
    /// # Errors
    ///
    /// As [`Self::encode`].
    pub(super) fn encode_all(event_type: EventType, object: &Value) -> Result<Self, EncodeError> {
        Ok(Self::of_object(event_type, to_protobuf(object)?))
    }

    fn of_object(event_type: EventType, object: Vec<u8>) -> Self {
        let head = protobuf::watch_head(event_type.as_str(), object.len());
        let object_at = head.len();
        let entry = protobuf::list_entry(&object).unwrap_or_default();
        let entry = entry.start + object_at..entry.end + object_at;
        Self { event_type, frame: Bytes::from([head, object].concat()), object_at, entry }
    }

    /// Wraps the message of an object of another server.
    pub(super) fn of_message(event_type: EventType, api_version: &str, kind: &str, message: &[u8]) -> Self {
        let head = Envelope::head(api_version, kind, message.len());
        let entry_head = protobuf::entry_head(message.len()).len();
        let length = head.len() + message.len() + Envelope::TAIL.len();
        let watch_head = protobuf::watch_head(event_type.as_str(), length);
        let object_at = watch_head.len();
        let message_at = object_at + head.len();
        Self {
            event_type,
            frame: Bytes::from([&watch_head[..], &head, message, Envelope::TAIL].concat()),
            object_at,
            entry: message_at - entry_head..message_at + message.len(),
        }
    }

    /// Wraps a frame, with the offset of the object and the position of its entry.
    pub(super) fn of_frame(
        event_type: EventType,
        frame: Bytes,
        object_at: usize,
        entry: Range<usize>,
    ) -> Self {
        Self { event_type, frame, object_at, entry }
    }

    /// Returns the frame.
    pub(super) fn frame(&self) -> Bytes {
        self.frame.clone()
    }

    /// Returns the offset of the object in the frame, and the position of its entry.
    pub(super) fn positions(&self) -> (usize, Range<usize>) {
        (self.object_at, self.entry.clone())
    }

    /// Returns the same content with another version, as a deletion shows it.
    pub(super) fn deleted_at(&self, version: u64) -> Self {
        let object = self.object();
        // The message was read before it was stored.
        let object = with_resource_version(&object, &version.to_string()).map_or(object, Bytes::from);
        let envelope = Envelope::read(&object).unwrap_or_default();
        Self::of_message(EventType::Deleted, envelope.api_version, envelope.kind, envelope.message)
    }

    /// Returns the event type that the object was encoded with.
    pub(super) fn event_type(&self) -> EventType {
        self.event_type
    }

    /// Returns the object in its envelope.
    pub fn object(&self) -> Bytes {
        self.frame.slice(self.object_at..)
    }

    /// Returns the object as the entry of a list of its kind.
    pub fn entry(&self) -> Bytes {
        self.frame.slice(self.entry.clone())
    }

    /// Returns the message of its metadata alone; `None` if the object has none.
    pub fn metadata(&self) -> Option<Bytes> {
        let object = self.object();
        protobuf::metadata_message(&object).map(|it| object.slice(it))
    }

    /// Writes the frame of a watch event of this type. It is one piece for the event type that the
    /// object was encoded with, and two for others.
    pub fn write_event(&self, event_type: EventType, out: &mut impl Extend<Bytes>) {
        if event_type == self.event_type {
            out.extend([self.frame.clone()]);
        } else {
            let object = self.object();
            let head = protobuf::watch_head(event_type.as_str(), object.len());
            out.extend([Bytes::from(head), object]);
        }
    }

    /// Returns the number of bytes of the frame.
    pub(super) fn len(&self) -> usize {
        self.frame.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_of_any_type_contains_the_same_object() {
        let object = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" } });
        let stored = ProtobufFrame::encode(EventType::Modified, &object).expect("a built-in kind");
        assert_eq!(protobuf::decode(&stored.object()).expect("protobuf").value, object);
        for event_type in [EventType::Added, EventType::Modified, EventType::Deleted] {
            let mut pieces = Vec::new();
            stored.write_event(event_type, &mut pieces);
            let encoded = ProtobufFrame::encode(event_type, &object).expect("a built-in kind");
            assert_eq!(pieces.concat(), encoded.frame, "{event_type:?}");
        }
        assert_eq!(stored.entry(), [&[0x12, 5][..], &[0x0a, 3, 0x0a, 1, b'a']].concat());
        assert_eq!(stored.metadata().as_deref(), Some(&[0x0a, 3, 0x0a, 1, b'a'][..]));
    }
}
