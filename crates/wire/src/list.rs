//! Lists, decoded item by item while the body arrives.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bad_item::BadItem;
use crate::error::ListError;
use crate::fields::Fields;
use crate::json::ListSplitter;
use crate::list_meta::ListMeta;

/// How large one item may be unless said otherwise: more than etcd lets anyone store.
const ITEM_LIMIT: usize = 16 * 1024 * 1024;

/// Turns the chunks of a response body into the items of a list, one by one.
///
/// Items come out in the order of the list, each as soon as its last byte is in. At any time the decoder holds at
/// most one item that is not complete yet, never the body. An item that cannot be decoded is
/// reported in its turn, and the next one still comes.
///
/// What `T` does not ask for is passed over unread: of those parts only the brackets and quotes are
/// checked. Everything `T` reads is checked in full.
///
/// After an error every further call repeats it; the items before it stand. Only [`Self::finish`] tells whether the list
/// was whole: a caller must not act on what is missing from a list before that.
#[derive(Debug)]
pub struct ListDecoder<T> {
    splitter: ListSplitter,
    limit: usize,
    fields: Fields,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ListDecoder<T> {
    /// Decodes a JSON list.
    pub fn json() -> Self {
        let (limit, fields) = (ITEM_LIMIT, Fields::default());
        Self { splitter: ListSplitter::new(limit, fields), limit, fields, item: PhantomData }
    }

    /// Says what to leave out of the items. Unless called, their managed fields. To be called before the first chunk.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        Self { splitter: ListSplitter::new(self.limit, fields), fields, ..self }
    }

    /// Refuses items larger than this. Unless called, 16 MiB. To be called before the first chunk.
    #[must_use]
    pub fn item_limit(self, bytes: usize) -> Self {
        Self { splitter: ListSplitter::new(bytes, self.fields), limit: bytes, ..self }
    }

    /// Takes the next chunk of the body, of any size, and hands every item it completes to `sink`.
    ///
    /// # Errors
    /// When the body is found to be no list. Items that were completed before that have been handed over.
    pub fn feed(&mut self, chunk: &[u8], mut sink: impl FnMut(Result<T, BadItem>)) -> Result<(), ListError> {
        self.splitter.feed(chunk, &mut sink)
    }

    /// Ends the list: the body has no more chunks.
    ///
    /// # Errors
    /// When the body was torn, or is a `Status` or something else that is no list, or [`Self::feed`] failed before.
    pub fn finish(self) -> Result<ListMeta, ListError> {
        self.splitter.finish()
    }
}
