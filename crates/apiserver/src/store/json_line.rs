//! One version of one object in JSON.
//!
//! The object is stored as the line of a watch event, and the object itself is a slice of it:
//!
//! ```text
//! {"type":"ADDED","object":│{"kind":"Pod","apiVersion":"v1",│"metadata":…}│}\n
//!                           ╰──────────────── object ────────────────────╯
//!                                                            ╰── bare ───╯
//! ```

use bytes::Bytes;
use dogwatch_wire::with_resource_version;
use serde::Serialize;
use serde_json::{Map, Value};

use super::event_type::EventType;

/// The field that is left empty in the encoding, and filled in when the version is known.
const VERSION: &str = "resourceVersion";

/// The bytes after the object in the line of a watch event.
const LINE_END: &[u8] = b"}\n";

/// One version of one object in JSON. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(super) struct JsonLine {
    /// The event type in `line`.
    event_type: EventType,
    /// The line of a watch event. Invariant: the head of the event type, one JSON object,
    /// [`LINE_END`].
    line: Bytes,
    /// The number of bytes of the object with kind and API version; 1 if they are not at its start.
    preamble: usize,
    /// The digits of the version in the object: their offset and their number. `None` for an object
    /// that another server has encoded, in which they are looked for when they are needed.
    version: Option<(usize, usize)>,
}

/// An object in JSON without the digits of its version, but with the quotes around them.
#[derive(Clone, Debug)]
pub(super) struct Unversioned {
    text: Vec<u8>,
    /// The number of bytes of `text` with kind and API version, which items of a typed list omit.
    preamble: usize,
    /// The offset in `text` of the digits of the version.
    version_at: usize,
}

impl Unversioned {
    /// Encodes an object; the version that it carries is ignored.
    pub(super) fn encode(object: &Map<String, Value>) -> Self {
        let mut out = Vec::with_capacity(2048);
        out.push(b'{');
        // Kind and API version come first, so that a list can omit them.
        for name in ["kind", "apiVersion"] {
            if let Some(value) = object.get(name) {
                write_entry(&mut out, name, value);
            }
        }
        let preamble = out.len();
        let mut version_at = 0;
        for (name, value) in object {
            match (name.as_str(), value) {
                ("kind" | "apiVersion", _) => {}
                ("metadata", Value::Object(metadata)) => {
                    out.extend_from_slice(b"\"metadata\":");
                    version_at = write_metadata(&mut out, metadata);
                    out.push(b',');
                }
                _ => write_entry(&mut out, name, value),
            }
        }
        // There is a comma after the last entry, and at least one entry: the metadata.
        out.pop();
        out.push(b'}');
        Self { text: out, preamble, version_at }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns true if the content of a line is the same, apart from the version.
    pub(super) fn has_content_of(&self, line: &JsonLine) -> bool {
        let (head, tail) = self.text.split_at(self.version_at);
        line.around_version() == Some((head, tail))
    }

    /// Returns the object at the version of an event of this type.
    pub(super) fn at(&self, event_type: EventType, version: u64) -> JsonLine {
        let (head, tail) = self.text.split_at(self.version_at);
        JsonLine {
            event_type,
            line: line(event_type, &[head, version.to_string().as_bytes(), tail]),
            preamble: self.preamble,
            version: Some((self.version_at, digits(version))),
        }
    }
}

impl JsonLine {
    /// Wraps an object of another server. `types` are its kind and API version, which are added if
    /// it does not begin with them and `is_bare` says that it has none.
    pub(super) fn of_object(
        event_type: EventType,
        object: &[u8],
        types: (&str, &str),
        is_bare: bool,
    ) -> Self {
        let (kind, api_version) = (Value::from(types.0), Value::from(types.1));
        let preamble = format!("{{\"kind\":{kind},\"apiVersion\":{api_version},");
        if is_bare {
            let members = object.strip_prefix(b"{").unwrap_or(object);
            let line = line(event_type, &[preamble.as_bytes(), members]);
            return Self { event_type, line, preamble: preamble.len(), version: None };
        }
        let begins_so = object.starts_with(preamble.as_bytes());
        let preamble = if begins_so { preamble.len() } else { 1 };
        Self { event_type, line: line(event_type, &[object]), preamble, version: None }
    }

