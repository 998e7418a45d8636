//! The errors of decoding a protobuf body.

use super::wire::Malformed;

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
    Malformed(&'static str),
}

impl From<Malformed> for ProtobufError {
    fn from(Malformed(why): Malformed) -> Self {
        Self::Malformed(why)
    }
}
