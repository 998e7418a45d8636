//! Moves over a message and reads it as the tokens that the same object has in JSON.
//!
//! Fields that JSON would omit are omitted, messages with a JSON form of their own have that form,
//! and fields of messages that JSON embeds in their parent appear there. The reader drives it.
//! Skipping a value costs nothing: its length is known.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::envelope::Envelope;
use super::fields::{Fields, Raw, malformed};
use super::schema::{Form, Message, Repeat, Schema, Shape};
use super::times::{push_duration, push_time};
use crate::bad_item::{TOO_DEEP, UNKNOWN_FIELD};
use crate::fields::Role;
use crate::read_error::ReadError;
use crate::token::{Number, Text, Token};

/// The maximal nesting depth of an object that is read, as for JSON.
const MAX_DEPTH: u32 = 127;

/// The seconds of Go's zero time, in the year 1.
const GO_ZERO_TIME: i64 = -62_135_596_800;

/// The next value of a message.
#[derive(Debug, Default)]
pub(crate) struct Cursor<'de> {
    value: Value<'de>,
    /// The maps and sequences that are open around the value.
    frames: Vec<Frame<'de>>,
    /// The number of them that are maps and sequences in JSON.
    depth: u32,
    /// True if a field that is not in the table is an error.
    known_only: bool,
    /// The last composed string.
    scratch: String,
}

