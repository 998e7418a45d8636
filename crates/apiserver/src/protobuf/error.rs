//! Why a body in protobuf cannot be read.

use super::wire::Malformed;

/// Why a body in protobuf cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// It does not begin as one does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotProtobuf,
    /// There is no such kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The version it says it is of.
        api_version: String,
        /// The kind it says it is of.
        kind: String,
    },
    /// Messages, and the JSON in them, are nested too deep.
    #[error("exceeded max depth of {limit}")]
    TooDeep {
        /// How many levels an object may have.
        limit: usize,
    },
    /// The bytes end early, or are no message.
    #[error("proto: {0}")]
    Malformed(&'static str),
}

impl From<Malformed> for ProtobufError {
    fn from(Malformed(why): Malformed) -> Self {
        Self::Malformed(why)
    }
}
