//! One object in JSON: its position in a body, and the report if it cannot be decoded.

use std::borrow::Cow;

use dogwatch_core::{ObjectKey, ResourceVersion};
use serde::Deserialize;

use crate::bad_item::UndecodableItem;
use crate::fields::Role;
use crate::json::{Cursor, Mark, ScanResult, ScannedValue, Scanner, trim};
use crate::read_error::ReadError;
use crate::reader::Reader;

/// The position of an object inside a scanned value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectPosition<'a> {
    text: &'a str,
    marks: &'a [Mark],
    at: usize,
    depth: u32,
}

impl<'a> ObjectPosition<'a> {
    /// Returns the position of a whole value.
    ///
    /// # Errors
    /// Returns an error if the value cannot be JSON: it is not UTF-8, or has a control character
    /// inside a string.
    pub(super) fn whole(value: ScannedValue<'a>) -> Result<Self, UndecodableItem> {
        if let Some(at) = value.control {
            return Err(report(
                value.bytes,
                String::new(),
                format!("a control character at byte {at} of the object"),
            ));
        }
        match std::str::from_utf8(value.bytes) {
            Ok(text) => Ok(Self::scanned(text, value.marks)),
            Err(error) => {
                let reason = format!("invalid UTF-8 at byte {} of the object", error.valid_up_to());
                Err(report(value.bytes, String::new(), reason))
            }
        }
    }

    /// Returns the position of a whole value that is valid UTF-8.
    pub(super) fn scanned(text: &'a str, marks: &'a [Mark]) -> Self {
        Self { text, marks, at: 0, depth: 0 }
    }

    /// Returns the position of a value inside this one, as a cursor found it.
    pub(super) fn inside(self, at: usize, depth: u32) -> Self {
        Self { at, depth, ..self }
    }

    /// Returns a cursor at this position.
    pub(super) fn cursor(self) -> Cursor<'a> {
        Cursor::new(self.text, self.marks, self.at, self.depth)
    }

    /// Returns a reader of the object at this position.
    pub(super) fn reader(self, role: Role) -> Reader<'a> {
        Reader::json(self.cursor(), role)
    }

    /// Checks that nothing follows the value that was read: only a number or a word can be followed
    /// by more text, since nothing else marks where they end.
    pub(super) fn check_end(self, reader: &Reader<'_>) -> Result<(), UndecodableItem> {
        if self.depth == 0 && reader.json.at() < self.text.len() {
            let error = reader.json.error("more text after the value");
            return Err(self.report(String::new(), error.reason(0)));
        }
        Ok(())
    }

    /// Reports an error of reading the object.
    #[cold]
    pub(super) fn failed(self, reader: &Reader<'_>, error: ReadError) -> UndecodableItem {
        let error = error.or_at(reader.json.at());
        self.report(error.path(), error.reason(self.at))
    }

    /// Reports a problem of the object at this position.
    #[cold]
    pub(super) fn report(self, path: String, reason: String) -> UndecodableItem {
        report(&self.text.as_bytes()[self.at..], path, reason)
    }
}

/// Scans a body that is one object, and passes its position to `decode`.
///
/// # Errors
/// Returns an error if the body is not JSON, or more than one value, or if `decode` does.
pub(super) fn with_body<T>(
    body: &[u8],
    decode: impl FnOnce(ObjectPosition<'_>) -> Result<T, UndecodableItem>,
) -> Result<T, UndecodableItem> {
    let body = trim(body);
    let mut scanner = Scanner::default();
    let end = scan(body, &mut scanner)?;
    let whole = ScannedValue { bytes: &body[..end], marks: scanner.marks(), control: scanner.control() };
    let object = decode(ObjectPosition::whole(whole)?)?;
    if end < body.len() {
        return Err(report(body, String::new(), format!("more text after the object, at byte {end}")));
    }
    Ok(object)
}

/// Finds the end of the value at the start of `body`.
fn scan(body: &[u8], scanner: &mut Scanner) -> Result<usize, UndecodableItem> {
    let Some(first) = body.first() else {
        return Err(report(body, String::new(), "an empty body".to_owned()));
    };
    scanner.begin(*first);
    match scanner.scan(body) {
        ScanResult::End(end) => Ok(end),
        // A number or a word at the top level ends only with the body.
        ScanResult::More if scanner.marks().is_empty() && !matches!(first, b'{' | b'[' | b'"') => {
            Ok(body.len())
        }
        ScanResult::More => {
            let reason = format!("the body ends early, after {} bytes", body.len());
            Err(report(body, String::new(), reason))
        }
    }
}

/// Creates a report with as much of the identity of an object as can be read.
fn report(object: &[u8], path: String, reason: String) -> UndecodableItem {
    let (key, version) = identity(object).unwrap_or_default();
    UndecodableItem { key, version, event: None, path, reason }
}

fn identity(object: &[u8]) -> Option<(Option<ObjectKey>, ResourceVersion)> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        metadata: Names<'a>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Names<'a> {
        #[serde(borrow, default)]
        name: Cow<'a, str>,
        #[serde(borrow, default)]
        namespace: Option<Cow<'a, str>>,
        #[serde(default)]
        resource_version: ResourceVersion,
    }

    // An object that is not UTF-8 may still have a name that is.
    let text = String::from_utf8_lossy(object);
    let mut scanner = Scanner::default();
    scanner.begin(*text.as_bytes().first()?);
    let ScanResult::End(end) = scanner.scan(text.as_bytes()) else {
        return None;
    };
    let cursor = Cursor::new(&text[..end], scanner.marks(), 0, 0);
    let names = Named::deserialize(&mut Reader::json(cursor, Role::Root)).ok()?.metadata;
    let key = ObjectKey::from_parts(names.namespace.as_deref(), &names.name).ok();
    Some((key, names.resource_version))
}
