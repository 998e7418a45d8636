//! Objects of another server: stored in the encoding in which they arrived, without decoding them.

use std::sync::Arc;

use serde_json::Value;

use super::attributes::{Attributes, SelectableField};
use super::encoded::Encoded;
use super::event_type::EventType;
use super::json_line::JsonLine;
use super::picked::Paths;
use super::protobuf_frame::ProtobufFrame;
use crate::protobuf::Envelope;

/// An object of another server: JSON, or protobuf in its envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    /// The bytes of the object.
    pub bytes: &'a [u8],
    /// The kind of the resource.
    pub kind: &'a str,
    /// The API version of the resource.
    pub api_version: &'a str,
}

/// The reason that an object of another server cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be stored: {reason}", if name.is_empty() { "an object without a readable name" } else { name })]
pub(crate) struct NotStored {
    /// The key of the object; empty if it cannot be read.
    pub name: String,
    /// A description of the problem.
    pub reason: String,
    /// True if the object can be stored in JSON: its message has a field that is not known here.
    pub is_unknown_field: bool,
}

impl Received<'_> {
    /// Reads the parts of the object that are needed to store it, and stores its bytes as those of
    /// an event. `paths` has the parts that `fields` depends on, which returns the selectable
    /// fields.
    ///
    /// # Errors
    ///
    /// Returns an error if the object is malformed, is of another kind, or has no name or version.
    pub(crate) fn store(
        self,
        event_type: EventType,
        paths: &Paths,
        fields: impl FnOnce(&Value) -> Vec<SelectableField>,
    ) -> Result<Encoded, NotStored> {
        let mut picked = paths.pick(self.bytes).map_err(|bad| NotStored {
            name: bad.key.as_ref().map(ToString::to_string).unwrap_or_default(),
            is_unknown_field: bad.is_unknown_field(),
            reason: if bad.path.is_empty() { bad.reason } else { format!("{}: {}", bad.path, bad.reason) },
        })?;
        let refuse = |picked: &Value, reason: String| {
            let name = ["/metadata/namespace", "/metadata/name"]
                .map(|it| picked.pointer(it).and_then(Value::as_str).unwrap_or_default())
                .join("/");
            Err(NotStored { name: name.trim_start_matches('/').to_owned(), reason, is_unknown_field: false })
        };
        let is_bare = picked.get("kind").is_none() && picked.get("apiVersion").is_none();
        for (member, expected) in [("kind", self.kind), ("apiVersion", self.api_version)] {
            match picked.get(member) {
                None => picked[member] = expected.into(),
                Some(found) if found == expected => {}
                Some(found) => {
                    return refuse(&picked, format!("its {member} is {found} and not {expected:?}"));
                }
            }
        }
        let version = picked.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let Some(version) = version.and_then(|it| it.parse().ok()) else {
            return refuse(&picked, "its resourceVersion is not a number".to_owned());
        };
        let fields = fields(&picked);
        let Some(attributes) = Attributes::of(&picked, fields) else {
            return refuse(&picked, "it has no name to store it under".to_owned());
        };
        let attributes = Arc::new(attributes);
        Ok(match Envelope::read(self.bytes) {
            Ok(envelope) => {
                let frame =
                    ProtobufFrame::of_message(event_type, self.api_version, self.kind, envelope.message);
                Encoded::new(version, attributes, frame.into())
            }
            Err(_) => {
                let types = (self.kind, self.api_version);
                let line = JsonLine::of_object(event_type, self.bytes.trim_ascii(), types, is_bare);
                Encoded::new(version, attributes, line.into())
            }
        })
    }
}
