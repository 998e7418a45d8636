//! Splits the body of a protobuf list into its items as the body arrives.
//!
//! ```text
//! k8s\0  ─► Envelope ─► 1: the kind ─► 2: the list ─► List ─► 1: metadata, 2: an item, 2: an item, …
//! ```
//!
//! Only one part is held at a time: an item, or one of the small parts around the items. Parts that
//! are not needed are skipped as they arrive.

use dogwatch_core::Status;

use super::encoded::{EncodedObject, ItemSink};
use super::protobuf_object::MessageObject;
use crate::error::ListError;
use crate::fields::Fields;
use crate::list_meta::{EncodedListMeta, ListMeta};
use crate::protobuf::{Envelope, Schema, varint};

/// The maximal size of a part around the items: enough for a long continue token.
const ENVELOPE_LIMIT: usize = 1024 * 1024;
/// The maximal length of the quotation of a body that is not a list.
const QUOTE: usize = 80;
/// The capacity that is kept after a large item.
const KEEP: usize = 1024 * 1024;
/// The wire type of fields with a length.
const DELIMITED: u64 = 2;

/// The part of the body that is being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Magic,
    /// The number and the length of a field.
    Header,
    /// The API version and the kind.
    Type,
    /// A whole object instead of a list.
    Whole,
    Metadata,
    Item,
    /// A part that is not needed.
    Skipped,
}

/// The list, once its kind is known.
#[derive(Clone, Copy, Debug)]
struct List {
    /// The number of the field with the items, and the message of an item.
    items: (u32, u16),
    /// The number of bytes of the list that follow.
    rest: u64,
}

/// The state of one list.
#[derive(Debug)]
pub(crate) struct ProtobufListSplitter {
    part: Part,
    /// The length of the part; for a header, unknown.
    length: usize,
    /// The bytes of the part from earlier chunks.
    held: Vec<u8>,
    limit: usize,
    /// The number of bytes of the body that have been processed.
    offset: u64,
    /// The position of the field to which the part belongs.
    part_offset: u64,
    kind: Option<(String, String)>,
    /// The list that is being read; `None` outside of it.
    list: Option<List>,
    has_list: bool,
    metadata: Option<EncodedListMeta>,
}