#[derive(Clone, Copy, Debug, Default)]
enum Value<'de> {
    #[default]
    Null,
    /// Anything but a message.
    Scalar(Shape, Raw<'de>),
    /// A message that is a string or a number in JSON.
    Formatted(Form, &'de [u8]),
    /// JSON.
    Raw(&'de [u8]),
    Object(MessageValue<'de>),
    /// The elements of a field: all fields of `run`.
    List {
        shape: Shape,
        run: &'de [u8],
        count: usize,
    },
    /// The entries of a field: all fields of `run`.
    Map {
        shape: Shape,
        run: &'de [u8],
    },
}

/// A message that is an object in JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageValue<'de> {
    pub(crate) message: u16,
    pub(crate) bytes: &'de [u8],
    pub(crate) role: Role,
    /// The API version and the kind, if the object has an envelope.
    pub(crate) types: Option<(&'de str, &'de str)>,
}

/// A map or a sequence that is being read.
#[derive(Debug)]
enum Frame<'de> {
    Object(ObjectFrame<'de>),
    Entries { shape: Shape, entries: Fields<'de> },
    List(ListFrame<'de>),
}

/// A message that is being read as a map.
#[derive(Debug)]
struct ObjectFrame<'de> {
    message: Message,
    fields: Fields<'de>,
    /// A bit for each field number that has been read.
    seen: u64,
    role: Role,
    /// True if JSON has the fields of the message in the map of the frame below.
    embedded: bool,
    api_version: Option<&'de str>,
    kind: Option<&'de str>,
}

/// A repeated field that is being read.
#[derive(Debug)]
struct ListFrame<'de> {
    shape: Shape,
    elements: Fields<'de>,
    /// The rest of an element that holds several numbers.
    packed: Fields<'de>,
    count: usize,
}

impl<'de> Cursor<'de> {
    /// Creates a cursor at an object: its message, and its API version and kind if it has an
    /// envelope.
    pub(crate) fn new(
        message: u16,
        bytes: &'de [u8],
        role: Role,
        types: Option<(&'de str, &'de str)>,
    ) -> Self {
        let value = Value::Object(MessageValue { message, bytes, role, types });
        Self { value, ..Self::default() }
    }

    /// Sets whether a field that is not in the table is an error. Defaults to no.
    pub(crate) fn known_only(self, known_only: bool) -> Self {
        Self { known_only, ..self }
    }

    /// Returns the number of maps and sequences that are open around the value.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns true, and consumes the value, if it is null in JSON.
    pub(crate) fn take_null(&mut self) -> Result<bool, ReadError> {
        Ok(match self.value {
            Value::Null => true,
            Value::Raw(bytes) => bytes.is_empty(),
            // Go writes the zero time as an empty message (k8s.io/apimachinery v0.36.4
            // `pkg/apis/meta/v1/time_proto.go`).
            Value::Formatted(Form::Time | Form::MicroTime, bytes) => {
                bytes.is_empty() || seconds_and_nanos(bytes)?.0 == GO_ZERO_TIME
            }
            _ => false,
        })
    }

    /// Returns the value if it is an object, and whether its fields must all be in the table.
    pub(crate) fn message(&self) -> Option<(MessageValue<'de>, bool)> {
        match self.value {
            Value::Object(object) => Some((object, self.known_only)),
            _ => None,
        }
    }

    /// Returns the JSON that the value is, if it is JSON.
    #[inline]
    pub(crate) fn json(&self) -> Option<&'de [u8]> {
        match self.value {
            Value::Raw(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        }
    }

    /// Returns the value: a scalar, or the start of a map or a sequence. Must not be called for
    /// JSON.
    pub(crate) fn token(&mut self) -> Result<Token<'de, '_>, ReadError> {
        if self.take_null()? {
            return Ok(Token::Null);
        }
        Ok(match self.value {
            Value::Null | Value::Raw(_) => Token::Null,
            Value::Scalar(Shape::String, raw) => Token::Text(self.text(raw.bytes()?)),
            Value::Scalar(Shape::Bool, raw) => Token::Bool(raw.integer()? != 0),
            Value::Scalar(Shape::Integer, raw) => Token::Number(integer(raw.integer()?)),
            Value::Scalar(Shape::Double, raw) => Token::Number(double(raw.double()?)),
            Value::Scalar(Shape::Bytes | Shape::Message(_), raw) => {
                self.scratch.clear();
                BASE64_STANDARD.encode_string(raw.bytes()?, &mut self.scratch);
                Token::Text(Text::Composed(&self.scratch))
            }
            Value::Formatted(form, bytes) => self.formatted(form, bytes)?,
            Value::Object(_) | Value::Map { .. } => Token::Map,
            Value::List { .. } => Token::Seq,
        })
    }

    /// Returns the text of a string. Go accepts strings that are not UTF-8, and writes each invalid
    /// byte as U+FFFD in JSON.
    fn text(&mut self, bytes: &'de [u8]) -> Text<'de, '_> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Text::Borrowed(text),
            Err(_) => {
                self.scratch.clear();
                for chunk in bytes.utf8_chunks() {
                    self.scratch.push_str(chunk.valid());
                    self.scratch.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
                }
                Text::Composed(&self.scratch)
            }
        }
    }

    fn formatted(&mut self, form: Form, bytes: &'de [u8]) -> Result<Token<'de, '_>, ReadError> {
        self.scratch.clear();
        match form {
            Form::Time | Form::MicroTime => {
                let (seconds, nanos) = seconds_and_nanos(bytes)?;
                let nanos = (form == Form::MicroTime).then_some(nanos);
                if !push_time(seconds, nanos, &mut self.scratch) {
                    return Err(ReadError::new("a time outside of the years 0 to 9999", None));
                }
            }
            Form::Duration => push_duration(last(bytes, 1)?.map_or(Ok(0), Raw::integer)?, &mut self.scratch),
            Form::IntOrString => {
                if last(bytes, 1)?.map_or(Ok(0), Raw::integer)? == 0 {
                    let number = last(bytes, 2)?.map_or(Ok(0), Raw::integer)?;
                    return Ok(Token::Number(integer(number)));
                }
                return Ok(Token::Text(Text::Borrowed(last(bytes, 3)?.map_or(Ok(""), Raw::text)?)));
            }
            _ => {
                let text = last(bytes, 1)?.map_or(Ok(""), Raw::text)?;
                return Ok(Token::Text(Text::Borrowed(if text.is_empty() { "0" } else { text })));
            }
        }
        Ok(Token::Text(Text::Composed(&self.scratch)))
    }

    /// Starts reading the map or the sequence that the value is.
    pub(crate) fn enter(&mut self) -> Result<(), ReadError> {
        if self.depth == MAX_DEPTH {
            return Err(ReadError::new(format_args!("{TOO_DEEP} {MAX_DEPTH}"), None));
        }
        self.depth += 1;
        let frame = match self.value {
            Value::Object(MessageValue { message, bytes, role, types }) => {
                let (api_version, kind) = types.unzip();
                Frame::Object(ObjectFrame { role, api_version, kind, ..ObjectFrame::new(message, bytes) })
            }
            Value::Map { shape, run } => Frame::Entries { shape, entries: Fields::new(run) },
            Value::List { shape, run, count } => {
                let (elements, packed) = (Fields::new(run), Fields::new(&[]));
                Frame::List(ListFrame { shape, elements, packed, count })
            }
            _ => return Err(malformed("a scalar instead of a message")),
        };
        self.frames.push(frame);
        Ok(())
    }

    /// Ends the map or the sequence that was entered last.
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
        // A reader that stops early may have left an embedded message.
        while let Some(Frame::Object(ObjectFrame { embedded: true, .. })) = self.frames.pop() {}
    }

    /// Moves to the next member, and returns its name. Returns `None` at the end of the map.
    pub(crate) fn next_key(&mut self) -> Result<Option<Text<'de, '_>>, ReadError> {
        loop {
            let (shape, raw) = match self.frames.last_mut() {
                Some(Frame::Object(frame)) => match frame.next(self.known_only)? {
                    Member::Named(name, value) => {
                        self.value = value;
                        return Ok(Some(Text::Borrowed(name)));
                    }
                    Member::Embedded(message, bytes) => {
                        let frame = ObjectFrame { embedded: true, ..ObjectFrame::new(message, bytes) };
                        self.frames.push(Frame::Object(frame));
                        continue;
                    }
                    Member::End if frame.embedded => {
                        self.frames.pop();
                        continue;
                    }
                    Member::End => return Ok(None),
                },
                Some(Frame::Entries { shape, entries }) => match entries.next()? {
                    Some((_, raw)) => (*shape, raw),
                    None => return Ok(None),
                },
                _ => return Err(malformed("not a map")),
            };
            let (key, value) = entry(shape, raw)?;
            self.value = value;
            return Ok(Some(self.text(key)));
        }
    }

    /// Returns the number of elements of the sequence that was just entered. There may be more if
    /// an element holds several numbers.
    pub(crate) fn count(&self) -> usize {
        match self.frames.last() {
            Some(Frame::List(frame)) => frame.count,
            _ => 0,
        }
    }

    /// Moves to the next element. Returns false at the end of the sequence.
    pub(crate) fn next_element(&mut self) -> Result<bool, ReadError> {
        let Some(Frame::List(frame)) = self.frames.last_mut() else {
            return Err(malformed("not a sequence"));
        };
        loop {
            if !frame.packed.is_empty() {
                let raw = match frame.shape {
                    Shape::Double => Raw::Fixed64(frame.packed.fixed64()?),
                    _ => Raw::Varint(frame.packed.varint()?),
                };
                self.value = Value::Scalar(frame.shape, raw);
                return Ok(true);
            }
            let Some((_, raw)) = frame.elements.next()? else { return Ok(false) };
            match (frame.shape, raw) {
                (Shape::Integer | Shape::Bool | Shape::Double, Raw::Bytes(several)) => {
                    frame.packed = Fields::new(several);
                }
                (shape, raw) => {
                    self.value = value_of(shape, raw)?;
                    return Ok(true);
                }
            }
        }
    }
}

