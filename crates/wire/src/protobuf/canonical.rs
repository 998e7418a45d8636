//! Brings the fields of a message into the order in which the cursor can read them.
//!
//! Protobuf allows the parts of a repeated field to be anywhere in a message, and a single field to
//! be repeated: the last one counts, and messages are merged. No Kubernetes component writes
//! messages in this way, so the cursor does not expect it; it reports such a message, which is then
//! rewritten here and read again.

use std::borrow::Cow;

use super::fields::{Fields, Raw, malformed};
use super::output::push;
use super::schema::{Repeat, Schema, Shape};
use crate::bad_item::TOO_DEEP;
use crate::read_error::ReadError;

/// The maximal nesting of messages that are rewritten.
const MAX_DEPTH: u32 = 127;
/// The maximal number of bytes of messages that are joined, for each byte of the whole message: the
/// joined bytes of all levels are in memory at the same time.
const MAX_JOINED: usize = 4;

/// Returns the same message with its fields in ascending order, and single fields once.
///
/// # Errors
/// Returns an error if the message is malformed or nested too deeply.
pub(crate) fn canonical(schema: &Schema, message: u16, bytes: &[u8]) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rewriter = Rewriter { schema, budget: bytes.len().saturating_mul(MAX_JOINED) };
    rewriter.message(message, bytes, 0, &mut out)?;
    Ok(out)
}

struct Rewriter<'s> {
    schema: &'s Schema,
    /// The number of bytes that may still be joined.
    budget: usize,
}

impl Rewriter<'_> {
    fn message(
        &mut self,
        message: u16,
        bytes: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        if depth == MAX_DEPTH {
            return Err(ReadError::new(format_args!("{TOO_DEEP} {MAX_DEPTH}"), None));
        }
        let message = self.schema.message(message);
        let mut parts = Vec::new();
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            match self.schema.field(message, number) {
                Some(field) => parts.push((field, raw)),
                // Kept, so that the reader notices it.
                None => push(number, raw, out),
            }
        }
        parts.sort_by_key(|(field, _)| field.number);
        for same in parts.chunk_by(|one, other| one.0.number == other.0.number) {
            let Some((field, last)) = same.last().copied() else { continue };
            match (field.repeat, field.shape) {
                (Repeat::One | Repeat::OneUnlessEmpty, Shape::Message(inner)) => {
                    let joined = self.joined(same.iter().map(|it| it.1))?;
                    self.nested(field.number, inner, &joined, depth, out)?;
                }
                (Repeat::One | Repeat::OneUnlessEmpty, _) => push(u32::from(field.number), last, out),
                (Repeat::Many, Shape::Message(inner)) => {
                    for (_, raw) in same {
                        self.nested(field.number, inner, raw.bytes()?, depth, out)?;
                    }
                }
                (Repeat::Many, _) => same.iter().for_each(|it| push(u32::from(field.number), it.1, out)),
                (Repeat::Map, shape) => {
                    for (_, raw) in same {
                        let mut entry = Vec::new();
                        self.entry(shape, raw.bytes()?, depth, &mut entry)?;
                        push(u32::from(field.number), Raw::Bytes(&entry), out);
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends a message as a field.
    fn nested(
        &mut self,
        number: u8,
        message: u16,
        bytes: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let mut content = Vec::new();
        self.message(message, bytes, depth + 1, &mut content)?;
        push(u32::from(number), Raw::Bytes(&content), out);
        Ok(())
    }

    /// Appends the parts of an entry of a map, of which the last ones count.
    fn entry(&mut self, shape: Shape, bytes: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let (mut key, mut values) = (None, Vec::new());
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            match number {
                1 => key = Some(raw),
                2 => values.push(raw),
                _ => {}
            }
        }
        if let Some(key) = key {
            push(1, key, out);
        }
        match (shape, values.last()) {
            (Shape::Message(message), Some(_)) => {
                let joined = self.joined(values.iter().copied())?;
                self.nested(2, message, &joined, depth, out)?;
            }
            (_, Some(last)) => push(2, *last, out),
            (_, None) => {}
        }
        Ok(())
    }

    /// Joins the parts of a message. A single part, the usual case, is not copied.
    fn joined<'b>(
        &mut self,
        mut parts: impl ExactSizeIterator<Item = Raw<'b>>,
    ) -> Result<Cow<'b, [u8]>, ReadError> {
        if parts.len() == 1 {
            return parts.next().map_or(Ok(&[][..]), Raw::bytes).map(Cow::Borrowed);
        }
        let mut joined = Vec::new();
        for part in parts {
            let part = part.bytes()?;
            let Some(budget) = self.budget.checked_sub(part.len()) else {
                return Err(malformed("too many messages are split into parts"));
            };
            self.budget = budget;
            joined.extend_from_slice(part);
        }
        Ok(Cow::Owned(joined))
    }
}
