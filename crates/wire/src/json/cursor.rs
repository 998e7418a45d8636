//! Moves over a complete value by its marks: tokens, strings, and skipping of ignored values.
//!
//! The reader drives it. It checks the grammar of everything it visits; in skipped values it checks
//! only quotes and brackets, which makes narrow views fast.

use std::fmt;
use std::ops::Range;

use super::number;
use super::scan::{Mark, ScanResult, Scanner, last_bracket};
use super::text::unescape;
use crate::bad_item::TOO_DEEP;
use crate::read_error::ReadError;
use crate::token::{Number, Text, Token};

/// The maximal nesting depth of an object that is read, as in serde_json. Skipped values may be
/// nested deeper.
const MAX_DEPTH: u32 = 127;

/// Removes the white space of JSON around a value: Rust's also includes the form feed.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\n' | b'\r'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A position in a complete value.
#[derive(Debug)]
pub(crate) struct Cursor<'de> {
    text: &'de str,
    marks: &'de [Mark],
    /// The marks of a value that the cursor has scanned itself; otherwise empty.
    own_marks: Vec<Mark>,
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

/// The start of a member of an object.
struct MemberStart {
    /// The position of the comma before it, unless it is the first.
    separator: usize,
    key: usize,
    is_first: bool,
}

impl<'de> Cursor<'de> {
    /// Creates a cursor at a position inside a scanned value, with `depth` brackets open around it.
    pub(crate) fn new(text: &'de str, marks: &'de [Mark], at: usize, depth: u32) -> Self {
        let (own_marks, scratch) = (Vec::new(), String::new());
        Self { text, marks, own_marks, at, depth, deepest: depth + MAX_DEPTH, scratch }
    }

    /// Creates a cursor at the start of a value that has not been scanned yet, inside of `levels`
    /// levels of another encoding.
    ///
    /// # Errors
    /// Returns an error if the text is not exactly one value.
    pub(crate) fn scan(bytes: &'de [u8], levels: u32) -> Result<Self, ReadError> {
        let bytes = trim(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| ReadError::new("invalid UTF-8 in JSON", None))?;
        let mut scanner = Scanner::default();
        scanner.begin(bytes.first().copied().unwrap_or_default());
        let is_scalar = !matches!(bytes, [b'{' | b'[' | b'"', ..]);
        match scanner.scan(bytes) {
            ScanResult::End(end) if end == bytes.len() => {}
            // Nothing marks the end of a number or a word.
            ScanResult::More if is_scalar => {}
            ScanResult::End(_) => return Err(ReadError::new("more text after the JSON value", None)),
            ScanResult::More => return Err(ReadError::new("the JSON value ends early", None)),
        }
        if scanner.control().is_some() {
            return Err(ReadError::new("a control character in a JSON string", None));
        }
        let deepest = MAX_DEPTH.saturating_sub(levels);
        Ok(Self { own_marks: scanner.into_marks(), deepest, ..Self::new(text, &[], 0, 0) })
    }

