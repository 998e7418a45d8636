//! Decoding of a protobuf message into the JSON value of the same object.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::error::ProtobufError;
use super::table::{Field, Repeat, Shape, Table};
use super::wire::{Malformed, Raw, Reader};
use crate::depth;

/// The maximum nesting depth of messages, including those of inner envelopes. Some messages have no
/// level of their own in JSON, so there may be more of them than levels of the object, which are
/// counted after decoding.
const MAX_DEPTH: usize = 2 * depth::OBJECT;

/// The prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// An object decoded from protobuf.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The API version in its envelope.
    pub api_version: String,
    /// The kind in its envelope.
    pub kind: String,
    /// The object, including API version and kind.
    pub value: Value,
}

/// Decodes a body: the envelope, and the object in it.
///
/// # Errors
///
/// Returns an error if the body is not protobuf, is of an unknown kind, is malformed, or is nested
/// too deeply.
pub fn decode(body: &[u8]) -> Result<Object, ProtobufError> {
    let object = decode_at(body, 0)?;
    if depth::is_exceeded_by(&object.value) {
        return Err(ProtobufError::TooDeep { limit: depth::OBJECT });
    }
    Ok(object)
}

/// Decodes an envelope nested `depth` levels deep in another one.
fn decode_at(body: &[u8], depth: usize) -> Result<Object, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NotProtobuf)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut fields = Reader::new(envelope);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => {
                let mut names = Reader::new(field.bytes()?);
                while let Some((number, field)) = names.next()? {
                    match number {
                        1 => api_version = field.text()?,
                        2 => kind = field.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = field.bytes()?,
            _ => {}
        }
    }
    let table = Table::get();
    let unknown = || ProtobufError::UnknownKind { api_version: api_version.clone(), kind: kind.clone() };
    let message = table.of_kind(&api_version, &kind).ok_or_else(unknown)?;
    let mut value = Decoder { table, depth }.message(message, raw)?;
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.as_str().into());
        map.insert("kind".to_owned(), kind.as_str().into());
    }
    Ok(Object { api_version, kind, value })
}

#[derive(Clone, Copy)]
struct Decoder<'a> {
    table: &'a Table,
    depth: usize,
}

impl Decoder<'_> {
    fn message(self, message: usize, bytes: &[u8]) -> Result<Value, ProtobufError> {
        if self.depth > MAX_DEPTH {
            return Err(ProtobufError::TooDeep { limit: depth::OBJECT });
        }
        let inner = Self { depth: self.depth + 1, ..self };
        let name = self.table.messages[message].name;
        match name.rsplit('.').next().unwrap_or(name) {
            "FieldsV1" => inner.json(inner.bytes_of(message, "Raw", bytes)?),
            "RawExtension" | "JSON" => inner.json(inner.bytes_of(message, "raw", bytes)?),
            name => Ok(json_form(name, inner.fields(message, bytes)?)),
        }
    }

    /// Returns the bytes of a field of a message; the last ones if it is repeated, none if it is
    /// absent.
    fn bytes_of<'b>(self, message: usize, name: &str, bytes: &'b [u8]) -> Result<&'b [u8], ProtobufError> {
        let (mut reader, mut found) = (Reader::new(bytes), &[][..]);
        while let Some((number, raw)) = reader.next()? {
            if self.table.messages[message].fields.get(&number).is_some_and(|it| it.name == name) {
                found = raw.bytes()?;
            }
        }
        Ok(found)
    }

    /// Decodes raw bytes: JSON, or an envelope of their own.
    fn json(self, bytes: &[u8]) -> Result<Value, ProtobufError> {
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        if bytes.starts_with(MAGIC) {
            return decode_at(bytes, self.depth).map(|it| it.value);
        }
        serde_json::from_slice(bytes).map_err(|error| {
            // serde_json has no error category for this.
            if error.to_string().starts_with("recursion limit exceeded") {
                return ProtobufError::TooDeep { limit: depth::OBJECT };
            }
            Malformed("raw bytes are not JSON").into()
        })
    }

    /// Decodes the fields of a message, keyed by their JSON names.
    fn fields(self, message: usize, bytes: &[u8]) -> Result<Map<String, Value>, ProtobufError> {
        let mut object = Map::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.next()? {
            let Some(field) = self.table.messages[message].fields.get(&number) else { continue };
            match (field.name, field.repeat, field.shape) {
                (".", _, Shape::Message(inline)) => {
                    if let Value::Object(parts) = self.message(inline, raw.bytes()?)? {
                        object.extend(parts);
                    }
                }
                (name, Repeat::One, _) => {
                    object.insert(name.to_owned(), self.value(*field, raw)?);
                }
                (name, Repeat::Many, _) => {
                    let items = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(items) = items {
                        self.push(*field, raw, items)?;
                    }
                }
                (name, Repeat::Map, _) => {
                    let (key, value) = self.entry(*field, raw.bytes()?)?;
                    let entries = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                    if let Value::Object(entries) = entries {
                        entries.insert(key, value);
                    }
                }
            }
        }
        Ok(object)
    }

    fn value(self, field: Field, raw: Raw<'_>) -> Result<Value, ProtobufError> {
        Ok(match field.shape {
            Shape::String => raw.text()?.into(),
            Shape::Bool => (raw.integer()? != 0).into(),
            Shape::Integer => raw.integer()?.into(),
            Shape::Double => Number::from_f64(raw.double()?).map_or(Value::Null, Value::Number),
            Shape::Bytes => BASE64_STANDARD.encode(raw.bytes()?).into(),
            Shape::Message(message) => self.message(message, raw.bytes()?)?,
        })
    }

    /// Adds an item, or all items of a packed field.
    fn push(self, field: Field, raw: Raw<'_>, items: &mut Vec<Value>) -> Result<(), ProtobufError> {
        if let (Raw::Bytes(packed), Shape::Integer | Shape::Bool) = (raw, field.shape) {
            let mut reader = Reader::new(packed);
            while !reader.is_empty() {
                items.push(self.value(field, Raw::Varint(reader.varint()?))?);
            }
            return Ok(());
        }
        items.push(self.value(field, raw)?);
        Ok(())
    }

    fn entry(self, field: Field, bytes: &[u8]) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.next()? {
            match number {
                1 => key = raw.text()?,
                2 => value = Some(self.value(field, raw)?),
                _ => {}
            }
        }
        let empty = || self.value(field, Raw::Bytes(&[]));
        Ok((key, value.map_or_else(empty, Ok)?))
    }
}

