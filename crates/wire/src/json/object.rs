//! Decoding one scanned value into a typed object, or into a report of what is wrong with it.

use std::borrow::Cow;

use dogwatch_core::{ObjectKey, ResourceVersion};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cursor::Cursor;
use super::reader::Reader;
use super::scan::{Mark, ScanResult, Scanner};
use super::value_buffer::ScannedValue;
use crate::bad_item::UndecodableItem;
use crate::fields::Fields;

/// The position of an object inside a scanned value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPosition<'a> {
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

    /// Decodes the object at this position.
    ///
    /// # Errors
    /// Returns an error with the path of the problem if the object does not match the type.
    pub(super) fn decode<T: DeserializeOwned>(self, fields: Fields) -> Result<T, UndecodableItem> {
        let mut reader = Reader::new(self.cursor(), fields);
        match T::deserialize(&mut reader) {
            // Only a number or a word can be followed by more text: nothing else marks where they
            // end.
            Ok(_) if self.depth == 0 && reader.cursor.at() < self.text.len() => {
                Err(self.report(String::new(), reader.cursor.error("more text after the value").reason(0)))
            }
            Ok(object) => Ok(object),
            Err(error) => {
                let error = error.or_at(reader.cursor.at());
                Err(self.report(error.path(), error.reason(self.at)))
            }
        }
    }

    /// Reports a problem of the object at this position.
    #[cold]
    pub(super) fn report(self, path: String, reason: String) -> UndecodableItem {
        report(&self.text.as_bytes()[self.at..], path, reason)
    }
}

/// Decodes a body that is one object.
///
/// # Errors
/// Returns an error if it is not JSON, or more than one value, or does not match the type.
pub(crate) fn from_slice<T: DeserializeOwned>(body: &[u8], fields: Fields) -> Result<T, UndecodableItem> {
    let body = body.trim_ascii();
    let mut scanner = Scanner::default();
    let end = match body.first() {
        None => return Err(report(body, String::new(), "an empty body".to_owned())),
        Some(first) => {
            scanner.begin(*first);
            scanner.scan(body)
        }
    };
    let at = match end {
        // A number or a word at the top level ends only with the body.
        ScanResult::More if scanner.marks().is_empty() && !matches!(body, [b'{' | b'[' | b'"', ..]) => {
            body.len()
        }
        ScanResult::More => {
            let reason = format!("the body ends early, after {} bytes", body.len());
            return Err(report(body, String::new(), reason));
        }
        ScanResult::End(end) => end,
    };
    let whole = ScannedValue { bytes: &body[..at], marks: scanner.marks(), control: scanner.control() };
    let object = ObjectPosition::whole(whole)?.decode(fields)?;
    if at < body.len() {
        return Err(report(body, String::new(), format!("more text after the object, at byte {at}")));
    }
    Ok(object)
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
    let names = Named::deserialize(&mut Reader::new(cursor, Fields::default())).ok()?.metadata;
    let key = ObjectKey::from_parts(names.namespace.as_deref(), &names.name).ok();
    Some((key, names.resource_version))
}
