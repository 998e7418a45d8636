//! Checks a whole message without reading it into a type.

use super::fields::{Fields, Raw};
use super::schema::{Field, Form, Repeat, Schema, Shape};
use crate::bad_item::{TOO_DEEP, UNKNOWN_FIELD};
use crate::read_error::ReadError;

/// The maximal nesting depth of an object that is read, as for JSON.
const MAX_DEPTH: u32 = 127;

/// Checks that a message can be read: its structure, its depth, the order of its fields and, if
/// `known_only` is set, that all of them are in the table.
///
/// # Errors
/// Returns an error with the path of the first problem.
pub(crate) fn check(message: u16, bytes: &[u8], known_only: bool) -> Result<(), ReadError> {
    Check { schema: Schema::get(), known_only }.message(message, bytes, 0)
}

struct Check {
    schema: &'static Schema,
    known_only: bool,
}

impl Check {
    /// Checks a message inside of `depth` maps and sequences.
    fn message(&self, message: u16, bytes: &[u8], depth: u32) -> Result<(), ReadError> {
        if depth >= MAX_DEPTH {
            return Err(ReadError::new(format_args!("{TOO_DEEP} {MAX_DEPTH}"), None));
        }
        let message = self.schema.message(message);
        let (mut seen, mut last) = (0_u64, 0);
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            let Some(field) = self.schema.field(message, number) else {
                if self.known_only {
                    return Err(ReadError::new(format_args!("{UNKNOWN_FIELD} {number}"), None));
                }
                last = number;
                continue;
            };
            let bit = 1 << field.number;
            let continues = number == last && matches!(field.repeat, Repeat::Many | Repeat::Map);
            if seen & bit != 0 && !continues {
                return Err(ReadError::disordered());
            }
            seen |= bit;
            last = number;
            self.field(field, raw, depth).map_err(|error| error.in_member(field.name))?;
        }
        Ok(())
    }

    fn field(&self, field: Field, raw: Raw<'_>, depth: u32) -> Result<(), ReadError> {
        match (field.repeat, field.shape) {
            (Repeat::One | Repeat::OneUnlessEmpty, Shape::Message(message)) => {
                // JSON has the fields of such a message in the map around it.
                let levels = if field.name == "." { 0 } else { 1 };
                self.nested(message, raw.bytes()?, depth + levels)
            }
            (Repeat::Many, Shape::Message(message)) => self.nested(message, raw.bytes()?, depth + 2),
            (Repeat::Map, shape) => {
                let mut parts = Fields::new(raw.bytes()?);
                while let Some((number, part)) = parts.next()? {
                    if let (2, Shape::Message(message)) = (number, shape) {
                        self.nested(message, part.bytes()?, depth + 2)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a message in a field. Those with a JSON form of their own are read when they are
    /// needed.
    fn nested(&self, message: u16, bytes: &[u8], depth: u32) -> Result<(), ReadError> {
        match self.schema.message(message).form {
            Form::Object => self.message(message, bytes, depth),
            // JSON has the schema, or the list, in its place.
            Form::SchemaOrBool | Form::SchemaOrList => self.message(message, bytes, depth.saturating_sub(1)),
            _ => Ok(()),
        }
    }
}
