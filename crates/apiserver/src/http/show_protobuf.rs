//! Lists in protobuf, assembled from their encoded items.

use bytes::Bytes;
use serde_json::Value;

use super::pieces::Pieces;
use crate::protobuf::{self, EncodeError, Envelope};
use crate::registry::Kind;
use crate::store::Encoded;

/// A list in protobuf, while it is assembled.
#[derive(Debug)]
pub(super) struct ProtobufList {
    api_version: String,
    kind: String,
    /// The message of the list: its metadata, and then the items.
    message: Pieces,
}

impl ProtobufList {
    /// Starts a list: `list` has its kind and metadata, but no items.
    ///
    /// # Errors
    ///
    /// Returns an error if the list has no protobuf encoding.
    pub(super) fn new(list: &Value) -> Result<Self, EncodeError> {
        let text = |key: &str| list[key].as_str().unwrap_or_default().to_owned();
        let empty = Bytes::from(protobuf::encode(list)?);
        let message = Envelope::read(&empty).map(|it| empty.slice_ref(it.message)).unwrap_or_default();
        let message = Pieces::from_iter([message]);
        Ok(Self { api_version: text("apiVersion"), kind: text("kind"), message })
    }

    /// Adds a stored object, whose bytes are shared.
    ///
    /// # Errors
    ///
    /// Returns an error if it has no protobuf encoding.
    pub(super) fn add_stored(&mut self, item: &Encoded) -> Result<(), EncodeError> {
        self.message.push(item.protobuf()?.entry());
        Ok(())
    }

    /// Adds the metadata of a stored object, whose bytes are shared.
    ///
    /// # Errors
    ///
    /// Returns an error if it has no protobuf encoding.
    pub(super) fn add_stored_metadata(&mut self, item: &Encoded) -> Result<(), EncodeError> {
        self.message.extend(stored_metadata(item)?);
        Ok(())
    }

    /// Adds an object.
    ///
    /// # Errors
    ///
    /// Returns an error if it has no protobuf encoding.
    pub(super) fn add(&mut self, item: &Value) -> Result<(), EncodeError> {
        let object = Bytes::from(protobuf::encode(item)?);
        self.message.push(object.slice(protobuf::list_entry(&object).unwrap_or_default()));
        Ok(())
    }

    /// Returns the list in its envelope.
    pub(super) fn finish(self) -> Pieces {
        let (head, tail) = (self.head(0), Bytes::from_static(Envelope::TAIL));
        let mut list = Pieces::from(head);
        list.extend(self.message);
        list.push(tail);
        list
    }

    /// Returns what is before and after the entries of a list, whose total length this is.
    pub(super) fn around(self, length: usize) -> (Bytes, Bytes) {
        let mut head = Pieces::from(self.head(length));
        head.extend(self.message);
        (head.concat(), Bytes::from_static(Envelope::TAIL))
    }

    fn head(&self, length: usize) -> Vec<u8> {
        Envelope::head(&self.api_version, &self.kind, self.message.len().saturating_add(length))
    }
}

/// Returns the entry of a list with the metadata of a stored object, whose bytes are shared.
///
/// # Errors
///
/// Returns an error if it has no protobuf encoding.
pub(super) fn stored_metadata(item: &Encoded) -> Result<Pieces, EncodeError> {
    let metadata = item.protobuf()?.metadata().unwrap_or_default();
    Ok(Pieces::from_iter([Bytes::from(protobuf::entry_head(metadata.len())), metadata]))
}

/// Returns true if the metadata of objects of a kind is in their encodings: custom resources have
/// none in protobuf, and some kinds hide an annotation.
pub(super) fn has_stored_metadata(kind: &Kind) -> bool {
    !kind.def.custom && kind.rules.internal_annotation.is_none()
}
