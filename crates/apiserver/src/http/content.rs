//! The content of a response, in JSON or in protobuf.

use serde_json::Value;

use super::document::Produce;
use super::pieces::Pieces;
use crate::ApiError;
use crate::plain_json;
use crate::protobuf::{self, EncodeError};
use crate::request::Encoding;

/// The content of a response.
#[derive(Debug)]
pub(super) enum Content {
    /// JSON without spaces between its tokens, from which YAML and indented JSON are made.
    Json(Pieces),
    /// Protobuf in its envelope.
    Protobuf(Pieces),
    /// A document in this encoding that is made while it is sent. JSON is not indented.
    Streamed(Encoding, Box<dyn Produce>),
}

impl Content {
    /// Encodes a value: as protobuf if that is the negotiated encoding, otherwise as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the value has no protobuf encoding.
    pub(super) fn of(value: &Value, encoding: Encoding) -> Result<Self, EncodeError> {
        Ok(match encoding {
            Encoding::Protobuf => Self::Protobuf(Pieces::from(protobuf::encode(value)?)),
            _ => Self::Json(Pieces::from(value.to_string().into_bytes())),
        })
    }
}

/// Returns JSON in protobuf.
///
/// # Errors
///
/// Returns an error if it has no protobuf encoding.
pub(super) fn in_protobuf(json: Pieces) -> Result<Pieces, EncodeError> {
    let value = plain_json::from_own_slice(&json.concat()).unwrap_or_default();
    Ok(Pieces::from(protobuf::encode(&value)?))
}

impl From<Pieces> for Content {
    fn from(json: Pieces) -> Self {
        Self::Json(json)
    }
}

/// Returns the 500 response for an object that cannot be encoded.
pub(super) fn unencodable(error: &EncodeError) -> ApiError {
    ApiError::internal(error.to_string())
}
