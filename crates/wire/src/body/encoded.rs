//! One object in a body, in either encoding.

use std::marker::PhantomData;

use dogwatch_core::{Reason, Status};
use serde::de::{DeserializeOwned, DeserializeSeed};

use super::json_object::ObjectPosition;
use super::protobuf_object::MessageObject;
use crate::bad_item::UndecodableItem;
use crate::event::{Bookmark, EventKind, WatchEvent};
use crate::fields::{Fields, Role};

/// An object that has not been decoded yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EncodedObject<'a> {
    Json(ObjectPosition<'a>),
    Protobuf(MessageObject<'a>),
}

/// An event of a watch whose object has not been decoded yet.
#[derive(Debug)]
pub(crate) enum EncodedEvent<'a> {
    Added(EncodedObject<'a>),
    Modified(EncodedObject<'a>),
    Deleted(EncodedObject<'a>),
    Bookmark(Bookmark),
    Error(Status),
}

/// Receives the items of a list, or the report of one that cannot be decoded.
pub(crate) type ItemSink<'s> = &'s mut dyn FnMut(Result<EncodedObject<'_>, UndecodableItem>);

/// Receives the events of a watch, or the report of one that cannot be decoded.
pub(crate) type EventSink<'s> = &'s mut dyn FnMut(Result<EncodedEvent<'_>, UndecodableItem>);

impl EncodedObject<'_> {
    /// Decodes the object. This function is compiled for every type; it does no more than it must.
    ///
    /// # Errors
    /// Returns an error with the path of the problem if the object does not match the type.
    pub(crate) fn decode<T: DeserializeOwned>(self, fields: Fields) -> Result<T, UndecodableItem> {
        self.decode_with(fields, PhantomData::<T>)
    }

    /// Decodes the object as a seed does. A message whose fields are out of order is decoded again.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub(crate) fn decode_with<S, T>(self, fields: Fields, seed: S) -> Result<T, UndecodableItem>
    where
        S: Copy + for<'de> DeserializeSeed<'de, Value = T>,
    {
        let mut rewritten = None;
        loop {
            let object = self.or_rewritten(rewritten.as_deref());
            let mut reader = match object {
                EncodedObject::Json(position) => position.reader(Role::of_object(fields)),
                EncodedObject::Protobuf(message) => message.reader(fields),
            };
            match (seed.deserialize(&mut reader), object) {
                (Ok(value), EncodedObject::Json(position)) => {
                    return position.check_end(&reader).map(|()| value);
                }
                (Ok(value), EncodedObject::Protobuf(_)) => return Ok(value),
                (Err(error), EncodedObject::Json(position)) => return Err(position.failed(&reader, error)),
                (Err(error), EncodedObject::Protobuf(message)) => {
                    if !error.is_disordered() || rewritten.is_some() {
                        return Err(message.failed(error));
                    }
                    rewritten = Some(message.canonical()?);
                }
            }
        }
    }

    fn or_rewritten<'b>(self, rewritten: Option<&'b [u8]>) -> EncodedObject<'b>
    where
        Self: 'b,
    {
        match (self, rewritten) {
            (Self::Protobuf(message), Some(bytes)) => EncodedObject::Protobuf(message.with_bytes(bytes)),
            (object, _) => object,
        }
    }

    /// Decodes the status of an error event. The watch is over even if the status cannot be
    /// decoded.
    pub(super) fn status(self) -> Status {
        self.decode(Fields::default()).unwrap_or_else(|bad| undecodable_status(&bad))
    }
}

/// Returns the status for an error event without a status that can be decoded.
pub(super) fn undecodable_status(bad: &UndecodableItem) -> Status {
    let message = format!("the watch ended with an error that is not a status: {}", bad.reason);
    Status::failure(Reason::InternalError, message)
}

impl<'a> EncodedEvent<'a> {
    /// Creates an event with this object.
    ///
    /// # Errors
    /// Returns an error if a bookmark cannot be decoded.
    pub(super) fn new(kind: EventKind, object: EncodedObject<'a>) -> Result<Self, UndecodableItem> {
        Ok(match kind {
            EventKind::Added => Self::Added(object),
            EventKind::Modified => Self::Modified(object),
            EventKind::Deleted => Self::Deleted(object),
            EventKind::Bookmark => Self::Bookmark(
                object
                    .decode(Fields::default())
                    .map_err(|bad| UndecodableItem { event: Some(EventKind::Bookmark), ..bad })?,
            ),
            EventKind::Error => Self::Error(object.status()),
        })
    }

    /// Decodes the object of the event.
    ///
    /// # Errors
    /// Returns an error with the path of the problem if the object does not match the type.
    pub(crate) fn decode<T: DeserializeOwned>(
        self,
        fields: Fields,
    ) -> Result<WatchEvent<T>, UndecodableItem> {
        let (kind, object) = match self {
            Self::Added(object) => (EventKind::Added, object),
            Self::Modified(object) => (EventKind::Modified, object),
            Self::Deleted(object) => (EventKind::Deleted, object),
            Self::Bookmark(bookmark) => return Ok(WatchEvent::Bookmark(bookmark)),
            Self::Error(status) => return Ok(WatchEvent::Error(status)),
        };
        match (object.decode(fields), kind) {
            (Ok(object), EventKind::Added) => Ok(WatchEvent::Added(object)),
            (Ok(object), EventKind::Deleted) => Ok(WatchEvent::Deleted(object)),
            (Ok(object), _) => Ok(WatchEvent::Modified(object)),
            (Err(bad), kind) => Err(UndecodableItem { event: Some(kind), ..bad }),
        }
    }
}