/// The next member of a message.
enum Member<'de> {
    Named(&'de str, Value<'de>),
    /// A message whose fields are members.
    Embedded(u16, &'de [u8]),
    End,
}

impl<'de> ObjectFrame<'de> {
    fn new(message: u16, bytes: &'de [u8]) -> Self {
        Self {
            message: Schema::get().message(message),
            fields: Fields::new(bytes),
            seen: 0,
            role: Role::Plain,
            embedded: false,
            api_version: None,
            kind: None,
        }
    }

    fn next(&mut self, known_only: bool) -> Result<Member<'de>, ReadError> {
        if let Some((name, text)) = self.next_type() {
            return Ok(Member::Named(name, Value::Scalar(Shape::String, Raw::Bytes(text.as_bytes()))));
        }
        let schema = Schema::get();
        loop {
            let before = self.fields.rest();
            let Some((number, raw)) = self.fields.next()? else { return Ok(Member::End) };
            let Some(field) = schema.field(self.message, number) else {
                if known_only {
                    return Err(ReadError::new(format_args!("{UNKNOWN_FIELD} {number}"), None));
                }
                continue;
            };
            let bit = 1 << field.number;
            if self.seen & bit != 0 {
                return Err(ReadError::disordered());
            }
            self.seen |= bit;
            let value = match field.repeat {
                Repeat::OneUnlessEmpty if raw.is_zero() => continue,
                Repeat::One | Repeat::OneUnlessEmpty => {
                    if let (".", Shape::Message(message)) = (field.name, field.shape) {
                        return Ok(Member::Embedded(message, raw.bytes()?));
                    }
                    let mut value =
                        value_of(field.shape, raw).map_err(|error| error.in_member(field.name))?;
                    if let (Role::Root, "metadata", Value::Object(object)) =
                        (self.role, field.name, &mut value)
                    {
                        object.role = Role::Metadata;
                    }
                    value
                }
                Repeat::Many | Repeat::Map => {
                    let count = 1 + self.fields.skip_all(number)?;
                    if self.role == Role::Metadata && field.name == "managedFields" {
                        continue;
                    }
                    let run = &before[..before.len() - self.fields.rest().len()];
                    match field.repeat {
                        Repeat::Map => Value::Map { shape: field.shape, run },
                        _ => Value::List { shape: field.shape, run, count },
                    }
                }
            };
            return Ok(Member::Named(field.name, value));
        }
    }

    /// Returns the API version and then the kind, which are not fields of the message.
    fn next_type(&mut self) -> Option<(&'static str, &'de str)> {
        if let Some(api_version) = self.api_version.take() {
            return Some(("apiVersion", api_version));
        }
        self.kind.take().map(|it| ("kind", it))
    }
}

