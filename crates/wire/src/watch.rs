//! Watches, decoded event by event while the stream arrives.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bad_item::BadItem;
use crate::error::WatchError;
use crate::event::WatchEvent;
use crate::fields::Fields;
use crate::json::WatchSplitter;

/// How large one event may be unless said otherwise, as in client-go (rule RQ-4).
const FRAME_LIMIT: usize = 16 * 1024 * 1024;

/// Turns the chunks of a watch response into events, one by one.
///
/// Events come out in the order of the stream, each as soon as its last byte is in: no event waits for a line end
/// or for the next event. The decoder holds at most one event that is not complete yet.
///
/// An event whose object cannot be decoded, or whose type is not known, is reported in its turn and the stream goes
/// on. After an error every further call repeats it: where the next event begins cannot be known any more.
#[derive(Debug)]
pub struct WatchDecoder<T> {
    splitter: WatchSplitter,
    limit: usize,
    fields: Fields,
    object: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> WatchDecoder<T> {
    /// Decodes a JSON watch.
    pub fn json() -> Self {
        let (limit, fields) = (FRAME_LIMIT, Fields::default());
        Self { splitter: WatchSplitter::new(limit, fields), limit, fields, object: PhantomData }
    }

    /// Says what to leave out of the objects. Unless called, their managed fields. To be called before the first chunk.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        Self { splitter: WatchSplitter::new(self.limit, fields), fields, ..self }
    }

    /// Refuses events larger than this. Unless called, 16 MiB. To be called before the first chunk.
    #[must_use]
    pub fn frame_limit(self, bytes: usize) -> Self {
        Self { splitter: WatchSplitter::new(bytes, self.fields), limit: bytes, ..self }
    }

    /// Takes the next chunk of the stream, of any size, and hands every event it completes to `sink`.
    ///
    /// # Errors
    /// When something that is no event stands where one should begin, or an event is too large.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Result<WatchEvent<T>, BadItem>),
    ) -> Result<(), WatchError> {
        self.splitter.feed(chunk, &mut sink)
    }

    /// Ends the watch: the stream has no more chunks. Ending between events is how a watch usually ends.
    ///
    /// # Errors
    /// When the stream was torn inside an event, or [`Self::feed`] failed before.
    pub fn finish(self) -> Result<(), WatchError> {
        self.splitter.finish()
    }
}
