//! Writes the JSON of an object as a protobuf message.
//!
//! Fields are written in the order of their numbers, as Go does. Members that the message does not
//! have are left out, as they are when Go decodes the JSON into its types.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::envelope::Envelope;
use super::fields::Raw;
use super::output::{push, push_nested};
use super::schema::{Field, Form, Repeat, Schema, Shape};
use super::times::parse_time;

/// The maximal nesting depth, as for decoding.
const MAX_DEPTH: u32 = 127;

/// An error of encoding an object as protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot encode {}: {reason}", if path.is_empty() { "the object" } else { path })]
pub struct EncodeError {
    /// The path to the field, such as `spec.containers[0].ports`; empty for the object as a whole.
    pub path: String,
    /// A description of the problem.
    pub reason: String,
}

impl EncodeError {
    #[cold]
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self { path: String::new(), reason: reason.to_string() }
    }

    #[cold]
    fn expected(wanted: &str, found: &Value) -> Self {
        // The value may be a secret.
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "another number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Self::new(format_args!("expected {wanted}, found {found}"))
    }

    #[cold]
    fn within(mut self, step: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{dot}{}", self.path);
        self
    }
}

/// Returns the body of an object: its envelope, with its message.
///
/// # Errors
/// Returns an error if the object has no API version and kind, if the kind has no protobuf
/// encoding, or if a value does not have the type of its field. If `known_only` is set, also if a
/// member is not a field; otherwise it is left out.
pub(crate) fn encode(object: &Value, known_only: bool) -> Result<Vec<u8>, EncodeError> {
    let Value::Object(members) = object else { return Err(EncodeError::expected("an object", object)) };
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let schema = Schema::get();
    let Some(message) = schema.of_kind(api_version, kind) else {
        return Err(EncodeError::new(format_args!(
            "the kind {kind:?} of {api_version:?} has no protobuf encoding"
        )));
    };
    let mut content = Vec::new();
    Encoder { schema, depth: 0, known_only }.fields(message, members, &mut content)?;
    Ok([&Envelope::head(api_version, kind, content.len())[..], &content, Envelope::TAIL].concat())
}

#[derive(Clone, Copy)]
struct Encoder {
    schema: &'static Schema,
    depth: u32,
    /// True if a member that is not a field is an error.
    known_only: bool,
}