impl ProtobufListSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            part: Part::Magic,
            length: Envelope::MAGIC.len(),
            held: Vec::new(),
            limit,
            offset: 0,
            part_offset: 0,
            kind: None,
            list: None,
            has_list: false,
            metadata: None,
        }
    }

    pub(crate) fn finish(self) -> Result<ListMeta, ListError> {
        if self.part == Part::Magic && !self.held.is_empty() && !Envelope::MAGIC.starts_with(&self.held) {
            return Err(foreign(&self.held));
        }
        let between = self.part == Part::Header && self.held.is_empty() && self.list.is_none();
        match self.kind {
            Some((api_version, kind)) if between && self.has_list => {
                Ok(ListMeta::new(kind, api_version, self.metadata.unwrap_or_default()))
            }
            _ => Err(ListError::Torn { offset: self.offset }),
        }
    }

    /// Processes the next chunk. Must not be called after an error.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], sink: ItemSink<'_>) -> Result<(), ListError> {
        while !chunk.is_empty() {
            if self.part == Part::Header && self.held.is_empty() {
                self.part_offset = self.offset;
            }
            let used = match self.part {
                Part::Magic => self.magic(chunk)?,
                Part::Header => self.header(chunk, sink)?,
                Part::Skipped => self.skip(chunk),
                _ => self.collect(chunk, sink)?,
            };
            self.offset += used as u64;
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// Consumes the prefix of the body. Collects the start of a body without it, to quote it.
    fn magic(&mut self, chunk: &[u8]) -> Result<usize, ListError> {
        let wanted = if Envelope::MAGIC.starts_with(&self.held) { Envelope::MAGIC.len() } else { QUOTE };
        let used = chunk.len().min(wanted - self.held.len());
        self.held.extend_from_slice(&chunk[..used]);
        if self.held == Envelope::MAGIC {
            self.next_header();
        } else if self.held.len() >= QUOTE {
            return Err(foreign(&self.held));
        }
        Ok(used)
    }

    /// Consumes bytes of a number and a length, and decides what to do with the field.
    fn header(&mut self, chunk: &[u8], sink: ItemSink<'_>) -> Result<usize, ListError> {
        let before = self.held.len();
        // Two integers of up to ten bytes.
        self.held.extend_from_slice(&chunk[..chunk.len().min(20 - before)]);
        let malformed = |_| self.malformed("an integer has more than 64 bits");
        let Some((tag, first)) = varint(&self.held).map_err(malformed)? else { return Ok(chunk.len()) };
        let (second, content, is_known) = match tag & 7 {
            // No field here has a fixed size.
            1 => (0, 8, false),
            5 => (0, 4, false),
            wire_type @ (0 | DELIMITED) => {
                let Some((value, second)) = varint(&self.held[first..]).map_err(malformed)? else {
                    return Ok(chunk.len());
                };
                if wire_type == DELIMITED { (second, value, true) } else { (second, 0, false) }
            }
            _ => return Err(self.malformed("an unknown wire type")),
        };
        let used = first + second - before;
        let size = (first + second) as u64;
        self.held.clear();
        if let Some(list) = &mut self.list {
            let taken = size.saturating_add(content);
            match list.rest.checked_sub(taken) {
                Some(rest) => list.rest = rest,
                None => return Err(self.malformed("a field ends after the list")),
            }
        }
        match is_known {
            true => self.field(tag >> 3, content)?,
            false if content > 0 => self.start(Part::Skipped, content)?,
            false => {}
        }
        if self.length == 0 && self.part != Part::Header {
            self.complete(&[], sink)?;
            self.next_header();
        }
        self.leave_list();
        Ok(used)
    }

    /// Starts the field with this number and length.
    fn field(&mut self, number: u64, length: u64) -> Result<(), ListError> {
        let part = match (self.list, number) {
            (Some(List { items, .. }), number) if u64::from(items.0) == number => Part::Item,
            (Some(_), 1) => Part::Metadata,
            (Some(_), _) => Part::Skipped,
            (None, 1 | 2) if self.has_list => return Err(self.malformed("a second list in one body")),
            (None, 1) => Part::Type,
            (None, 2) => return self.start_list(length),
            (None, _) => Part::Skipped,
        };
        self.start(part, length)
    }

    fn start(&mut self, part: Part, length: u64) -> Result<(), ListError> {
        let limit = match part {
            Part::Skipped => usize::MAX,
            Part::Item => self.limit,
            _ => ENVELOPE_LIMIT,
        };
        self.length = match usize::try_from(length) {
            Ok(length) if length <= limit => length,
            _ => return Err(ListError::TooLarge { offset: self.part_offset, limit }),
        };
        self.part = part;
        Ok(())
    }

    /// Starts the field with the list, or with an object that is not one.
    fn start_list(&mut self, length: u64) -> Result<(), ListError> {
        let Some((api_version, kind)) = &self.kind else {
            return Err(self.malformed("the list is before its kind"));
        };
        if kind == "Status" {
            return self.start(Part::Whole, length);
        }
        let schema = Schema::get();
        let Some(items) = schema.of_kind(api_version, kind).and_then(|it| schema.items(it)) else {
            return Err(ListError::NotAList { found: format!("a {kind}") });
        };
        self.has_list = true;
        self.list = Some(List { items, rest: length });
        Ok(())
    }

    fn skip(&mut self, chunk: &[u8]) -> usize {
        let used = chunk.len().min(self.length);
        self.length -= used;
        if self.length == 0 {
            self.next_header();
        }
        used
    }

    /// Consumes bytes of a part, and processes the part once it is complete.
    fn collect(&mut self, chunk: &[u8], sink: ItemSink<'_>) -> Result<usize, ListError> {
        let used = chunk.len().min(self.length - self.held.len());
        if self.held.is_empty() && used == self.length {
            self.complete(&chunk[..used], sink)?;
        } else {
            self.held.extend_from_slice(&chunk[..used]);
            if self.held.len() < self.length {
                return Ok(used);
            }
            let held = std::mem::take(&mut self.held);
            self.complete(&held, sink)?;
            self.held = held;
        }
        self.next_header();
        Ok(used)
    }

    fn complete(&mut self, part: &[u8], sink: ItemSink<'_>) -> Result<(), ListError> {
        match (self.part, self.list) {
            (Part::Item, Some(List { items, .. })) => {
                sink(Ok(EncodedObject::Protobuf(MessageObject::new(items.1, part))));
            }
            (Part::Type, _) => {
                let mut envelope = Envelope::default();
                envelope.read_type(part).map_err(|error| self.malformed(&error.to_string()))?;
                self.kind = Some((envelope.api_version.to_owned(), envelope.kind.to_owned()));
            }
            (Part::Metadata, _) => self.metadata = Some(self.decode("ListMeta", part)?),
            (Part::Whole, _) => {
                let status: Status = self.decode("Status", part)?;
                return Err(ListError::Refused(Box::new(status)));
            }
            _ => {}
        }
        Ok(())
    }

    fn decode<T: serde::de::DeserializeOwned>(&self, kind: &str, part: &[u8]) -> Result<T, ListError> {
        let Some(message) = Schema::get().of_kind("v1", kind) else {
            return Err(self.malformed("an unknown message"));
        };
        EncodedObject::Protobuf(MessageObject::new(message, part))
            .decode(Fields::default())
            .map_err(|bad| self.malformed(&bad.reason))
    }

    fn next_header(&mut self) {
        self.held.clear();
        // A single huge item must not keep its memory allocated for ever.
        self.held.shrink_to(KEEP);
        self.part = Part::Header;
        self.leave_list();
    }

    /// Continues with the envelope after the end of the list.
    fn leave_list(&mut self) {
        if self.part == Part::Header && self.list.is_some_and(|it| it.rest == 0) {
            self.list = None;
        }
    }

    fn malformed(&self, reason: &str) -> ListError {
        ListError::Malformed { offset: self.part_offset, reason: reason.to_owned() }
    }
}

fn foreign(beginning: &[u8]) -> ListError {
    let text = String::from_utf8_lossy(beginning);
    ListError::NotAList { found: format!("text that begins with {:?}", text.trim_end()) }
}
