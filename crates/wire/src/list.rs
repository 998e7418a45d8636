//! Lists, decoded item by item while the body arrives.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bad_item::UndecodableItem;
use crate::error::ListError;
use crate::fields::Fields;
use crate::json::ListSplitter;
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
    splitter: ListSplitter,
    limit: usize,
    fields: Fields,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ListDecoder<T> {
    /// Creates a decoder of a JSON list.
    pub fn json() -> Self {
        let (limit, fields) = (ITEM_LIMIT, Fields::default());
        Self { splitter: ListSplitter::new(limit, fields), limit, fields, item: PhantomData }
    }

    /// Sets which fields of the items are skipped. Defaults to managed fields. Must be called
    /// before the first chunk.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        Self { splitter: ListSplitter::new(self.limit, fields), fields, ..self }
    }

    /// Sets the maximal size of an item in bytes. Defaults to 16 MiB. Must be called before the
    /// first chunk.
    #[must_use]
    pub fn item_limit(self, bytes: usize) -> Self {
        Self { splitter: ListSplitter::new(bytes, self.fields), limit: bytes, ..self }
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
        self.splitter.feed(chunk, &mut sink)
    }

    /// Ends the list, after the last chunk of the body.
    ///
    /// # Errors
    /// Returns an error if the body was truncated, or is a `Status` or anything else than a list,
    /// or if [`Self::feed`] failed before.
    pub fn finish(self) -> Result<ListMeta, ListError> {
        self.splitter.finish()
    }
}
