//! OpenAPI v2 as protobuf: the messages of gnostic's `openapi.v2`, as far as documents of this
//! server use them.
//!
//! Each message is a [`Layout`]: the mapping of JSON keys to fields. Values of any shape
//! (extensions, enums) are YAML text there; JSON is valid YAML.

use serde_json::Value;

/// A message: its fields, and the field for keys that begin with `x-`.
#[derive(Debug)]
pub(super) struct Layout {
    fields: &'static [(&'static str, u32, Encoding)],
    extensions: Option<u32>,
}

/// The encoding of a value.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    String,
    Strings,
    Integer,
    Double,
    Bool,
    /// Any value, as YAML.
    Any,
    /// A list of arbitrary values.
    AnyList,
    /// A message, wrapped in messages that have it as the field of these numbers, from the outside
    /// in.
    Message(&'static [u32], &'static Layout),
    Entries(&'static Entries),
    Types,
    /// A schema, or a boolean that permits or forbids additional properties.
    Additional,
    Parameters,
    Security,
}

/// A message with named entries: the number of the field, that of an entry, and the wrappers of an
/// entry's value.
#[derive(Debug)]
pub(super) struct Entries {
    number: u32,
    entry: u32,
    inside: &'static [u32],
    layout: &'static Layout,
}

/// The paths of a document.
pub(super) static PATHS: Entries = Entries { number: 8, entry: 2, inside: &[], layout: &PATH };
/// The schemas of a document.
pub(super) static DEFINITIONS: Entries = Entries { number: 9, entry: 1, inside: &[], layout: &SCHEMA };

static PROPERTIES: Entries = Entries { number: 25, entry: 1, inside: &[], layout: &SCHEMA };
static RESPONSES: Entries = Entries { number: 9, entry: 1, inside: &[1], layout: &RESPONSE };
static SECURITY: Entries = Entries { number: 13, entry: 1, inside: &[2], layout: &API_KEY };

static DOCUMENT: Layout = Layout {
    fields: &[
        ("swagger", 1, Encoding::String),
        ("info", 2, Encoding::Message(&[], &INFO)),
        ("security", 12, Encoding::Security),
        ("securityDefinitions", 13, Encoding::Entries(&SECURITY)),
    ],
    extensions: None,
};
static INFO: Layout =
    Layout { fields: &[("title", 1, Encoding::String), ("version", 2, Encoding::String)], extensions: None };
