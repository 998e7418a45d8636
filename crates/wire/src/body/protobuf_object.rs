//! One object in protobuf: its message, and the report if it cannot be decoded.

use dogwatch_core::{ObjectKey, ResourceVersion};

use crate::bad_item::UndecodableItem;
use crate::fields::{Fields as ObjectFields, Role};
use crate::protobuf::{Cursor, Envelope, Fields, Schema, canonical};
use crate::read_error::ReadError;
use crate::reader::Reader;

/// The field numbers of the metadata of an object, and of the parts of the metadata that identify
/// it.
const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const RESOURCE_VERSION: u32 = 6;

/// An object: its message, and its API version and kind if it has an envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageObject<'a> {
    message: u16,
    bytes: &'a [u8],
    types: Option<(&'a str, &'a str)>,
}

impl<'a> MessageObject<'a> {
    /// Returns an object without an envelope.
    pub(super) fn new(message: u16, bytes: &'a [u8]) -> Self {
        Self { message, bytes, types: None }
    }

    /// Sets the API version and the kind.
    pub(super) fn with_types(self, types: Option<(&'a str, &'a str)>) -> Self {
        Self { types, ..self }
    }

    /// Reads the envelope of an object.
    ///
    /// # Errors
    /// Returns an error if there is no envelope, or if its kind is unknown.
    pub(super) fn enveloped(body: &'a [u8]) -> Result<Self, UndecodableItem> {
        let Envelope { api_version, kind, message: bytes } = Envelope::read(body)?;
        let Some(message) = Schema::get().of_kind(api_version, kind) else {
            let reason = format!("the kind {kind:?} of {api_version:?} is unknown in protobuf");
            return Err(report(bytes, String::new(), reason));
        };
        Ok(Self { message, bytes, types: Some((api_version, kind)) })
    }

    /// Returns a reader of the object.
    pub(super) fn reader(self, fields: ObjectFields) -> Reader<'a> {
        let role = Role::of_object(fields);
        let cursor = Cursor::new(self.message, self.bytes, role, self.types);
        Reader::protobuf(cursor.known_only(fields.is_known_only()))
    }

    /// Returns the message of the object with its fields in the order in which they can be read.
    ///
    /// # Errors
    /// Returns an error if the message is malformed.
    #[cold]
    pub(super) fn canonical(self) -> Result<Vec<u8>, UndecodableItem> {
        canonical(Schema::get(), self.message, self.bytes).map_err(|error| self.failed(error))
    }

    /// Returns the same object with another encoding of its message.
    pub(super) fn with_bytes<'b>(self, bytes: &'b [u8]) -> MessageObject<'b>
    where
        'a: 'b,
    {
        MessageObject { bytes, ..self }
    }

    /// Reports an error of reading the object.
    #[cold]
    pub(super) fn failed(self, error: ReadError) -> UndecodableItem {
        report(self.bytes, error.path(), error.reason(0))
    }

    /// Reports a problem of the object.
    #[cold]
    pub(super) fn report(self, reason: String) -> UndecodableItem {
        report(self.bytes, String::new(), reason)
    }
}

/// Creates a report with as much of the identity of an object as can be read.
pub(super) fn report(object: &[u8], path: String, reason: String) -> UndecodableItem {
    let (key, version) = identity(object);
    UndecodableItem { key, version, event: None, path, reason }
}

fn identity(object: &[u8]) -> (Option<ObjectKey>, ResourceVersion) {
    let (mut name, mut namespace, mut version) = ("", None, ResourceVersion::default());
    let mut metadata = Fields::new(field(object, METADATA).unwrap_or_default());
    while let Ok(Some((number, raw))) = metadata.next() {
        let Ok(text) = raw.text() else { continue };
        match number {
            NAME => name = text,
            NAMESPACE if !text.is_empty() => namespace = Some(text),
            RESOURCE_VERSION => version = ResourceVersion::from(text),
            _ => {}
        }
    }
    (ObjectKey::from_parts(namespace, name).ok(), version)
}

/// Returns the bytes of the first field with this number.
fn field(message: &[u8], number: u32) -> Option<&[u8]> {
    let mut fields = Fields::new(message);
    while let Ok(Some((next, raw))) = fields.next() {
        if next == number {
            return raw.bytes().ok();
        }
    }
    None
}