/// Converts messages whose JSON form differs from that of their fields, by the last part of their
/// name.
fn json_form(name: &str, mut fields: Map<String, Value>) -> Value {
    let whole = |key: &str| fields.get(key).and_then(Value::as_i64).unwrap_or(0);
    match name {
        "Time" => time(whole("seconds"), 0, "%Y-%m-%dT%H:%M:%SZ"),
        "MicroTime" => time(whole("seconds"), whole("nanos"), "%Y-%m-%dT%H:%M:%S%.6fZ"),
        "Duration" => duration(whole("duration")).into(),
        "Quantity" => match fields.remove("string") {
            Some(Value::String(text)) if !text.is_empty() => text.into(),
            _ => "0".into(),
        },
        "IntOrString" if whole("type") == 0 => whole("intVal").into(),
        "IntOrString" => fields.remove("strVal").unwrap_or_else(|| "".into()),
        "Verbs" | "ExtraValue" => fields.remove("items").unwrap_or_else(|| Value::Array(Vec::new())),
        "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => {
            // Moved, not copied: each level of a schema is inside of one of these.
            let forms = ["schema", "jSONSchemas", "property", "allows"];
            forms.iter().find_map(|form| fields.remove(*form)).unwrap_or(Value::Null)
        }
        _ => Value::Object(fields),
    }
}

/// Formats a time; the zero time is null.
fn time(seconds: i64, nanos: i64, format: &str) -> Value {
    if (seconds, nanos) == (0, 0) {
        return Value::Null;
    }
    let nanos = i32::try_from(nanos).unwrap_or(0);
    Timestamp::new(seconds, nanos).map_or(Value::Null, |it| it.strftime(format).to_string().into())
}

/// Formats a duration as Go's `time.Duration` does: `1h0m0s`, `1.5s`, `300ms`.
fn duration(nanos: i64) -> String {
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let decimal = |value: u64, unit: u64| {
        let fraction = format!("{:0width$}", value % unit, width = unit.ilog10() as usize);
        let fraction = fraction.trim_end_matches('0');
        if unit == 1 || fraction.is_empty() {
            (value / unit).to_string()
        } else {
            format!("{}.{fraction}", value / unit)
        }
    };
    let text = match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(nanos, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(nanos, 1_000_000)),
        _ => {
            let (minutes, rest) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
            let seconds = decimal(rest, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_in_go() {
        for (nanos, expected) in [
            (0, "0s"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (-90_000_000_000, "-1m30s"),
            (1_500, "1.5µs"),
            (7, "7ns"),
        ] {
            assert_eq!(duration(nanos), expected);
        }
    }
}