    /// Returns the marks of the value.
    #[inline]
    fn marks(&self) -> &[Mark] {
        if self.own_marks.is_empty() { self.marks } else { &self.own_marks }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves back to a position at the same depth.
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, ReadError> {
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
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), ReadError> {
        if self.peek()? != byte {
            return Err(self.expected(char::from(byte)));
        }
        self.at += 1;
        Ok(())
    }

    /// Consumes the opening bracket at this position.
    #[inline]
    pub(crate) fn enter(&mut self) -> Result<(), ReadError> {
        if self.depth == self.deepest {
            return Err(self.error(format_args!("{TOO_DEEP} {MAX_DEPTH}")));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Consumes the closing bracket that must be at this position.
    #[inline]
    pub(crate) fn leave(&mut self, close: u8) -> Result<(), ReadError> {
        self.expect(close)?;
        self.depth -= 1;
        Ok(())
    }

    /// Moves to the next element inside brackets, over a comma unless it is the first. Returns
    /// false at the end.
    #[inline]
    pub(crate) fn next(&mut self, first: bool, close: u8) -> Result<bool, ReadError> {
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
    pub(crate) fn string(&mut self) -> Result<Text<'de, '_>, ReadError> {
        let start = self.at + 1;
        let (end, escapes) = self.string_end()?;
        let raw = &self.text[start..end];
        self.at = end + 1;
        if !escapes {
            return Ok(Text::Borrowed(raw));
        }
        self.scratch.clear();
        match unescape(raw, &mut self.scratch) {
            Ok(()) => Ok(Text::Composed(&self.scratch)),
            Err(bad) => {
                self.at = start + bad.0;
                Err(self.error("not a valid escape"))
            }
        }
    }

    /// Consumes the number that must be at this position.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<Number, ReadError> {
        match number::number(&self.text.as_bytes()[self.at..]) {
            Some((number, length)) => {
                self.at += length;
                Ok(number)
            }
            None => Err(self.error("not a valid number")),
        }
    }

    /// Consumes `true`, `false` or `null`.
    #[inline]
    pub(crate) fn word(&mut self, word: &str) -> Result<(), ReadError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("not a JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips the value at this position.
    pub(crate) fn skip(&mut self) -> Result<(), ReadError> {
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
    pub(crate) fn elements_ahead(&self) -> usize {
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
        for mark in self.marks().iter().skip(self.at / 64).take(BLOCKS) {
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

    /// Returns the next value: a scalar, which is consumed, or the start of a map or a sequence.
    pub(crate) fn token(&mut self) -> Result<Token<'de, '_>, ReadError> {
        Ok(match self.peek()? {
            b'{' => Token::Map,
            b'[' => Token::Seq,
            b'"' => Token::Text(self.string()?),
            b'n' => self.word("null").map(|()| Token::Null)?,
            b't' => self.word("true").map(|()| Token::Bool(true))?,
            b'f' => self.word("false").map(|()| Token::Bool(false))?,
            _ => Token::Number(self.number()?),
        })
    }

    /// Checks that the whole text has been read.
    pub(crate) fn end(&mut self) -> Result<(), ReadError> {
        if self.at < self.text.len() {
            return Err(self.error("more text after the value"));
        }
        Ok(())
    }

    /// Returns the text of the value at this position, and skips it.
    pub(crate) fn take_value(&mut self) -> Result<&'de str, ReadError> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.text[start..self.at])
    }

    /// Returns the positions, in the object at this position, of its managed fields, each with the
    /// comma that separates it from another member. Does not move.
    pub(crate) fn managed_fields(&mut self) -> Result<Vec<Range<usize>>, ReadError> {
        let start = self.at;
        let mut found: Vec<Range<usize>> = Vec::new();
        self.for_each_member("metadata", &mut |cursor, _| {
            if cursor.peek()? != b'{' {
                return cursor.skip();
            }
            cursor.for_each_member("managedFields", &mut |cursor, member| {
                cursor.skip()?;
                let (mut from, mut to) = (member.separator, cursor.at);
                // Without a comma before it, or with one that is removed already, the comma behind
                // it is superfluous.
                if member.is_first || found.last().is_some_and(|it| from - start < it.end) {
                    from = member.key;
                    to = if cursor.peek()? == b',' { cursor.at + 1 } else { to };
                }
                found.push(from - start..to - start);
                Ok(())
            })
        })?;
        self.at = start;
        Ok(found)
    }

    /// Returns the position of the resource version in the object at this position; `None` if its
    /// metadata have none. The last one counts, as for readers.
    pub(crate) fn resource_version(&mut self) -> Result<Option<Range<usize>>, ReadError> {
        let mut found = None;
        self.for_each_member("metadata", &mut |cursor, _| {
            if cursor.peek()? != b'{' {
                return cursor.skip();
            }
            cursor.for_each_member("resourceVersion", &mut |cursor, _| {
                cursor.peek()?;
                let start = cursor.at;
                cursor.skip()?;
                found = Some(start..cursor.at);
                Ok(())
            })
        })?;
        Ok(found)
    }

    /// Visits the value of each member of the object at this position with this key, and skips the
    /// others.
    fn for_each_member(
        &mut self,
        key: &str,
        visit: &mut dyn FnMut(&mut Self, MemberStart) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        self.enter()?;
        let mut is_first = true;
        loop {
            self.peek()?;
            let separator = self.at;
            if !self.next_key(is_first)? {
                return self.leave(b'}');
            }
            let member = MemberStart { separator, key: self.at, is_first };
            let is_wanted = self.key_is(key)?;
            self.skip()?;
            self.expect(b':')?;
            if is_wanted {
                visit(self, member)?;
            } else {
                self.skip()?;
            }
            is_first = false;
        }
    }

    /// Moves to the next key of an object. Returns false at its end.
    #[inline]
    pub(crate) fn next_key(&mut self, first: bool) -> Result<bool, ReadError> {
        let more = self.next(first, b'}')?;
        if more && self.peek()? != b'"' {
            return Err(self.expected('"'));
        }
        Ok(more)
    }

    /// Compares the key at this position without consuming it.
    pub(crate) fn key_is(&mut self, key: &str) -> Result<bool, ReadError> {
        let start = self.at;
        let same = self.string()?.as_str() == key;
        self.at = start;
        Ok(same)
    }

    /// Returns the key at a position at which one was read before.
    #[cold]
    pub(crate) fn key_at(&mut self, at: usize) -> String {
        self.at = at;
        self.string().map(|it| it.as_str().to_owned()).unwrap_or_default()
    }

    #[cold]
    pub(crate) fn expected(&self, wanted: char) -> ReadError {
        self.error(format_args!("expected `{wanted}`"))
    }

    /// Returns an error at this position.
    #[cold]
    pub(crate) fn error(&self, what: impl fmt::Display) -> ReadError {
        ReadError::new(what, Some(self.at))
    }

    /// Returns the end of the string at this position, and whether it has escapes.
    #[inline]
    fn string_end(&self) -> Result<(usize, bool), ReadError> {
        let start = self.at + 1;
        let marks = self.marks();
        let mut block = start / 64;
        let mut from = !0 << (start % 64);
        let mut escapes = 0;
        while let Some(mark) = marks.get(block) {
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
        let marks = self.marks();
        let mut block = self.at / 64;
        let from = !0 << (self.at % 64);
        let within = |mark: &Mark| last_bracket(mark.open & from, mark.close & from, self.depth, self.depth);
        if let Some(bit) = marks.get(block).and_then(within) {
            return Ok(block * 64 + bit);
        }
        block += 1;
        for mark in self.marks().iter().skip(block) {
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