static API_KEY: Layout = Layout {
    fields: &[
        ("type", 1, Encoding::String),
        ("name", 2, Encoding::String),
        ("in", 3, Encoding::String),
        ("description", 4, Encoding::String),
    ],
    extensions: None,
};
static PATH: Layout = Layout {
    fields: &[
        ("get", 2, Encoding::Message(&[], &OPERATION)),
        ("put", 3, Encoding::Message(&[], &OPERATION)),
        ("post", 4, Encoding::Message(&[], &OPERATION)),
        ("delete", 5, Encoding::Message(&[], &OPERATION)),
        ("patch", 8, Encoding::Message(&[], &OPERATION)),
        ("parameters", 9, Encoding::Parameters),
    ],
    extensions: None,
};
static OPERATION: Layout = Layout {
    fields: &[
        ("tags", 1, Encoding::Strings),
        ("description", 3, Encoding::String),
        ("operationId", 5, Encoding::String),
        ("produces", 6, Encoding::Strings),
        ("consumes", 7, Encoding::Strings),
        ("parameters", 8, Encoding::Parameters),
        ("responses", 9, Encoding::Entries(&RESPONSES)),
        ("schemes", 10, Encoding::Strings),
    ],
    extensions: Some(13),
};
static RESPONSE: Layout = Layout {
    fields: &[("description", 1, Encoding::String), ("schema", 2, Encoding::Message(&[1], &SCHEMA))],
    extensions: None,
};
static BODY: Layout = Layout {
    fields: &[
        ("name", 2, Encoding::String),
        ("in", 3, Encoding::String),
        ("required", 4, Encoding::Bool),
        ("schema", 5, Encoding::Message(&[], &SCHEMA)),
    ],
    extensions: None,
};
static QUERY: Layout = Layout {
    fields: &[
        ("in", 2, Encoding::String),
        ("name", 4, Encoding::String),
        ("type", 6, Encoding::String),
        ("uniqueItems", 20, Encoding::Bool),
    ],
    extensions: None,
};
static IN_PATH: Layout = Layout {
    fields: &[
        ("required", 1, Encoding::Bool),
        ("in", 2, Encoding::String),
        ("name", 4, Encoding::String),
        ("type", 5, Encoding::String),
        ("uniqueItems", 19, Encoding::Bool),
    ],
    extensions: None,
};
static DOCS: Layout = Layout {
    fields: &[("description", 1, Encoding::String), ("url", 2, Encoding::String)],
    extensions: None,
};
static SCHEMA: Layout = Layout {
    fields: &[
        ("$ref", 1, Encoding::String),
        ("format", 2, Encoding::String),
        ("title", 3, Encoding::String),
        ("description", 4, Encoding::String),
        ("multipleOf", 6, Encoding::Double),
        ("maximum", 7, Encoding::Double),
        ("exclusiveMaximum", 8, Encoding::Bool),
        ("minimum", 9, Encoding::Double),
        ("exclusiveMinimum", 10, Encoding::Bool),
        ("maxLength", 11, Encoding::Integer),
        ("minLength", 12, Encoding::Integer),
        ("pattern", 13, Encoding::String),
        ("maxItems", 14, Encoding::Integer),
        ("minItems", 15, Encoding::Integer),
        ("uniqueItems", 16, Encoding::Bool),
        ("maxProperties", 17, Encoding::Integer),
        ("minProperties", 18, Encoding::Integer),
        ("required", 19, Encoding::Strings),
        ("enum", 20, Encoding::AnyList),
        ("additionalProperties", 21, Encoding::Additional),
        ("type", 22, Encoding::Types),
        ("items", 23, Encoding::Message(&[1], &SCHEMA)),
        ("properties", 25, Encoding::Entries(&PROPERTIES)),
        ("externalDocs", 29, Encoding::Message(&[], &DOCS)),
        ("example", 30, Encoding::Any),
    ],
    extensions: Some(31),
};

/// Encodes a document without its paths and schemas, which [`add_entries`] adds.
pub(super) fn document(head: &Value) -> Vec<u8> {
    message(&DOCUMENT, head)
}

/// Adds a field with these named entries.
pub(super) fn add_entries<'a>(
    out: &mut Vec<u8>,
    entries: &Entries,
    values: impl Iterator<Item = (&'a str, Value)>,
) {
    let mut inner = Vec::new();
    values.for_each(|(name, value)| add_entry(&mut inner, entries, name, &value));
    add_bytes(out, entries.number, &inner);
}

fn message(layout: &Layout, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, number, encoding) in layout.fields {
        if let Some(value) = value.get(key) {
            add(&mut out, *number, *encoding, value);
        }
    }
    let fields = layout.extensions.into_iter().flat_map(|number| {
        value.as_object().into_iter().flatten().map(move |(key, value)| (number, key, value))
    });
    for (number, key, value) in fields.filter(|(_, key, _)| key.starts_with("x-")) {
        add_bytes(&mut out, number, &named(key, &any(value)));
    }
    out
}