impl Encoder {
    /// Appends the fields of a message.
    fn fields(self, message: u16, object: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.depth == MAX_DEPTH {
            return Err(EncodeError::new(format_args!("nested deeper than {MAX_DEPTH}")));
        }
        if self.known_only {
            // The API version and the kind of the object itself are in its envelope.
            let is_outside = |name: &str| self.depth == 0 && matches!(name, "apiVersion" | "kind");
            let is_lost = |(name, value): &(&String, &Value)| {
                !value.is_null() && !is_outside(name) && !self.knows(message, name)
            };
            if let Some((name, _)) = object.iter().find(is_lost) {
                return Err(EncodeError::new("protobuf has no such field").within(name));
            }
        }
        let inner = Self { depth: self.depth + 1, ..self };
        let message = self.schema.message(message);
        for number in 1..64 {
            let Some(field) = self.schema.field(message, number) else { continue };
            if let (".", Shape::Message(embedded)) = (field.name, field.shape) {
                // Its members are those of the message around it, which has checked them.
                let inner = Self { known_only: false, ..inner };
                push_nested(u32::from(field.number), out, |out| inner.fields(embedded, object, out))?;
                continue;
            }
            match object.get(field.name) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    inner.field(field, value, out).map_err(|error| error.within(field.name))?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether a message, or one whose fields are members of the same object, has a field.
    fn knows(self, message: u16, name: &str) -> bool {
        let message = self.schema.message(message);
        (1..64).filter_map(|number| self.schema.field(message, number)).any(|field| match field.shape {
            Shape::Message(embedded) if field.name == "." => self.knows(embedded, name),
            _ => field.name == name,
        })
    }

    fn field(self, field: Field, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match (field.repeat, value) {
            (Repeat::One | Repeat::OneUnlessEmpty, value) => {
                self.value(field.number, field.shape, value, out)
            }
            (Repeat::Many, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(field.number, field.shape, item, out)
                        .map_err(|error| error.within(&format!("[{index}]")))?;
                }
                Ok(())
            }
            (Repeat::Many, value) => Err(EncodeError::expected("a list", value)),
            (Repeat::Map, Value::Object(entries)) => {
                for (key, value) in entries {
                    push_nested(u32::from(field.number), out, |out| {
                        push(1, Raw::Bytes(key.as_bytes()), out);
                        if value.is_null() {
                            return Ok(());
                        }
                        self.value(2, field.shape, value, out).map_err(|error| error.within(key))
                    })?;
                }
                Ok(())
            }
            (Repeat::Map, value) => Err(EncodeError::expected("an object", value)),
        }
    }

    /// Appends one value as a field with this number.
    fn value(self, number: u8, shape: Shape, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let raw = match shape {
            Shape::Message(message) => {
                return push_nested(u32::from(number), out, |out| self.message(message, value, out));
            }
            Shape::Bytes => {
                let text = text(value)?;
                let bytes = BASE64_STANDARD.decode(text).map_err(|_| EncodeError::new("not valid base64"))?;
                push(u32::from(number), Raw::Bytes(&bytes), out);
                return Ok(());
            }
            Shape::String => Raw::Bytes(text(value)?.as_bytes()),
            Shape::Bool => match value {
                Value::Bool(value) => Raw::Varint((*value).into()),
                value => return Err(EncodeError::expected("a boolean", value)),
            },
            Shape::Integer => Raw::Varint(integer(value)?.cast_unsigned()),
            Shape::Double => match value.as_f64() {
                Some(value) => Raw::Fixed64(value.to_bits()),
                None => return Err(EncodeError::expected("a number", value)),
            },
        };
        push(u32::from(number), raw, out);
        Ok(())
    }

    /// Appends the content of a message.
    fn message(self, message: u16, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match (self.schema.message(message).form, value) {
            (Form::Object, Value::Object(members)) => self.fields(message, members, out)?,
            (Form::Object, value) => return Err(EncodeError::expected("an object", value)),
            (Form::Quantity, Value::Number(number)) => {
                push(1, Raw::Bytes(number.to_string().as_bytes()), out);
            }
            (Form::Quantity, value) => push(1, Raw::Bytes(text(value)?.as_bytes()), out),
            (Form::Time | Form::MicroTime, Value::Null) => {}
            (Form::Time | Form::MicroTime, value) => {
                let wrong = || EncodeError::new("not a time such as 2026-01-02T03:04:05Z");
                let (seconds, nanos) = parse_time(text(value)?).ok_or_else(wrong)?;
                push(1, Raw::Varint(seconds.cast_unsigned()), out);
                push(2, Raw::Varint(nanos.cast_unsigned()), out);
            }
            (Form::IntOrString, Value::String(text)) => {
                push(1, Raw::Varint(1), out);
                push(2, Raw::Varint(0), out);
                push(3, Raw::Bytes(text.as_bytes()), out);
            }
            (Form::IntOrString, value) => {
                push(1, Raw::Varint(0), out);
                push(2, Raw::Varint(integer(value)?.cast_unsigned()), out);
                push(3, Raw::Bytes(b""), out);
            }
            (Form::Raw, value) => push(1, Raw::Bytes(value.to_string().as_bytes()), out),
            (Form::Strings, Value::Array(items)) => {
                for item in items {
                    push(1, Raw::Bytes(text(item)?.as_bytes()), out);
                }
            }
            (Form::Strings, value) => return Err(EncodeError::expected("a list", value)),
            // An object stands for `true` as well.
            (Form::SchemaOrBool, value) => {
                let allows = value.as_bool().unwrap_or(true);
                self.alternative(message, "allows", &Value::Bool(allows), out)?;
                // Anything else means nothing, and must not make the definition unreadable.
                if value.is_object() {
                    self.alternative(message, "schema", value, out)?;
                }
            }
            (Form::SchemaOrList, Value::Array(_)) => {
                self.alternative(message, "jSONSchemas", value, out)?;
                self.alternative(message, "property", value, out)?;
            }
            (Form::SchemaOrList, Value::Object(_)) => self.alternative(message, "schema", value, out)?,
            (Form::SchemaOrList, _) => {}
            (Form::Duration, value) => return Err(EncodeError::expected("no duration", value)),
        }
        Ok(())
    }

    /// Appends the field with this name of a message that stands for one of its fields, if it has
    /// it.
    fn alternative(
        self,
        message: u16,
        name: &str,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let message = self.schema.message(message);
        match (1..64).find_map(|it| self.schema.field(message, it).filter(|it| it.name == name)) {
            Some(field) => self.field(field, value, out),
            None => Ok(()),
        }
    }
}

fn text(value: &Value) -> Result<&str, EncodeError> {
    value.as_str().ok_or_else(|| EncodeError::expected("a string", value))
}

/// Returns an integer; a float without a fraction is one too.
fn integer(value: &Value) -> Result<i64, EncodeError> {
    let whole = value.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < 9e15);
    match (value.as_i64(), whole) {
        (Some(integer), _) => Ok(integer),
        // Exact, because it has no fraction and less than 53 bits.
        (None, Some(float)) => Ok(float as i64),
        (None, None) => Err(EncodeError::expected("an integer", value)),
    }
}