/// Reads an entry of a map.
fn entry<'de>(shape: Shape, raw: Raw<'de>) -> Result<(&'de [u8], Value<'de>), ReadError> {
    let (mut key, mut value) = (&[][..], None);
    let mut parts = Fields::new(raw.bytes()?);
    while let Some((number, raw)) = parts.next()? {
        match number {
            1 => key = raw.bytes()?,
            2 if value.is_some() => return Err(ReadError::disordered()),
            2 => value = Some(raw),
            _ => {}
        }
    }
    Ok((key, value_of(shape, value.unwrap_or(Raw::Bytes(&[])))?))
}

/// Returns the value of a field or of an element.
#[inline]
fn value_of<'de>(shape: Shape, raw: Raw<'de>) -> Result<Value<'de>, ReadError> {
    match shape {
        Shape::Message(message) => message_value(message, raw.bytes()?),
        // An absent value of a map.
        Shape::Bool | Shape::Integer if raw == Raw::Bytes(&[]) => Ok(Value::Scalar(shape, Raw::Varint(0))),
        Shape::Double if raw == Raw::Bytes(&[]) => Ok(Value::Scalar(shape, Raw::Fixed64(0))),
        shape => Ok(Value::Scalar(shape, raw)),
    }
}

fn message_value(message: u16, bytes: &[u8]) -> Result<Value<'_>, ReadError> {
    Ok(match Schema::get().message(message).form {
        Form::Object => object(message, bytes),
        Form::Raw => match last(bytes, 1)?.map_or(Ok(&[][..]), Raw::bytes)? {
            raw if raw.starts_with(Envelope::MAGIC) => {
                let Envelope { api_version, kind, message: bytes } = Envelope::parse(raw)?;
                let Some(message) = Schema::get().of_kind(api_version, kind) else {
                    return Err(ReadError::new(
                        format_args!("unknown kind {kind:?} of {api_version:?}"),
                        None,
                    ));
                };
                let types = Some((api_version, kind));
                Value::Object(MessageValue { message, bytes, role: Role::Plain, types })
            }
            raw => Value::Raw(raw),
        },
        Form::Strings => strings(bytes, 1, Shape::String)?.unwrap_or(Value::List {
            shape: Shape::String,
            run: &[],
            count: 0,
        }),
        Form::SchemaOrBool => match schema_field(message, bytes, "schema")? {
            Some(schema) => schema,
            None => {
                schema_field(message, bytes, "allows")?.unwrap_or(Value::Scalar(Shape::Bool, Raw::Varint(0)))
            }
        },
        Form::SchemaOrList => {
            let list = match schema_field(message, bytes, "jSONSchemas")? {
                None => schema_field(message, bytes, "property")?,
                list => list,
            };
            match list {
                Some(list) => list,
                None => schema_field(message, bytes, "schema")?.unwrap_or(Value::Null),
            }
        }
        form => Value::Formatted(form, bytes),
    })
}

