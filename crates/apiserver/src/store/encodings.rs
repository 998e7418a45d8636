//! The encodings of one version of one object.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

use super::event_type::EventType;
use super::json_line::{JsonLine, Unversioned};
use super::protobuf_frame::ProtobufFrame;
use crate::plain_json;
use crate::protobuf::{self, EncodeError};

/// The number of bytes by which an object that is kept in a second encoding may be larger than the
/// allowance for it: the lengths of a large text, and the structure around the bytes.
const OVERHEAD: usize = size_of::<ProtobufFrame>() + 64;

/// The bytes of JSON that are kept for each byte of an object that is stored in protobuf. A pod has
/// 1.4; escaped text may have 6.
const JSON_PER_PROTOBUF: usize = 2;

/// The encodings of an object: the one that it is stored in, and the other one once it was
/// requested; `None` if that is not kept.
#[derive(Clone, Debug)]
pub(super) enum Encodings {
    /// Stored in JSON.
    Json(JsonLine, OnceLock<Option<Box<ProtobufFrame>>>),
    /// Stored in protobuf.
    Protobuf(ProtobufFrame, OnceLock<Option<Box<JsonLine>>>),
}

/// The positions in the bytes of a received object.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// The event type and the length of kind and API version of a line.
    Json(EventType, usize),
    /// The event type, the offset of the object and the position of its entry of a frame.
    Protobuf(EventType, usize, Range<usize>),
}

impl From<JsonLine> for Encodings {
    fn from(line: JsonLine) -> Self {
        Self::Json(line, OnceLock::new())
    }
}

impl From<ProtobufFrame> for Encodings {
    fn from(frame: ProtobufFrame) -> Self {
        Self::Protobuf(frame, OnceLock::new())
    }
}

impl Encodings {
    /// Returns the bytes that a received object is stored in, and the positions in them.
    pub(super) fn received(&self) -> (Bytes, Shape) {
        match self {
            Self::Json(line, _) => (line.line(), Shape::Json(line.event_type(), line.preamble())),
            Self::Protobuf(frame, _) => {
                let (object_at, entry) = frame.positions();
                (frame.frame(), Shape::Protobuf(frame.event_type(), object_at, entry))
            }
        }
    }

    /// Returns the received object that these bytes and positions are of.
    pub(super) fn of_received(bytes: Bytes, shape: &Shape) -> Self {
        match shape {
            Shape::Json(event_type, preamble) => JsonLine::of_line(*event_type, bytes, *preamble).into(),
            Shape::Protobuf(event_type, object_at, entry) => {
                ProtobufFrame::of_frame(*event_type, bytes, *object_at, entry.clone()).into()
            }
        }
    }

    /// Returns the same content with another version, as a deletion shows it.
    pub(super) fn deleted_at(&self, version: u64) -> Self {
        match self {
            Self::Json(line, _) => line.deleted_at(version).into(),
            Self::Protobuf(frame, _) => frame.deleted_at(version).into(),
        }
    }

    /// Returns the size in bytes of both encodings, or of the one if the kind `has_protobuf` is
    /// false. It is the same before and after the second one is made.
    pub(super) fn size(&self, has_protobuf: bool) -> usize {
        match self {
            Self::Json(line, _) => line.len() + if has_protobuf { max_protobuf(line) } else { 0 },
            Self::Protobuf(frame, _) => frame.len() + max_json(frame),
        }
    }

