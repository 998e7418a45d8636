//! Moves over a complete value by its marks: tokens, strings, and skipping of ignored values.
//!
//! The reader drives it. It checks the grammar of everything it visits; in skipped values it checks
//! only quotes and brackets, which makes narrow views fast.

use std::fmt;

use serde::de::{Expected, Unexpected};

use super::number::{self, Number, number};
use super::scan::{Mark, last_bracket};
use super::text::unescape;

/// The maximal nesting depth of an object that is read, as in serde_json. Skipped values may be
/// nested deeper.
const MAX_DEPTH: u32 = 127;

/// An error of reading a value.
#[derive(Debug)]
pub(super) struct ReadError(Box<Fault>);

#[derive(Debug)]
struct Fault {
    what: String,
    at: Option<usize>,
    /// The way to the value, from the inside out.
    path: Vec<Segment>,
}

/// A step of the way to a value.
#[derive(Debug)]
enum Segment {
    Member(String),
    Element(usize),
}

/// A string of the value: borrowed from it, or unescaped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'de, 's> {
    Borrowed(&'de str),
    Unescaped(&'s str),
}

/// A position in a complete value.
#[derive(Debug)]
pub(super) struct Cursor<'de> {
    text: &'de str,
    marks: &'de [Mark],
    at: usize,
    /// The number of brackets that are open around `at`. Invariant: the same as the scanner's
    /// depth.
    depth: u32,
    /// The maximal number of open brackets. Counted from the start of the object, so that it may be
    /// as deep in a watch as in a list.
    deepest: u32,
    /// The unescaped form of the last string with escapes.
    scratch: String,
}

