//! Watches, decoded event by event while the stream arrives.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bad_item::UndecodableItem;
use crate::body::{EncodedEvent, JsonWatchSplitter, ProtobufWatchSplitter};
use crate::error::WatchError;
use crate::event::WatchEvent;
use crate::fields::Fields;

/// The default limit of the size of an event, as in client-go (rule RQ-4; k8s.io/apimachinery
/// v0.36.4 `pkg/runtime/serializer/streaming/streaming.go`).
const FRAME_LIMIT: usize = 16 * 1024 * 1024;

/// Decodes the chunks of a watch response into events, one by one.
///
/// Events come out in the order of the stream, each as soon as its last byte has arrived: no event
/// waits for a line end or for the next event. The decoder holds at most one incomplete event.
///
/// An event whose object cannot be decoded, or whose type is unknown, is reported in its place, and
/// decoding continues. After an error every further call returns it again, because the start of the
/// next event is unknown.
#[derive(Debug)]
pub struct WatchDecoder<T> {
    splitter: Splitter,
    fields: Fields,
    /// The first error, which every later call returns.
    failed: Option<WatchError>,
    object: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum Splitter {
    Json(JsonWatchSplitter),
    Protobuf(ProtobufWatchSplitter),
}

impl<T: DeserializeOwned> WatchDecoder<T> {
    /// Creates a decoder of a JSON watch.
    pub fn json() -> Self {
        Self::new(Splitter::Json(JsonWatchSplitter::new(FRAME_LIMIT)))
    }

    /// Creates a decoder of a protobuf watch, `application/vnd.kubernetes.protobuf;stream=watch`.
    pub fn protobuf() -> Self {
        Self::new(Splitter::Protobuf(ProtobufWatchSplitter::new(FRAME_LIMIT)))
    }

    fn new(splitter: Splitter) -> Self {
        Self { splitter, fields: Fields::default(), failed: None, object: PhantomData }
    }

    /// Sets which fields of the objects are skipped. Defaults to managed fields. Must be called
    /// before the first chunk.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        Self { fields, ..self }
    }

    /// Sets the maximal size of an event in bytes. Defaults to 16 MiB. Must be called before the
    /// first chunk.
    #[must_use]
    pub fn frame_limit(self, bytes: usize) -> Self {
        let splitter = match self.splitter {
            Splitter::Json(_) => Splitter::Json(JsonWatchSplitter::new(bytes)),
            Splitter::Protobuf(_) => Splitter::Protobuf(ProtobufWatchSplitter::new(bytes)),
        };
        Self { splitter, ..self }
    }

    /// Processes the next chunk of the stream, of any size, and passes every completed event to
    /// `sink`.
    ///
    /// # Errors
    /// Returns an error if an event should start and something else does, or if an event is too
    /// large.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Result<WatchEvent<T>, UndecodableItem>),
    ) -> Result<(), WatchError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let fields = self.fields;
        let mut sink = |event: Result<EncodedEvent<'_>, _>| sink(event.and_then(|it| it.decode(fields)));
        let result = match &mut self.splitter {
            Splitter::Json(splitter) => splitter.feed(chunk, &mut sink),
            Splitter::Protobuf(splitter) => splitter.feed(chunk, &mut sink),
        };
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Ends the watch, after the last chunk of the stream. A watch usually ends between two events.
    ///
    /// # Errors
    /// Returns an error if the stream ended inside an event, or if [`Self::feed`] failed before.
    pub fn finish(self) -> Result<(), WatchError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.splitter {
            Splitter::Json(splitter) => splitter.finish(),
            Splitter::Protobuf(splitter) => splitter.finish(),
        }
    }
}