    /// Wraps the line of a received object.
    pub(super) fn of_line(event_type: EventType, line: Bytes, preamble: usize) -> Self {
        Self { event_type, line, preamble, version: None }
    }

    /// Returns the line.
    pub(super) fn line(&self) -> Bytes {
        self.line.clone()
    }

    /// Returns the number of bytes of the object with kind and API version.
    pub(super) fn preamble(&self) -> usize {
        self.preamble
    }

    /// Returns the object as shared bytes, without copying.
    pub(super) fn object(&self) -> Bytes {
        self.line.slice(self.event_type.head().len()..self.line.len() - LINE_END.len())
    }

    /// Returns the object after kind and API version, as it follows the opening brace of an item in
    /// a typed list.
    pub(super) fn bare(&self) -> Bytes {
        self.object().slice(self.preamble..)
    }

    /// Returns the event type that the object was encoded with.
    pub(super) fn event_type(&self) -> EventType {
        self.event_type
    }

    /// Returns true for an object that another server has encoded.
    pub(super) fn is_received(&self) -> bool {
        self.version.is_none()
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// Writes the line of a watch event of this type. It is one piece for the event type that the
    /// object was encoded with, and three for others.
    pub(super) fn write_event(&self, event_type: EventType, out: &mut impl Extend<Bytes>) {
        if event_type == self.event_type {
            out.extend([self.line.clone()]);
        } else {
            let head = Bytes::from_static(event_type.head());
            out.extend([head, self.object(), Bytes::from_static(LINE_END)]);
        }
    }

    /// Returns the same content with another version, as a deletion shows it.
    pub(super) fn deleted_at(&self, version: u64) -> Self {
        let (event_type, digits) = (EventType::Deleted, version.to_string());
        if let (Some((at, _)), Some((head, tail))) = (self.version, self.around_version()) {
            let line = line(event_type, &[head, digits.as_bytes(), tail]);
            return Self { event_type, line, preamble: self.preamble, version: Some((at, digits.len())) };
        }
        // An object without a version cannot be stored, so the version is found.
        let object =
            with_resource_version(&self.object(), &digits).unwrap_or_else(|_| self.object().to_vec());
        Self { event_type, line: line(event_type, &[object.as_slice()]), ..*self }
    }

    /// Returns the bytes before and after the digits of the version, if their position is known.
    fn around_version(&self) -> Option<(&[u8], &[u8])> {
        let object = &self.line[self.event_type.head().len()..self.line.len() - LINE_END.len()];
        let (at, length) = self.version?;
        let (head, rest) = object.split_at(at);
        Some((head, &rest[length..]))
    }
}

/// Returns the number of decimal digits of a number.
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Assembles the line of a watch event from the parts of its object.
fn line(event_type: EventType, object: &[&[u8]]) -> Bytes {
    let length: usize = object.iter().map(|it| it.len()).sum();
    let mut line = Vec::with_capacity(event_type.head().len() + length + LINE_END.len());
    line.extend_from_slice(event_type.head());
    object.iter().for_each(|it| line.extend_from_slice(it));
    line.extend_from_slice(LINE_END);
    Bytes::from(line)
}

/// Writes the metadata with an empty version in its sorted position; returns the offset of its
/// digits.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    let mut version_at = None;
    let mut write_version = |out: &mut Vec<u8>| {
        write_entry(out, VERSION, "");
        version_at = Some(out.len() - "\",".len());
    };
    out.push(b'{');
    let mut written = false;
    for (name, value) in metadata {
        if !written && name.as_str() >= VERSION {
            write_version(out);
            written = true;
        }
        if name != VERSION {
            write_entry(out, name, value);
        }
    }
    if !written {
        write_version(out);
    }
    out.pop();
    out.push(b'}');
    version_at.expect("the version was written")
}

/// Writes an entry of an object, followed by a comma.
fn write_entry(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    const TEXT: &str = "writing JSON to memory does not fail";
    serde_json::to_writer(&mut *out, name).expect(TEXT);
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect(TEXT);
    out.push(b',');
}
