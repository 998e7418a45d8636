//! Splits a JSON watch into its events as it arrives.
//!
//! A watch consists of consecutive JSON objects, with or without white space between them; line
//! ends have no meaning. Each object is one event: `type` and `object`, in either order.

use super::encoded::{EncodedEvent, EncodedObject, EventSink};
use super::json_object::ObjectPosition;
use crate::bad_item::UndecodableItem;
use crate::error::WatchError;
use crate::event::EventKind;
use crate::json::{Progress, ScanResult, ScannedValue, Scanner, ValueBuffer};
use crate::read_error::ReadError;

/// The state of one watch.
#[derive(Debug)]
pub(crate) struct JsonWatchSplitter {
    buffer: ValueBuffer,
    limit: usize,
    /// The number of bytes of the stream that have been processed.
    offset: u64,
    /// The position of the event that is being collected, if there is one.
    event_offset: Option<u64>,
}

impl JsonWatchSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: ValueBuffer::new(limit), limit, offset: 0, event_offset: None }
    }

    pub(crate) fn finish(self) -> Result<(), WatchError> {
        match self.event_offset {
            Some(_) => Err(WatchError::Torn { offset: self.offset }),
            None => Ok(()),
        }
    }

    /// Processes the next chunk. Must not be called after an error.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], sink: EventSink<'_>) -> Result<(), WatchError> {
        while let Some(first) = chunk.first() {
            let used = if let Some(offset) = self.event_offset {
                match self.buffer.feed(chunk) {
                    Ok(Progress::Done(whole, used)) => {
                        event(whole, sink);
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

fn event(whole: ScannedValue<'_>, sink: EventSink<'_>) {
    match ObjectPosition::whole(whole) {
        Ok(place) => sink(encoded(place)),
        Err(bad) => damaged(whole.bytes, bad, sink),
    }
}

fn encoded(place: ObjectPosition<'_>) -> Result<EncodedEvent<'_>, UndecodableItem> {
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
    EncodedEvent::new(kind, EncodedObject::Json(object))
}

/// Reads as much as possible of an event that is not valid JSON, because of invalid UTF-8 or a
/// control character.
///
/// The type of the event and the object are known nevertheless, and a deletion must not be lost.
#[cold]
fn damaged(event: &[u8], bad: UndecodableItem, sink: EventSink<'_>) {
    let text = String::from_utf8_lossy(event);
    let mut scanner = Scanner::default();
    scanner.begin(b'{');
    let ScanResult::End(end) = scanner.scan(text.as_bytes()) else { return sink(Err(bad)) };
    let place = ObjectPosition::scanned(&text[..end], scanner.marks());
    let Ok(Frame { kind: Some(word), object: Some(at) }) = frame(place) else { return sink(Err(bad)) };
    let (object, kind) = (place.inside(at, 1), EventKind::from_word(&word));
    sink(match kind {
        Some(EventKind::Error) => Ok(EncodedEvent::Error(EncodedObject::Json(object).status())),
        kind => Err(UndecodableItem { event: kind, ..object.report(bad.path, bad.reason) }),
    });
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
