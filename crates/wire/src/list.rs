//! Lists, decoded item by item while the body arrives.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bad_item::UndecodableItem;
use crate::body::{EncodedObject, JsonListSplitter, ProtobufListSplitter};
use crate::error::ListError;
use crate::fields::Fields;
use crate::list_meta::ListMeta;

/// The default limit of the size of an item: more than etcd can store.
const ITEM_LIMIT: usize = 16 * 1024 * 1024;

/// Decodes the chunks of a response body into the items of a list, one by one.
///
/// Items come out in the order of the list, each as soon as its last byte has arrived. The decoder
/// holds at most one incomplete item at a time, never the body. An item that cannot be decoded is
/// reported in its place, and decoding continues with the next one.
///
/// Fields that `T` does not ask for are skipped: only their brackets and quotes are checked.
/// Everything that `T` reads is checked in full.
///
/// After an error every further call returns it again; the items before it are valid. Only
/// [`Self::finish`] reports whether the list was complete: a caller must not conclude anything from
/// missing items before that.
#[derive(Debug)]
pub struct ListDecoder<T> {
    splitter: Splitter,
    fields: Fields,
    /// The first error, which every later call returns.
    failed: Option<ListError>,
    item: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum Splitter {
    Json(JsonListSplitter),
    Protobuf(ProtobufListSplitter),
}

impl<T: DeserializeOwned> ListDecoder<T> {
    /// Creates a decoder of a JSON list.
    pub fn json() -> Self {
        Self::new(Splitter::Json(JsonListSplitter::new(ITEM_LIMIT)))
    }

    /// Creates a decoder of a protobuf list, `application/vnd.kubernetes.protobuf`.
    ///
    /// The items have the same fields as in JSON. [`has_protobuf`](crate::has_protobuf) returns
    /// whether a kind has a protobuf encoding.
    pub fn protobuf() -> Self {
        Self::new(Splitter::Protobuf(ProtobufListSplitter::new(ITEM_LIMIT)))
    }

    fn new(splitter: Splitter) -> Self {
        Self { splitter, fields: Fields::default(), failed: None, item: PhantomData }
    }

    /// Sets which fields of the items are skipped. Defaults to managed fields. Must be called
    /// before the first chunk.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        Self { fields, ..self }
    }

    /// Sets the maximal size of an item in bytes. Defaults to 16 MiB. Must be called before the
    /// first chunk.
    #[must_use]
    pub fn item_limit(self, bytes: usize) -> Self {
        let splitter = match self.splitter {
            Splitter::Json(_) => Splitter::Json(JsonListSplitter::new(bytes)),
            Splitter::Protobuf(_) => Splitter::Protobuf(ProtobufListSplitter::new(bytes)),
        };
        Self { splitter, ..self }
    }

    /// Processes the next chunk of the body, of any size, and passes every completed item to
    /// `sink`.
    ///
    /// # Errors
    /// Returns an error if the body is not a list. Items that were completed before have been
    /// passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Result<T, UndecodableItem>),
    ) -> Result<(), ListError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let fields = self.fields;
        let mut sink = |item: Result<EncodedObject<'_>, _>| sink(item.and_then(|it| it.decode(fields)));
        let result = match &mut self.splitter {
            Splitter::Json(splitter) => splitter.feed(chunk, &mut sink),
            Splitter::Protobuf(splitter) => splitter.feed(chunk, &mut sink),
        };
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Ends the list, after the last chunk of the body.
    ///
    /// # Errors
    /// Returns an error if the body was truncated, or is a `Status` or anything else than a list,
    /// or if [`Self::feed`] failed before.
    pub fn finish(self) -> Result<ListMeta, ListError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.splitter {
            Splitter::Json(splitter) => splitter.finish(),
            Splitter::Protobuf(splitter) => splitter.finish(),
        }
    }
}
