//! Splits a JSON watch into its events as it arrives.
//!
//! A watch consists of consecutive JSON objects, with or without white space between them; line
//! ends have no meaning. Each object is one event: `type` and `object`, in either order.

use dogwatch_core::{Reason, Status};
use serde::de::DeserializeOwned;

use super::cursor::ReadError;
use super::object::ObjectPosition;
use super::scan::{ScanResult, Scanner};
use super::value_buffer::{Progress, ScannedValue, ValueBuffer};
use crate::bad_item::UndecodableItem;
use crate::error::WatchError;
use crate::event::{EventKind, WatchEvent};
use crate::fields::Fields;

/// The state of one watch.
#[derive(Debug)]
pub(crate) struct WatchSplitter {
    buffer: ValueBuffer,
    limit: usize,
    fields: Fields,
    /// The number of bytes of the stream that have been processed.
    offset: u64,
    /// The position of the event that is being collected, if there is one.
    event_offset: Option<u64>,
    /// The first error, which every later call returns.
    failed: Option<WatchError>,
}

impl WatchSplitter {
    pub(crate) fn new(limit: usize, fields: Fields) -> Self {
        Self { buffer: ValueBuffer::new(limit), limit, fields, offset: 0, event_offset: None, failed: None }
    }

    pub(crate) fn feed<T: DeserializeOwned>(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(Result<WatchEvent<T>, UndecodableItem>),
    ) -> Result<(), WatchError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.advance(chunk, sink);
        self.failed = result.as_ref().err().cloned();
        result
    }

    pub(crate) fn finish(self) -> Result<(), WatchError> {
        match (self.failed, self.event_offset) {
            (Some(error), _) => Err(error),
            (None, Some(_)) => Err(WatchError::Torn { offset: self.offset }),
            (None, None) => Ok(()),
        }
    }

    fn advance<T: DeserializeOwned>(
        &mut self,
        mut chunk: &[u8],
        sink: &mut impl FnMut(Result<WatchEvent<T>, UndecodableItem>),
    ) -> Result<(), WatchError> {
        while let Some(first) = chunk.first() {
            let used = if let Some(offset) = self.event_offset {
                match self.buffer.feed(chunk) {
                    Ok(Progress::Done(whole, used)) => {
                        sink(event(whole, self.fields));
                        self.event_offset = None;
                        used
                    }
                    Ok(Progress::More) => chunk.len(),
                    Err(_) => return Err(WatchError::TooLarge { offset, limit: self.limit }),
                }
            } else {
                match first {
                    b' ' | b'\t' | b'\n' | b'\r' => 1,
                    b'{' => {
                        self.buffer.begin(b'{');
                        self.event_offset = Some(self.offset);
                        0
                    }
                    _ => {
                        let reason = format!("expected an event, found {:?}", char::from(*first));
                        return Err(WatchError::Malformed { offset: self.offset, reason });
                    }
                }
            };
            self.offset += used as u64;
            chunk = &chunk[used..];
        }
        Ok(())
    }
}

/// The parts of an event.
#[derive(Default)]
struct Frame {
    kind: Option<String>,
    object: Option<usize>,
}

fn event<T: DeserializeOwned>(
    whole: ScannedValue<'_>,
    fields: Fields,
) -> Result<WatchEvent<T>, UndecodableItem> {
    let place = match ObjectPosition::whole(whole) {
        Ok(place) => place,
        Err(bad) => return damaged(whole.bytes, bad),
    };
    let frame = frame(place).map_err(|error| place.report(String::new(), error.reason(0)))?;
    let object = frame.object.map(|at| place.inside(at, 1));
    let word = frame.kind.unwrap_or_default();
    let kind = EventKind::from_word(&word);
    let (Some(kind), Some(object)) = (kind, object) else {
        let reason = match object {
            None => format!("an event of type {word:?} without an object"),
            Some(_) => format!("an event of the unknown type {word:?}"),
        };
        return Err(UndecodableItem { event: kind, ..object.unwrap_or(place).report(String::new(), reason) });
    };
    let event = match kind {
        EventKind::Added => object.decode(fields).map(WatchEvent::Added),
        EventKind::Modified => object.decode(fields).map(WatchEvent::Modified),
        EventKind::Deleted => object.decode(fields).map(WatchEvent::Deleted),
        EventKind::Bookmark => object.decode(fields).map(WatchEvent::Bookmark),
        EventKind::Error => Ok(WatchEvent::Error(status(object))),
    };
    event.map_err(|bad| UndecodableItem { event: Some(kind), ..bad })
}

/// Reads as much as possible of an event that is not valid JSON, because of invalid UTF-8 or a
/// control character.
///
/// The type of the event and the object are known nevertheless, and a deletion must not be lost.
#[cold]
fn damaged<T>(event: &[u8], bad: UndecodableItem) -> Result<WatchEvent<T>, UndecodableItem> {
    let text = String::from_utf8_lossy(event);
    let mut scanner = Scanner::default();
    scanner.begin(b'{');
    let ScanResult::End(end) = scanner.scan(text.as_bytes()) else { return Err(bad) };
    let place = ObjectPosition::scanned(&text[..end], scanner.marks());
    let Ok(Frame { kind: Some(word), object: Some(at) }) = frame(place) else { return Err(bad) };
    let (object, kind) = (place.inside(at, 1), EventKind::from_word(&word));
    if kind == Some(EventKind::Error) {
        return Ok(WatchEvent::Error(status(object)));
    }
    Err(UndecodableItem { event: kind, ..object.report(bad.path, bad.reason) })
}

/// Finds the parts of an event; if a part occurs twice, the last one is used.
fn frame(place: ObjectPosition<'_>) -> Result<Frame, ReadError> {
    let mut cursor = place.cursor();
    let mut frame = Frame::default();
    let mut first = true;
    cursor.enter()?;
    while cursor.next(first, b'}')? {
        first = false;
        if cursor.peek()? != b'"' {
            return Err(cursor.expected('"'));
        }
        let key = cursor.string()?;
        let (is_type, is_object) = (key.as_str() == "type", key.as_str() == "object");
        cursor.expect(b':')?;
        let byte = cursor.peek()?;
        if is_type && byte == b'"' {
            frame.kind = Some(cursor.string()?.as_str().to_owned());
            continue;
        }
        if is_object {
            frame.object = Some(cursor.at());
        }
        cursor.skip()?;
    }
    cursor.leave(b'}')?;
    Ok(frame)
}

/// Decodes the status of an error event. The watch is over even if the status cannot be decoded.
fn status(object: ObjectPosition<'_>) -> Status {
    object.decode(Fields::default()).unwrap_or_else(|bad| {
        let message = format!("the watch ended with an error that is not a status: {}", bad.reason);
        Status::failure(Reason::InternalError, message)
    })
}