    /// Returns the number of bytes of the encoding that it is stored in.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Json(line, _) => line.len(),
            Self::Protobuf(frame, _) => frame.len(),
        }
    }

    /// Returns the event type that the object was encoded with.
    pub(super) fn event_type(&self) -> EventType {
        match self {
            Self::Json(line, _) => line.event_type(),
            Self::Protobuf(frame, _) => frame.event_type(),
        }
    }

    /// Returns the object in protobuf. It is encoded once for all callers.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind has no protobuf encoding, or if a value does not have the type
    /// of its field. In a received object, a field that protobuf does not have is one too.
    pub(super) fn protobuf(&self) -> Result<ProtobufFrame, EncodeError> {
        let (line, protobuf) = match self {
            Self::Json(line, protobuf) => (line, protobuf),
            Self::Protobuf(frame, _) => return Ok(frame.clone()),
        };
        let encode = || match line.is_received() {
            // A field of a newer server would be lost, and the client would not know.
            true => ProtobufFrame::encode_all(line.event_type(), &self.to_value()),
            false => ProtobufFrame::encode(line.event_type(), &self.to_value()),
        };
        let mut encoded = None;
        let kept = protobuf.get_or_init(|| {
            let frame = encode();
            let is_kept = |it: &&ProtobufFrame| it.len() <= max_protobuf(line);
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

    /// Returns the number of bytes of the entry of a list, if it is stored in protobuf.
    pub(super) fn protobuf_entry(&self) -> Option<usize> {
        match self {
            Self::Json(..) => None,
            Self::Protobuf(frame, _) => Some(frame.positions().1.len()),
        }
    }

    /// Returns true if [`Self::protobuf`] has nothing to encode.
    pub(super) fn is_in_protobuf(&self) -> bool {
        match self {
            Self::Json(_, protobuf) => protobuf.get().is_some_and(Option::is_some),
            Self::Protobuf(..) => true,
        }
    }

    /// Returns true if [`Self::line`] has nothing to encode.
    pub(super) fn is_in_json(&self) -> bool {
        match self {
            Self::Json(..) => true,
            Self::Protobuf(_, json) => json.get().is_some_and(Option::is_some),
        }
    }

    /// Returns the object in JSON, at its version. It is encoded once for all callers.
    pub(super) fn line(&self, version: u64) -> JsonLine {
        let (frame, json) = match self {
            Self::Json(line, _) => return line.clone(),
            Self::Protobuf(frame, json) => (frame, json),
        };
        let encode = || {
            let value = self.to_value();
            let members = value.as_object().expect("an object in protobuf is one in JSON");
            Unversioned::encode(members).at(frame.event_type(), version)
        };
        let mut encoded = None;
        let kept = json.get_or_init(|| {
            let line = encode();
            let kept = (line.len() <= max_json(frame)).then(|| Box::new(line.clone()));
            encoded = Some(line);
            kept
        });
        match (encoded, kept) {
            (Some(encoded), _) => encoded,
            (None, Some(kept)) => (**kept).clone(),
            (None, None) => encode(),
        }
    }

    /// Returns the object as a value.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Json(line, _) => plain_json::from_own_slice(&line.object())
                .expect("only values within the depth limit of the parser are stored"),
            Self::Protobuf(frame, _) => {
                protobuf::decode_stored(&frame.object()).expect("the message was read before it was stored")
            }
        }
    }
}

/// Returns the maximum number of bytes in protobuf that are kept of an object that is stored in
/// JSON: those of the JSON, which is larger except for objects of mostly small or negative numbers.
/// They count from the beginning, because a log subtracts the size of an object that it drops from
/// a sum it was added to before.
fn max_protobuf(line: &JsonLine) -> usize {
    line.len() + OVERHEAD
}

/// Returns the maximum number of bytes in JSON that are kept of an object that is stored in
/// protobuf; they count in the same way.
fn max_json(frame: &ProtobufFrame) -> usize {
    JSON_PER_PROTOBUF * frame.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::encoded::Draft;
    use super::*;

    #[test]
    fn protobuf_that_is_larger_than_its_json_is_not_kept() {
        let groups: Vec<_> = (0..100).map(|_| -1).collect();
        let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a", "resourceVersion": "1" },
            "spec": { "containers": [], "securityContext": { "supplementalGroups": groups } } });
        let stored = Draft::new(&pod, vec![]).expect("it has a name").at(1);
        let object = stored.protobuf().expect("a built-in kind").object();
        assert!(object.len() > stored.bytes().len() + OVERHEAD && !stored.is_in_protobuf());
        assert_eq!(stored.protobuf().expect("a built-in kind").object(), object);
        let custom = json!({ "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "a" } });
        let custom = Draft::new(&custom, vec![]).expect("it has a name").at(1);
        assert!(custom.protobuf().is_err() && custom.protobuf().is_err());
    }
}
