//! Splits the body of a JSON list into its items as the body arrives.
//!
//! ```text
//! Start ─{─► FirstKey ─key─► Colon ─:─► Value ─value─► AfterMember ─,─► Key ─key─► Colon
//!                                         └─[ of items─► FirstItem ─item─► AfterItem ─]─► AfterMember ─}─► Done
//! ```
//!
//! Only one value is held at a time: an item, or one of the few small values around the items. The
//! latter are copied, and decoded when the list has ended, since the server may put them before or
//! after the items.

use dogwatch_core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::encoded::{EncodedObject, ItemSink};
use super::json_object::{ObjectPosition, with_body};
use crate::bad_item::UndecodableItem;
use crate::error::ListError;
use crate::fields::Fields;
use crate::json::{Progress, ScannedValue, ValueBuffer};
use crate::list_meta::{EncodedListMeta, ListMeta};

/// The maximal size of everything around the items together: enough for a long continue token.
const ENVELOPE_LIMIT: usize = 1024 * 1024;
/// The maximal length of the quotation of a body that is not a list.
const QUOTE: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    FirstKey,
    Key,
    Colon,
    Value,
    AfterMember,
    FirstItem,
    NextItem,
    AfterItem,
    Done,
    /// The body is not a list; its beginning is collected so that it can be quoted.
    Foreign,
}

/// The kind of the value that is being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueRole {
    Key,
    Member,
    Item,
}

/// The state of one list.
#[derive(Debug)]
pub(crate) struct JsonListSplitter {
    state: State,
    part: Option<ValueRole>,
    buffer: ValueBuffer,
    limit: usize,
    /// The number of bytes of the body that have been processed.
    offset: u64,
    /// The position of the value that is being collected.
    value_offset: u64,
    /// The list without its items, as one small object; or the beginning of a body that is not a
    /// list.
    envelope: Vec<u8>,
    in_items: bool,
    has_items: bool,
}

impl JsonListSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: State::Start,
            part: None,
            buffer: ValueBuffer::new(limit),
            limit,
            offset: 0,
            value_offset: 0,
            envelope: Vec::new(),
            in_items: false,
            has_items: false,
        }
    }

    pub(crate) fn finish(self) -> Result<ListMeta, ListError> {
        match self.state {
            State::Done => summary(&self.envelope, self.has_items, self.offset),
            State::Foreign => Err(foreign(&self.envelope)),
            _ => Err(ListError::Torn { offset: self.offset }),
        }
    }

    /// Processes the next chunk. Must not be called after an error.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], sink: ItemSink<'_>) -> Result<(), ListError> {
        while let Some(first) = chunk.first() {
            let used = if let Some(part) = self.part {
                self.collect(part, chunk, sink)?
            } else if self.state == State::Foreign {
                self.envelope.extend_from_slice(&chunk[..chunk.len().min(QUOTE - self.envelope.len())]);
                if self.envelope.len() == QUOTE {
                    return Err(foreign(&self.envelope));
                }
                chunk.len()
            } else if matches!(first, b' ' | b'\t' | b'\n' | b'\r') {
                1
            } else {
                self.step(*first)?
            };
            self.offset += used as u64;
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// Processes one character between values. Returns the number of bytes that it consumes: 0
    /// or 1.
    fn step(&mut self, byte: u8) -> Result<usize, ListError> {
        let (state, part) = match (self.state, byte) {
            (State::Start, b'{') => {
                self.envelope.push(b'{');
                (State::FirstKey, None)
            }
            (State::Start, _) => {
                self.state = State::Foreign;
                return Ok(0);
            }
            (State::FirstKey | State::Key, b'"') => (State::Colon, Some(ValueRole::Key)),
            (State::Colon, b':') => (State::Value, None),
            (State::Value, b'[') if self.in_items => (State::FirstItem, None),
            (State::Value, _) => (State::AfterMember, Some(ValueRole::Member)),
            (State::FirstItem, b']') | (State::AfterItem, b']') => (State::AfterMember, None),
            (State::FirstItem | State::NextItem, _) => (State::AfterItem, Some(ValueRole::Item)),
            (State::AfterItem, b',') => (State::NextItem, None),
            (State::AfterMember, b',') => (State::Key, None),
            (State::FirstKey | State::AfterMember, b'}') => (State::Done, None),
            (state, _) => return Err(self.malformed(unexpected(state))),
        };
        if part.is_some() {
            if !matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') {
                return Err(self.malformed("expected a value"));
            }
            self.buffer.begin(byte);
            self.value_offset = self.offset;
        }
        self.has_items |= state == State::FirstItem;
        (self.state, self.part) = (state, part);
        Ok(usize::from(part.is_none()))
    }

    /// Consumes bytes of the value that is being collected, and processes the value once it is
    /// complete.
    fn collect(&mut self, part: ValueRole, chunk: &[u8], sink: ItemSink<'_>) -> Result<usize, ListError> {
        let too_large = ListError::TooLarge { offset: self.value_offset, limit: self.limit };
        let (whole, used) = match self.buffer.feed(chunk) {
            Ok(Progress::Done(whole, used)) => (whole, used),
            Ok(Progress::More) => return Ok(chunk.len()),
            Err(_) => return Err(too_large),
        };
        self.part = None;
        if part == ValueRole::Item {
            sink(ObjectPosition::whole(whole).map(EncodedObject::Json));
            return Ok(used);
        }
        let malformed =
            |reason: &str| ListError::Malformed { offset: self.value_offset, reason: reason.to_owned() };
        if part == ValueRole::Key {
            self.in_items = is_items(whole);
            if self.in_items && self.has_items {
                return Err(malformed("duplicate items"));
            }
        } else if self.in_items && whole.bytes != b"null" {
            return Err(malformed("items are not an array"));
        }
        if !self.in_items {
            self.envelope.extend_from_slice(match (part, self.envelope.len()) {
                (ValueRole::Key, 2..) => b",",
                (ValueRole::Key, _) => b"",
                _ => b":",
            });
            self.envelope.extend_from_slice(whole.bytes);
            if self.envelope.len() > ENVELOPE_LIMIT {
                return Err(ListError::TooLarge { offset: self.value_offset, limit: ENVELOPE_LIMIT });
            }
        }
        Ok(used)
    }

    fn malformed(&self, reason: &str) -> ListError {
        ListError::Malformed { offset: self.offset, reason: reason.to_owned() }
    }
}

