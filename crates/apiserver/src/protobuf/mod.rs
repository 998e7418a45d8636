//! Bodies in protobuf, read into the same values as JSON: typed clients of the original send built-in objects this way.
//!
//! Only requests are read; answers are JSON, which such clients accept too. The table of messages is data, and parsed the
//! first time somebody sends protobuf.
//!
//! The `mod` lines below are in layer order.

mod table;
mod wire;
mod message;

use serde_json::Value;

use table::Table;
use wire::{Malformed, Reader};

/// What every body in protobuf begins with.
const MAGIC: &[u8] = b"k8s\0";

/// An object that came in protobuf.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it says it is: the version.
    pub api_version: String,
    /// What it says it is: the kind.
    pub kind: String,
    /// The object, with both in it.
    pub value: Value,
}

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
    /// The bytes end early, or are no message.
    #[error("proto: {0}")]
    Malformed(&'static str),
}

/// Reads a body: the envelope, and the object in it.
///
/// # Errors
/// When it is not protobuf, of no known kind, or malformed.
pub fn decode(body: &[u8]) -> Result<Object, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NotProtobuf)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut fields = Reader::new(envelope);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => {
                let mut names = Reader::new(field.bytes()?);
                while let Some((number, field)) = names.next()? {
                    match number {
                        1 => api_version = field.text()?,
                        2 => kind = field.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = field.bytes()?,
            _ => {}
        }
    }
    let table = Table::get();
    let unknown = || ProtobufError::UnknownKind { api_version: api_version.clone(), kind: kind.clone() };
    let message = table.of_kind(&api_version, &kind).ok_or_else(unknown)?;
    let mut value = message::decode(table, message, raw)?;
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.as_str().into());
        map.insert("kind".to_owned(), kind.as_str().into());
    }
    Ok(Object { api_version, kind, value })
}

impl From<Malformed> for ProtobufError {
    fn from(Malformed(why): Malformed) -> Self {
        Self::Malformed(why)
    }
}
