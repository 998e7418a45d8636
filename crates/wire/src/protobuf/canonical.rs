//! Brings the fields of a message into the order in which the cursor can read them.
//!
//! Protobuf allows the parts of a repeated field to be anywhere in a message, and a single field to
//! be repeated: the last one counts, and messages are merged. No Kubernetes component writes
//! messages in this way, so the cursor does not expect it; it reports such a message, which is then
//! rewritten here and read again.

use super::fields::{Fields, Raw, malformed};
use super::output::push;
use super::schema::{Repeat, Schema, Shape};
use crate::read_error::ReadError;

/// The maximal nesting of messages that are rewritten.
const MAX_DEPTH: u32 = 256;

/// Returns the same message with its fields in ascending order, and single fields once.
///
/// # Errors
/// Returns an error if the message is malformed or nested too deeply.
pub(crate) fn canonical(schema: &Schema, message: u16, bytes: &[u8]) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::with_capacity(bytes.len());
    rewrite(schema, message, bytes, 0, &mut out)?;
    Ok(out)
}

fn rewrite(
    schema: &Schema,
    message: u16,
    bytes: &[u8],
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    if depth == MAX_DEPTH {
        return Err(malformed("nested too deeply"));
    }
    let message = schema.message(message);
    let mut parts = Vec::new();
    let mut fields = Fields::new(bytes);
    while let Some((number, raw)) = fields.next()? {
        if let Some(field) = schema.field(message, number) {
            parts.push((field, raw));
        }
    }
    parts.sort_by_key(|(field, _)| field.number);
    for same in parts.chunk_by(|one, other| one.0.number == other.0.number) {
        let Some((field, last)) = same.last().copied() else { continue };
        let mut inner = Vec::new();
        match (field.repeat, field.shape) {
            (Repeat::One | Repeat::OneUnlessEmpty, Shape::Message(message)) => {
                let mut joined = Vec::new();
                for (_, raw) in same {
                    joined.extend_from_slice(raw.bytes()?);
                }
                rewrite(schema, message, &joined, depth + 1, &mut inner)?;
                push(field.number, Raw::Bytes(&inner), out);
            }
            (Repeat::One | Repeat::OneUnlessEmpty, _) => push(field.number, last, out),
            (Repeat::Many, Shape::Message(message)) => {
                for (_, raw) in same {
                    inner.clear();
                    rewrite(schema, message, raw.bytes()?, depth + 1, &mut inner)?;
                    push(field.number, Raw::Bytes(&inner), out);
                }
            }
            (Repeat::Map, Shape::Message(message)) => {
                for (_, raw) in same {
                    inner.clear();
                    entry(schema, message, raw.bytes()?, depth + 1, &mut inner)?;
                    push(field.number, Raw::Bytes(&inner), out);
                }
            }
            (Repeat::Many | Repeat::Map, _) => {
                for (_, raw) in same {
                    push(field.number, *raw, out);
                }
            }
        }
    }
    Ok(())
}

/// Rewrites an entry of a map whose values are messages.
fn entry(
    schema: &Schema,
    message: u16,
    bytes: &[u8],
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    let mut joined = Vec::new();
    let mut fields = Fields::new(bytes);
    while let Some((number, raw)) = fields.next()? {
        match number {
            1 => push(1, raw, out),
            2 => joined.extend_from_slice(raw.bytes()?),
            _ => {}
        }
    }
    let mut inner = Vec::new();
    rewrite(schema, message, &joined, depth, &mut inner)?;
    push(2, Raw::Bytes(&inner), out);
    Ok(())
}