fn is_items(key: ScannedValue<'_>) -> bool {
    key.bytes == br#""items""#
        || (key.bytes.contains(&b'\\')
            && ObjectPosition::whole(key)
                .is_ok_and(|it| it.cursor().string().is_ok_and(|it| it.as_str() == "items")))
}

fn unexpected(state: State) -> &'static str {
    match state {
        State::FirstKey | State::Key => "expected a key",
        State::Colon => "expected a colon",
        State::AfterItem => "expected a comma or the end of the items",
        State::Done => "more text after the list",
        _ => "expected a comma or the end of the list",
    }
}

fn foreign(beginning: &[u8]) -> ListError {
    let text = String::from_utf8_lossy(beginning);
    ListError::NotAList { found: format!("text that begins with {:?}", text.trim_end()) }
}

/// Decodes the values around the items.
fn summary(envelope: &[u8], has_items: bool, offset: u64) -> Result<ListMeta, ListError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope {
        kind: Option<String>,
        api_version: Option<String>,
        #[serde(default)]
        metadata: Option<EncodedListMeta>,
    }

    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
    }

    let envelope = [envelope, b"}"].concat();
    let malformed = |bad: UndecodableItem| ListError::Malformed {
        offset,
        reason: if bad.path.is_empty() { bad.reason } else { format!("{}: {}", bad.path, bad.reason) },
    };
    let kind: Kind = decode(&envelope).map_err(malformed)?;
    let kind = kind.kind.unwrap_or_default();
    if kind == "Status" {
        let status: Status = decode(&envelope).map_err(malformed)?;
        return Err(ListError::Refused(Box::new(status)));
    }
    if !has_items && !kind.ends_with("List") {
        let found =
            if kind.is_empty() { "an object without kind and items".to_owned() } else { format!("a {kind}") };
        return Err(ListError::NotAList { found });
    }
    let whole: Envelope = decode(&envelope).map_err(malformed)?;
    let api_version = whole.api_version.unwrap_or_default();
    Ok(ListMeta::new(whole.kind.unwrap_or_default(), api_version, whole.metadata.unwrap_or_default()))
}

fn decode<T: DeserializeOwned>(envelope: &[u8]) -> Result<T, UndecodableItem> {
    with_body(envelope, |position| EncodedObject::Json(position).decode(Fields::default()))
}
