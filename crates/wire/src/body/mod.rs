//! The bodies of responses: one object, a list, or a watch, in each encoding.
//!
//! A splitter knows the structure between the objects and holds at most one incomplete object. It
//! passes each object on before it is decoded, so that only [`EncodedObject::decode`] depends on
//! the type of the objects.

mod json_object;
mod protobuf_object;
mod encoded;
mod json_list;
mod json_watch;
mod protobuf_list;
mod protobuf_watch;

use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::bad_item::UndecodableItem;
use crate::fields::Fields;
use crate::json::trim;
use crate::protobuf::{self, Envelope};
use crate::read_error::ReadError;

pub(crate) use encoded::{EncodedEvent, EncodedObject};
pub(crate) use json_list::JsonListSplitter;
pub(crate) use json_watch::JsonWatchSplitter;
pub(crate) use protobuf_list::ProtobufListSplitter;
pub(crate) use protobuf_watch::ProtobufWatchSplitter;

/// Decodes a JSON body that is one object.
pub(crate) fn decode_json<T: DeserializeOwned>(body: &[u8], fields: Fields) -> Result<T, UndecodableItem> {
    json_object::with_body(body, |position| EncodedObject::Json(position).decode(fields))
}

/// Decodes a protobuf message: one object without its envelope, and its API version and kind.
pub(crate) fn decode_message<T: DeserializeOwned>(
    message: u16,
    bytes: &[u8],
    types: Option<(&str, &str)>,
    fields: Fields,
) -> Result<T, UndecodableItem> {
    let object = protobuf_object::MessageObject::new(message, bytes).with_types(types);
    EncodedObject::Protobuf(object).decode(fields)
}

/// Decodes a protobuf body that is one object in its envelope.
pub(crate) fn decode_protobuf<T: DeserializeOwned>(
    body: &[u8],
    fields: Fields,
) -> Result<T, UndecodableItem> {
    EncodedObject::Protobuf(protobuf_object::MessageObject::enveloped(body)?).decode(fields)
}

/// Decodes a body that is one object as a seed does: protobuf if it starts with the bytes of an
/// envelope, or else JSON.
pub(crate) fn decode_with<S, T>(body: &[u8], fields: Fields, seed: S) -> Result<T, UndecodableItem>
where
    S: Copy + for<'de> DeserializeSeed<'de, Value = T>,
{
    if body.starts_with(Envelope::MAGIC) {
        EncodedObject::Protobuf(protobuf_object::MessageObject::enveloped(body)?).decode_with(fields, seed)
    } else {
        json_object::with_body(body, |position| EncodedObject::Json(position).decode_with(fields, seed))
    }
}

/// Returns a body that is one object, in either encoding, with another resource version.
pub(crate) fn with_version(body: &[u8], version: &str) -> Result<Vec<u8>, UndecodableItem> {
    if body.starts_with(Envelope::MAGIC) {
        let Envelope { api_version, kind, message } = Envelope::read(body)?;
        let failed = |error: ReadError| protobuf_object::report(message, String::new(), error.reason(0));
        let message = protobuf::with_version(message, version).map_err(failed)?;
        return Ok([&Envelope::head(api_version, kind, message.len())[..], &message, Envelope::TAIL].concat());
    }
    let body = trim(body);
    json_object::with_body(body, |position| {
        let mut cursor = position.cursor();
        let place =
            cursor.resource_version().map_err(|error| position.report(String::new(), error.reason(0)))?;
        let Some(place) = place else {
            return Err(position.report("metadata".to_owned(), "there is no resourceVersion".to_owned()));
        };
        let (before, after) = (&body[..place.start], &body[place.end..]);
        Ok([before, b"\"", version.as_bytes(), b"\"", after].concat())
    })
}
