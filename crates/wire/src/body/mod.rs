//! The bodies of responses: one object, a list, or a watch, in each encoding.
//!
//! A splitter knows the structure between the objects and holds at most one incomplete object. It
//! passes each object on before it is decoded, so that only [`EncodedObject::decode`] depends on the
//! type of the objects.

mod json_object;
mod protobuf_object;
mod encoded;
mod json_list;
mod json_watch;
mod protobuf_list;
mod protobuf_watch;

use serde::de::DeserializeOwned;

use crate::bad_item::UndecodableItem;
use crate::fields::Fields;

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
