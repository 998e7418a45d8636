//! Protobuf bodies, decoded into the same values as JSON and encoded from them: Go's typed clients
//! send and receive built-in objects this way (k8s.io/apimachinery v0.36.4
//! pkg/runtime/serializer/protobuf/protobuf.go).

pub use dogwatch_wire::{
    EncodeError, Envelope, entry_head, has_protobuf, list_entry, metadata_message, watch_head,
};

use dogwatch_wire::{Fields, UndecodableItem};
use serde_json::Value;

use crate::depth;
use crate::kinds::shape;

/// An object decoded from protobuf.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The API version in its envelope.
    pub api_version: String,
    /// The kind in its envelope.
    pub kind: String,
    /// The object, including API version and kind.
    pub value: Value,
}

/// An error of decoding a protobuf body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The prefix is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotProtobuf,
    /// The kind is unknown.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The API version in the envelope.
        api_version: String,
        /// The kind in the envelope.
        kind: String,
    },
    /// Messages, and the JSON in them, are nested too deeply.
    #[error("exceeded max depth of {limit}")]
    TooDeep {
        /// The maximum depth of an object.
        limit: usize,
    },
    /// The bytes end early, or are not a message.
    #[error("proto: {0}")]
    Malformed(String),
}

/// Decodes a body: the envelope, and the object in it.
///
/// # Errors
///
/// Returns an error if the body is not protobuf, is of an unknown kind, is malformed, or is nested
/// too deeply.
pub fn decode(body: &[u8]) -> Result<Object, ProtobufError> {
    if !body.starts_with(Envelope::MAGIC) {
        return Err(ProtobufError::NotProtobuf);
    }
    let envelope = Envelope::read(body).map_err(|error| ProtobufError::Malformed(error.reason))?;
    let (api_version, kind) = (envelope.api_version.to_owned(), envelope.kind.to_owned());
    if !has_protobuf(&api_version, &kind) {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    }
    let too_deep = ProtobufError::TooDeep { limit: depth::OBJECT };
    match dogwatch_wire::from_protobuf(body, Fields::default().keep_managed_fields()) {
        Ok(value) if depth::is_exceeded_by(&value) => Err(too_deep),
        Ok(value) => Ok(Object { api_version, kind, value }),
        Err(bad) if bad.is_too_deep() => Err(too_deep),
        Err(bad) => Err(ProtobufError::Malformed(bad.reason)),
    }
}

/// Decodes an object in its envelope that was checked before, whatever its depth. It has the
/// members that are in JSON even if they are empty, as Go writes a decoded object: a time that is
/// not set is null, and not absent.
///
/// # Errors
///
/// Returns an error if the object cannot be read at all.
pub fn decode_stored(body: &[u8]) -> Result<Value, ProtobufError> {
    let malformed = |bad: UndecodableItem| ProtobufError::Malformed(bad.reason);
    let envelope = Envelope::read(body).map_err(malformed)?;
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", envelope.api_version));
    let mut value: Value =
        dogwatch_wire::from_protobuf(body, Fields::default().keep_managed_fields()).map_err(malformed)?;
    if let Some(object) = value.as_object_mut() {
        shape::apply(group, version, envelope.kind, object);
    }
    Ok(value)
}

/// Encodes an object, or any other value with an API version and a kind, in its envelope.
///
/// # Errors
///
/// Returns an error if the kind has no protobuf encoding, as custom kinds, or if a value does not
/// have the type of its field.
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    dogwatch_wire::value_to_protobuf(object)
}