fn add(out: &mut Vec<u8>, number: u32, encoding: Encoding, value: &Value) {
    match encoding {
        Encoding::String => add_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Encoding::Strings => {
            strings(value).for_each(|it| add_bytes(out, number, it.as_bytes()));
        }
        Encoding::Integer => add_varint(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Encoding::Double => {
            varint(out, u64::from(number) << 3 | 1);
            out.extend(value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Encoding::Bool => add_varint(out, number, value.as_bool().unwrap_or_default().into()),
        Encoding::Any => add_bytes(out, number, &any(value)),
        Encoding::AnyList => {
            value.as_array().into_iter().flatten().for_each(|it| add_bytes(out, number, &any(it)))
        }
        Encoding::Message(path, layout) => add_bytes(out, number, &inside(path, message(layout, value))),
        Encoding::Entries(entries) => {
            let mut inner = Vec::new();
            for (name, value) in value.as_object().into_iter().flatten() {
                add_entry(&mut inner, entries, name, value);
            }
            add_bytes(out, number, &inner);
        }
        Encoding::Types => {
            let mut inner = Vec::new();
            strings(value).for_each(|it| add_bytes(&mut inner, 1, it.as_bytes()));
            add_bytes(out, number, &inner);
        }
        Encoding::Additional => {
            let mut inner = Vec::new();
            match value {
                Value::Bool(may) => add_varint(&mut inner, 2, (*may).into()),
                schema => add_bytes(&mut inner, 1, &message(&SCHEMA, schema)),
            }
            add_bytes(out, number, &inner);
        }
        Encoding::Parameters => {
            value.as_array().into_iter().flatten().for_each(|it| add_bytes(out, number, &parameter(it)));
        }
        Encoding::Security => {
            for (name, _) in value.as_array().into_iter().flatten().filter_map(Value::as_object).flatten() {
                let mut inner = Vec::new();
                add_bytes(&mut inner, 1, &named(name, &[]));
                add_bytes(out, number, &inner);
            }
        }
    }
}

/// Returns a single string, or the strings of a list.
fn strings(value: &Value) -> impl Iterator<Item = &str> {
    let one = value.as_str().into_iter();
    one.chain(value.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn add_entry(out: &mut Vec<u8>, entries: &Entries, name: &str, value: &Value) {
    let value = inside(entries.inside, message(entries.layout, value));
    add_bytes(out, entries.entry, &named(name, &value));
}

/// Encodes a `Parameter` and its variant, which depends on where the parameter is.
fn parameter(value: &Value) -> Vec<u8> {
    match value.get("in").and_then(Value::as_str) {
        Some("body") => inside(&[1, 1], message(&BODY, value)),
        Some("path") => inside(&[1, 2, 4], message(&IN_PATH, value)),
        _ => inside(&[1, 2, 3], message(&QUERY, value)),
    }
}

fn inside(path: &[u32], message: Vec<u8>) -> Vec<u8> {
    path.iter().rev().fold(message, |inner, number| {
        let mut out = Vec::with_capacity(inner.len() + 6);
        add_bytes(&mut out, *number, &inner);
        out
    })
}

fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + value.len() + 8);
    add_bytes(&mut out, 1, name.as_bytes());
    add_bytes(&mut out, 2, value);
    out
}

fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    add_bytes(&mut out, 2, format!("{value}\n").as_bytes());
    out
}

fn add_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn add_varint(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number) << 3);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_encoded_as_gnostic_does() {
        let schema = json!({
            "description": "Its color", "maxLength": 9, "minLength": 1, "pattern": "^[a-z]+$", "type": "string",
            "x-kubernetes-list-map-keys": ["name"],
        });
        let expected = b"\"\tIts colorX\t`\x01j\x08^[a-z]+$\xb2\x01\x08\n\x06string\
            \xfa\x01)\n\x1ax-kubernetes-list-map-keys\x12\x0b\x12\t[\"name\"]\n";
        assert_eq!(message(&SCHEMA, &schema), expected);
    }

    #[test]
    fn each_parameter_is_encoded_as_the_variant_of_its_location() {
        let query = parameter(&json!({"name": "a", "in": "query", "type": "string", "uniqueItems": true}));
        assert_eq!(query, b"\n\x19\x12\x17\x1a\x15\x12\x05query\x22\x01a2\x06string\xa0\x01\x01");
        let path = parameter(&json!({"name": "a", "in": "path", "required": true}));
        assert_eq!(path, b"\n\x0f\x12\x0d\x22\x0b\x08\x01\x12\x04path\x22\x01a");
    }
}