impl<'de> Cursor<'de> {
    /// Creates a cursor at a position inside a scanned value, with `depth` brackets open around it.
    pub(super) fn new(text: &'de str, marks: &'de [Mark], at: usize, depth: u32) -> Self {
        Self { text, marks, at, depth, deepest: depth + MAX_DEPTH, scratch: String::new() }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Moves to a position that [`Self::at`] returned, at the same depth.
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<u8, ReadError> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(self.error("unexpected end")),
            }
        }
    }

    /// Consumes this byte, or fails.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), ReadError> {
        if self.peek()? != byte {
            return Err(self.expected(char::from(byte)));
        }
        self.at += 1;
        Ok(())
    }

    /// Consumes the opening bracket at this position.
    #[inline]
    pub(super) fn enter(&mut self) -> Result<(), ReadError> {
        if self.depth == self.deepest {
            return Err(self.error(format_args!("nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Consumes the closing bracket that must be at this position.
    #[inline]
    pub(super) fn leave(&mut self, close: u8) -> Result<(), ReadError> {
        self.expect(close)?;
        self.depth -= 1;
        Ok(())
    }

    /// Moves to the next element inside brackets, over a comma unless it is the first. Returns
    /// false at the end.
    #[inline]
    pub(super) fn next(&mut self, first: bool, close: u8) -> Result<bool, ReadError> {
        match self.peek()? {
            byte if byte == close => return Ok(false),
            b',' if !first => self.at += 1,
            _ if first => {}
            _ => return Err(self.error("expected a comma or the end")),
        }
        // A comma must be followed by an element.
        if !first && self.peek()? == close {
            return Err(self.error("a comma before the end"));
        }
        Ok(true)
    }

    /// Consumes the string that must be at this position.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Text<'de, '_>, ReadError> {
        let start = self.at + 1;
        let (end, escapes) = self.string_end()?;
        let raw = &self.text[start..end];
        self.at = end + 1;
        if !escapes {
            return Ok(Text::Borrowed(raw));
        }
        self.scratch.clear();
        match unescape(raw, &mut self.scratch) {
            Ok(()) => Ok(Text::Unescaped(&self.scratch)),
            Err(bad) => {
                self.at = start + bad.0;
                Err(self.error("not a valid escape"))
            }
        }
    }

    /// Consumes the number that must be at this position.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number, ReadError> {
        match number(&self.text.as_bytes()[self.at..]) {
            Some((number, length)) => {
                self.at += length;
                Ok(number)
            }
            None => Err(self.error("not a valid number")),
        }
    }

    /// Consumes `true`, `false` or `null`.
    #[inline]
    pub(super) fn word(&mut self, word: &str) -> Result<(), ReadError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("not a JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips the value at this position.
    pub(super) fn skip(&mut self) -> Result<(), ReadError> {
        match self.peek()? {
            b'{' | b'[' => self.at = self.closing_bracket()? + 1,
            b'"' => self.at = self.string_end()?.0 + 1,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            // The number is not passed to a type, so it may be beyond the range of all of them.
            _ => match number::length(&self.text.as_bytes()[self.at..]) {
                Some(length) => self.at += length,
                None => return Err(self.error("not a valid number")),
            },
        }
        Ok(())
    }

    /// Returns a lower bound of the number of elements that follow in the array around this
    /// position.
    ///
    /// Elements are counted by their brackets or quotes, so numbers and `{}` are not counted; and
    /// the look-ahead is bounded, so that deep nesting is not walked once per level. It pays off: a
    /// vector that grows by doubling copies its elements, which are large, and leaves up to half of
    /// its capacity unused.
    pub(super) fn elements_ahead(&self) -> usize {
        const BLOCKS: usize = 256;
        let Some(first) = self.text.as_bytes().get(self.at) else {
            return 0;
        };
        let strings = match first {
            b'"' => true,
            b'{' | b'[' => false,
            _ => return 0,
        };
        let (mut depth, mut brackets, mut quotes) = (0_u32, 0, 0);
        let mut from = !0 << (self.at % 64);
        for mark in self.marks.iter().skip(self.at / 64).take(BLOCKS) {
            let mut bits = (mark.open | mark.close) & from;
            while bits != 0 {
                let lowest = bits & bits.wrapping_neg();
                if mark.open & lowest != 0 {
                    brackets += usize::from(depth == 0);
                    depth += 1;
                } else if depth > 0 {
                    depth -= 1;
                } else if strings {
                    return (quotes + (mark.quote & from & (lowest - 1)).count_ones() as usize) / 2;
                } else {
                    return brackets;
                }
                bits ^= lowest;
            }
            quotes += (mark.quote & from).count_ones() as usize;
            from = !0;
        }
        if strings { quotes / 2 } else { brackets }
    }

    #[cold]
    pub(super) fn expected(&self, wanted: char) -> ReadError {
        self.error(format_args!("expected `{wanted}`"))
    }

    /// Returns an error at this position.
    #[cold]
    pub(super) fn error(&self, what: impl fmt::Display) -> ReadError {
        ReadError(Box::new(Fault { what: what.to_string(), at: Some(self.at), path: Vec::new() }))
    }

    /// Adds the member whose key is at `key` to the path of an error in its value.
    #[cold]
    pub(super) fn in_member(&mut self, key: usize, mut error: ReadError) -> ReadError {
        self.at = key;
        // It was read before, so it is valid.
        let name = self.string().map(|it| it.as_str().to_owned()).unwrap_or_default();
        error.0.path.push(Segment::Member(name));
        error
    }

    /// Returns the end of the string at this position, and whether it has escapes.
    #[inline]
    fn string_end(&self) -> Result<(usize, bool), ReadError> {
        let start = self.at + 1;
        let mut block = start / 64;
        let mut from = !0 << (start % 64);
        let mut escapes = 0;
        while let Some(mark) = self.marks.get(block) {
            let quote = mark.quote & from;
            if quote != 0 {
                let before = (quote & quote.wrapping_neg()) - 1;
                escapes |= mark.backslash & from & before;
                return Ok((block * 64 + quote.trailing_zeros() as usize, escapes != 0));
            }
            escapes |= mark.backslash & from;
            from = !0;
            block += 1;
        }
        Err(self.error("an unterminated string"))
    }

    /// Returns the position of the bracket that closes the one at this position.
    fn closing_bracket(&self) -> Result<usize, ReadError> {
        // The scanner omits empty pairs of brackets.
        if matches!(self.text.as_bytes().get(self.at + 1), Some(b'}' | b']')) {
            return Ok(self.at + 1);
        }
        let mut block = self.at / 64;
        let from = !0 << (self.at % 64);
        let within = |mark: &Mark| last_bracket(mark.open & from, mark.close & from, self.depth, self.depth);
        if let Some(bit) = self.marks.get(block).and_then(within) {
            return Ok(block * 64 + bit);
        }
        block += 1;
        for mark in self.marks.iter().skip(block) {
            // A block whose floor is above the depth cannot contain the bracket.
            if mark.floor <= self.depth
                && let Some(bit) = last_bracket(mark.open, mark.close, mark.depth, self.depth)
            {
                return Ok(block * 64 + bit);
            }
            block += 1;
        }
        Err(self.error("an unbalanced bracket"))
    }
}

impl ReadError {
    /// Sets the position, unless it is already known.
    pub(super) fn or_at(mut self, at: usize) -> Self {
        self.0.at.get_or_insert(at);
        self
    }

    /// Adds an element of an array to the path of an error in it.
    #[cold]
    pub(super) fn in_element(mut self, index: usize) -> Self {
        self.0.path.push(Segment::Element(index));
        self
    }

    /// Returns the path of the value, such as `spec.containers[0].image`; empty for the whole object.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.0.path.iter().rev() {
            match segment {
                Segment::Member(name) => {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(name);
                }
                Segment::Element(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// Describes the error for an object that starts at `base`.
    pub(super) fn reason(self, base: usize) -> String {
        match self.0.at {
            Some(at) => format!("{} at byte {} of the object", self.0.what, at.saturating_sub(base)),
            None => self.0.what,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<M: fmt::Display>(what: M) -> Self {
        Self(Box::new(Fault { what: what.to_string(), at: None, path: Vec::new() }))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid type: {}, expected {wanted}", describe(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid value: {}, expected {wanted}", describe(found)))
    }

    /// The variant is text of the object, and is not quoted either: see [`describe`].
    fn unknown_variant(found: &str, wanted: &'static [&'static str]) -> Self {
        let wanted = wanted.join(", ");
        Self::custom(format_args!(
            "unknown variant: a string of {} bytes, expected one of {wanted}",
            found.len()
        ))
    }
}

/// Describes the value that was found, but never quotes text: errors are logged, and the text may
/// be a secret.
fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Str(text) => format!("a string of {} bytes", text.len()),
        Unexpected::Bytes(bytes) => format!("a string of {} bytes", bytes.len()),
        found => found.to_string(),
    }
}

impl Text<'_, '_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Unescaped(text) => text,
        }
    }
}