fn object(message: u16, bytes: &[u8]) -> Value<'_> {
    Value::Object(MessageValue { message, bytes, role: Role::Plain, types: None })
}

/// Returns the field with this name of a message that stands for one of its fields.
fn schema_field<'de>(message: u16, bytes: &'de [u8], name: &str) -> Result<Option<Value<'de>>, ReadError> {
    let schema = Schema::get();
    let message = schema.message(message);
    let Some(field) = (1..64).find_map(|it| schema.field(message, it).filter(|it| it.name == name)) else {
        return Ok(None);
    };
    match field.repeat {
        Repeat::Many => strings(bytes, field.number.into(), field.shape),
        _ => last(bytes, field.number.into())?.map(|raw| value_of(field.shape, raw)).transpose(),
    }
}

/// Returns the elements of a field, if there are any.
fn strings(bytes: &[u8], number: u32, shape: Shape) -> Result<Option<Value<'_>>, ReadError> {
    let mut fields = Fields::new(bytes);
    loop {
        let before = fields.rest();
        match fields.next()? {
            None => return Ok(None),
            Some((next, _)) if next == number => {
                let count = 1 + fields.skip_all(number)?;
                let run = &before[..before.len() - fields.rest().len()];
                while let Some((next, _)) = fields.next()? {
                    if next == number {
                        return Err(ReadError::disordered());
                    }
                }
                return Ok(Some(Value::List { shape, run, count }));
            }
            Some(_) => {}
        }
    }
}

/// Returns the last value of a field.
fn last(bytes: &[u8], number: u32) -> Result<Option<Raw<'_>>, ReadError> {
    let (mut fields, mut found) = (Fields::new(bytes), None);
    while let Some((next, raw)) = fields.next()? {
        if next == number {
            found = Some(raw);
        }
    }
    Ok(found)
}

fn seconds_and_nanos(bytes: &[u8]) -> Result<(i64, i64), ReadError> {
    let (mut fields, mut seconds, mut nanos) = (Fields::new(bytes), 0, 0);
    while let Some((number, raw)) = fields.next()? {
        match number {
            1 => seconds = raw.integer()?,
            2 => nanos = raw.integer()?,
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

fn integer(value: i64) -> Number {
    u64::try_from(value).map_or(Number::Signed(value), Number::Unsigned)
}

/// Returns a float as JSON shows it: without a fraction it is an integer.
fn double(value: f64) -> Number {
    /// The integers up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT { integer(value as i64) } else { Number::Float(value) }
}
