//! Splits a protobuf watch into its events as it arrives.
//!
//! Each event is a frame: its length in four bytes, and a message with the type of the event and
//! the object in its envelope (k8s.io/apimachinery v0.36.4
//! `pkg/runtime/serializer/protobuf/protobuf.go` and `pkg/util/framer/framer.go`).

use super::encoded::{EncodedEvent, EncodedObject, EventSink, undecodable_status};
use super::protobuf_object::{MessageObject, report};
use crate::bad_item::UndecodableItem;
use crate::error::WatchError;
use crate::event::EventKind;
use crate::protobuf::{Envelope, Fields};
use crate::read_error::ReadError;

/// The length of the length of a frame.
const PREFIX: usize = 4;
/// The capacity that is kept after a large event.
const KEEP: usize = 1024 * 1024;

/// The state of one watch.
#[derive(Debug)]
pub(crate) struct ProtobufWatchSplitter {
    /// The part of the frame from earlier chunks, with its prefix.
    held: Vec<u8>,
    limit: usize,
    /// The number of bytes of the stream that have been processed.
    offset: u64,
}

impl ProtobufWatchSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: Vec::new(), limit, offset: 0 }
    }

    pub(crate) fn finish(self) -> Result<(), WatchError> {
        if self.held.is_empty() { Ok(()) } else { Err(WatchError::Torn { offset: self.offset }) }
    }

    /// Processes the next chunk. Must not be called after an error.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], sink: EventSink<'_>) -> Result<(), WatchError> {
        while !chunk.is_empty() {
            let used = if self.held.is_empty() {
                self.start_frame(chunk, sink)?
            } else {
                self.continue_frame(chunk, sink)?
            };
            self.offset += used as u64;
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// Processes the frame at the start of the chunk. Returns the number of bytes that it used.
    fn start_frame(&mut self, chunk: &[u8], sink: EventSink<'_>) -> Result<usize, WatchError> {
        match self.frame_length(chunk, self.offset)? {
            Some(length) if length <= chunk.len() => {
                sink(event(&chunk[PREFIX..length]));
                Ok(length)
            }
            _ => {
                self.held.extend_from_slice(chunk);
                Ok(chunk.len())
            }
        }
    }

    /// Adds to the frame from earlier chunks. Returns the number of bytes that it used.
    fn continue_frame(&mut self, chunk: &[u8], sink: EventSink<'_>) -> Result<usize, WatchError> {
        let start = self.offset - self.held.len() as u64;
        let wanted = self.frame_length(&self.held, start)?.unwrap_or(PREFIX);
        let used = chunk.len().min(wanted - self.held.len());
        self.held.extend_from_slice(&chunk[..used]);
        if self.frame_length(&self.held, start)? == Some(self.held.len()) {
            sink(event(&self.held[PREFIX..]));
            self.held.clear();
            // A single huge event must not keep its memory allocated for ever.
            self.held.shrink_to(KEEP);
        }
        Ok(used)
    }

    /// Returns the length of the frame at the start of `bytes`, with its prefix. Returns `None` if
    /// there are too few bytes.
    fn frame_length(&self, bytes: &[u8], offset: u64) -> Result<Option<usize>, WatchError> {
        let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > self.limit {
            return Err(WatchError::TooLarge { offset, limit: self.limit });
        }
        Ok(Some(PREFIX + length))
    }
}

fn event(frame: &[u8]) -> Result<EncodedEvent<'_>, UndecodableItem> {
    let Parts { word, object, error } = parts(frame);
    let kind = EventKind::from_word(word);
    let object = match (object, error) {
        (Some(object), None) => MessageObject::enveloped(object),
        (object, Some(error)) => {
            // The key is still of use: the deletion of an object must not be lost.
            let message = object.and_then(|it| Envelope::read(it).ok()).map_or(&[][..], |it| it.message);
            Err(report(message, String::new(), error.reason(0)))
        }
        (None, None) => {
            let reason = format!("an event of type {word:?} without an object");
            Err(report(&[], String::new(), reason))
        }
    };
    match (kind, object) {
        (Some(kind), Ok(object)) => EncodedEvent::new(kind, EncodedObject::Protobuf(object)),
        // The watch is over even if the status cannot be decoded.
        (Some(EventKind::Error), Err(bad)) => Ok(EncodedEvent::Error(undecodable_status(&bad))),
        (kind, Err(bad)) => Err(UndecodableItem { event: kind, ..bad }),
        (None, Ok(object)) => Err(object.report(format!("an event of the unknown type {word:?}"))),
    }
}

/// The parts of an event, as far as they can be read.
#[derive(Default)]
struct Parts<'a> {
    word: &'a str,
    object: Option<&'a [u8]>,
    error: Option<ReadError>,
}

fn parts(frame: &[u8]) -> Parts<'_> {
    let mut parts = Parts::default();
    parts.error = read_parts(frame, &mut parts).err();
    parts
}

fn read_parts<'a>(frame: &'a [u8], parts: &mut Parts<'a>) -> Result<(), ReadError> {
    let mut fields = Fields::new(frame);
    while let Some((number, raw)) = fields.next()? {
        match number {
            1 => parts.word = raw.text()?,
            2 => {
                let mut fields = Fields::new(raw.bytes()?);
                while let Some((number, raw)) = fields.next()? {
                    if number == 1 {
                        parts.object = Some(raw.bytes()?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}
