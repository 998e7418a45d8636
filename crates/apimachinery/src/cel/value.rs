//! Values of expressions.
//!
//! Lists and objects of JSON are not copied: a value refers to them and to their declared type, and
//! their parts are read when an expression selects them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map as JsonObject, Number, Value as Json};

use super::authorization::Authorization;
use super::declared::{DeclaredType, ObjectShape, Shape, any_type};
use super::error::EvaluationError;
use super::meter::{Meter, PER_CALL_LIMIT};
use super::moments;
use super::networks::Cidr;
use super::semver::Version;
use super::types::{RecordType, Type};
use super::urls::Url;
use crate::kinds::quantity::Quantity;
use crate::schema::Topology;
use crate::weight;

/// The result of an expression, or of a part of one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A moment.
    Timestamp(Timestamp),
    /// A list that the expression has made.
    List(Arc<Vec<Self>>),
    /// A map that the expression has made.
    Map(Arc<BTreeMap<Key<'a>, Self>>),
    /// A list, a map or an object in JSON.
    Json(JsonValue<'a>),
    /// A value that may be absent.
    Optional(Option<Arc<Self>>),
    /// A type.
    Type(Type),
    /// A value of a library.
    Library(LibraryValue),
    /// An object that the expression has made, such as `Object.spec{replicas: 1}`.
    Made(Arc<MadeObject<'a>>),
    /// A value of the authorizer.
    Authorization(Arc<Authorization<'a>>),
    /// The variable `variables`, whose fields are computed when they are selected.
    Lazy,
}

/// An object of a named type that an expression has made.
#[derive(Clone, Debug)]
pub struct MadeObject<'a> {
    /// The name of the type.
    pub name: Arc<str>,
    /// The fields that are set.
    pub fields: BTreeMap<Arc<str>, Value<'a>>,
}

/// A value of a library, which functions read and no JSON can express.
#[derive(Clone, Debug)]
pub struct LibraryValue(pub(crate) Library);

#[derive(Clone, Debug)]
pub(crate) enum Library {
    Url(Arc<Url>),
    Ip(std::net::IpAddr),
    Cidr(Cidr),
    Quantity(Quantity),
    Semver(Arc<Version>),
    Format(&'static str),
}

/// A reference to JSON with its type.
#[derive(Clone, Copy, Debug)]
pub struct JsonValue<'a> {
    pub(crate) json: &'a Json,
    pub(crate) declared: &'a DeclaredType,
}

/// A text that is shared or a part of JSON.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// A part of JSON.
    Borrowed(&'a str),
    /// A text that an expression has made, or a literal.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

/// The key of a map that an expression has made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Key<'a> {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer that is larger than every integer.
    Uint(u64),
    /// A text.
    String(Text<'a>),
}

impl<'a> From<Key<'a>> for Value<'a> {
    fn from(key: Key<'a>) -> Self {
        match key {
            Key::Bool(it) => Self::Bool(it),
            Key::Int(it) => Self::Int(it),
            Key::Uint(it) => Self::Uint(it),
            Key::String(it) => Self::String(it),
        }
    }
}

impl<'a> Key<'a> {
    /// Returns the key that a value is; `None` if it is none.
    pub(crate) fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(it) => Self::Bool(*it),
            Value::Int(it) => Self::Int(*it),
            Value::Uint(it) => i64::try_from(*it).map_or(Self::Uint(*it), Self::Int),
            Value::Double(it) if it.fract() == 0.0 && it.abs() < 9e15 => Self::Int(*it as i64),
            Value::String(it) => Self::String(it.clone()),
            _ => return None,
        })
    }
}

impl<'a> Value<'a> {
    /// Creates a text.
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// Creates a list.
    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(items))
    }

    /// Reads JSON without a declaration.
    pub fn of_json(json: &'a Json) -> Self {
        let declared = any_type();
        match json {
            Json::Null => Self::Null,
            Json::Bool(it) => Self::Bool(*it),
            Json::Number(number) => Self::of_number(number),
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::Array(_) | Json::Object(_) => Self::Json(JsonValue { json, declared }),
        }
    }

    fn of_number(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Self::Int(int),
            (None, Some(uint)) => Self::Uint(uint),
            (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// Reads JSON of a declared type.
    ///
    /// # Errors
    /// The value does not fit the type.
    pub fn of_declared(json: &'a Json, declared: &'a DeclaredType) -> Result<Self, EvaluationError> {
        let misfit =
            |expected: &str| Err(EvaluationError::failed(format!("invalid data, expected {expected}")));
        if json.is_null() && !matches!(declared.shape, Shape::Any | Shape::Hidden) {
            if declared.nullable {
                return Ok(Self::Null);
            }
            let message = "invalid data, got null for schema with nullable=false";
            return Err(EvaluationError::failed(message));
        }
        let reference = Self::Json(JsonValue { json, declared });
        Ok(match &declared.shape {
            Shape::Any => Self::of_json(json),
            Shape::Hidden => reference,
            Shape::IntOrString => match json {
                Json::String(text) => Self::String(Text::Borrowed(text)),
                Json::Number(number) if number.is_i64() => Self::of_number(number),
                _ => return misfit("XIntOrString value to be either a string or integer"),
            },
            Shape::Bool => match json {
                Json::Bool(it) => Self::Bool(*it),
                _ => return misfit("bool"),
            },
            Shape::Int => match json.as_i64() {
                Some(int) => Self::Int(int),
                None => return misfit("int"),
            },
            Shape::Double => match json.as_f64() {
                Some(double) => Self::Double(double),
                None => return misfit("float"),
            },
            Shape::List { .. } if !json.is_array() => {
                return misfit("an array for the provided schema with type=array");
            }
            Shape::Map { .. } | Shape::Object(_) if !json.is_object() => {
                return misfit("a map for the provided schema with type=object");
            }
            Shape::List { .. } | Shape::Map { .. } | Shape::Object(_) => reference,
            of => match json {
                Json::String(text) => return Self::of_text(text, of),
                _ => return misfit("string"),
            },
        })
    }

    /// Reads JSON of a declared type like [`Self::of_declared`]. A text that is decoded is decoded
    /// each time, so its length is counted.
    pub(crate) fn read(
        json: &'a Json,
        declared: &'a DeclaredType,
        meter: &Meter,
    ) -> Result<Self, EvaluationError> {
        if let Json::String(text) = json {
            match declared.shape {
                Shape::Bytes => meter.allocate(text.len())?,
                Shape::Duration | Shape::Date | Shape::DateTime => meter.work(text.len() as u64 * 8)?,
                _ => {}
            }
        }
        Self::of_declared(json, declared)
    }

    fn of_text(text: &'a str, shape: &Shape) -> Result<Self, EvaluationError> {
        let value = match shape {
            Shape::Bytes => BASE64.decode(text).ok().map(|it| Self::Bytes(it.into())),
            Shape::Duration => moments::parse_schema_duration(text).map(Self::Duration),
            Shape::Date => moments::parse_date(text).map(Self::Timestamp),
            Shape::DateTime => moments::parse_timestamp(text).map(Self::Timestamp),
            _ => Some(Self::String(Text::Borrowed(text))),
        };
        let name = match shape {
            Shape::Bytes => "byte formatted string",
            Shape::Duration => "duration",
            Shape::Date => "date formatted string",
            _ => "date-time formatted string",
        };
        value.ok_or_else(|| EvaluationError::failed(format!("Invalid {name} {text}")))
    }

    /// Returns the type at run time.
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::List(_) => Type::Dyn.list(),
            Self::Map(_) => Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn)),
            Self::Json(it) if it.json.is_array() => Type::Dyn.list(),
            // An object with declared fields has a type of its own upstream, which has no name that
            // an expression could know.
            Self::Json(_) => Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn)),
            Self::Optional(_) => Type::Dyn.optional(),
            Self::Type(_) => Type::Type(Arc::new(Type::Dyn)),
            Self::Made(it) => Type::record(RecordType::dynamic(&it.name)),
            Self::Authorization(it) => it.type_of(),
            Self::Lazy => Type::record(RecordType::new("kubernetes.variables", [])),
            Self::Library(it) => Type::Opaque(match &it.0 {
                Library::Url(_) => "kubernetes.URL",
                Library::Ip(_) => "net.IP",
                Library::Cidr(_) => "net.CIDR",
                Library::Quantity(_) => "kubernetes.Quantity",
                Library::Semver(_) => "kubernetes.Semver",
                Library::Format(_) => "kubernetes.NamedFormat",
            }),
        }
    }

    /// Returns the size that costs depend on: 1 for values without one.
    pub(crate) fn size(&self, meter: &Meter) -> Result<u64, EvaluationError> {
        Ok(match self {
            Self::String(text) => {
                meter.work(text.len() as u64 / 16)?;
                text.chars().count() as u64
            }
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.size(meter)?,
            Self::Json(JsonValue { json: Json::Object(fields), .. }) => fields.len() as u64,
            Self::Library(LibraryValue(Library::Ip(ip))) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Library(LibraryValue(Library::Cidr(cidr))) => u64::from(cidr.prefix.div_ceil(8)),
            other => other.list_len().map_or(1, |it| it as u64),
        })
    }

    /// Returns the number of items, if this is a list.
    pub(crate) fn list_len(&self) -> Option<usize> {
        match self {
            Self::List(items) => Some(items.len()),
            Self::Json(JsonValue { json: Json::Array(items), .. }) => Some(items.len()),
            _ => None,
        }
    }

    /// Returns an item of a list.
    pub(crate) fn item(&self, index: usize, meter: &Meter) -> Option<Result<Self, EvaluationError>> {
        match self {
            Self::List(items) => items.get(index).cloned().map(Ok),
            Self::Json(it) => it.item(index, meter),
            _ => None,
        }
    }

    /// Returns the number of entries, if this is a map or an object.
    pub(crate) fn map_len(&self) -> Option<usize> {
        match self {
            Self::Map(map) => Some(map.len()),
            Self::Json(JsonValue { json: Json::Object(fields), .. }) => Some(fields.len()),
            _ => None,
        }
    }

    /// Returns the keys of a map or an object, as expressions write them.
    pub(crate) fn keys(&self, meter: &Meter) -> Result<Vec<Value<'a>>, EvaluationError> {
        meter.allocate(self.map_len().unwrap_or(0).saturating_mul(size_of::<Value<'_>>()))?;
        Ok(match self {
            Self::Map(map) => map.keys().cloned().map(Value::from).collect(),
            Self::Json(it) => it.keys(),
            _ => Vec::new(),
        })
    }

    /// Returns the value of a key of a map or an object; `None` if there is none.
    ///
    /// # Errors
    /// This has no keys, or the value does not fit its type.
    pub(crate) fn entry(&self, key: &Value<'a>, meter: &Meter) -> Result<Option<Self>, EvaluationError> {
        // It is compared with some of the keys.
        if let Value::String(key) = key {
            meter.work(key.len() as u64 / 8)?;
        }
        match self {
            Self::Map(map) => Ok(Key::of(key).and_then(|key| map.get(&key).cloned())),
            Self::Json(it) => match (it.json, key) {
                (Json::Object(_), Value::String(key)) => it.entry(key, meter),
                (Json::Object(_), _) => Ok(None),
                _ => Err(EvaluationError::no_such_overload()),
            },
            Self::Made(it) => match key {
                Value::String(key) => Ok(it.fields.get(&**key).cloned()),
                _ => Err(EvaluationError::no_such_overload()),
            },
            _ => Err(EvaluationError::no_such_overload()),
        }
    }

    /// Returns the value as JSON. Moments, durations, bytes and values of libraries are texts;
    /// absent values are null.
    ///
    /// # Errors
    /// The value is a type, a number that JSON cannot express, or larger than an evaluation may
    /// make: a small value can contain another one many times.
    pub fn to_json(&self) -> Result<Json, EvaluationError> {
        self.to_json_within(&Meter::new(PER_CALL_LIMIT))
    }

    /// Returns the value as JSON, and counts its size.
    pub(crate) fn to_json_within(&self, meter: &Meter) -> Result<Json, EvaluationError> {
        meter.allocate(size_of::<Json>())?;
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(it) => Json::Bool(*it),
            Self::Int(it) => Json::from(*it),
            Self::Uint(it) => Json::from(*it),
            Self::Double(it) => match Number::from_f64(*it) {
                Some(number) => Json::Number(number),
                None => return Err(EvaluationError::failed(format!("{it} is no number of JSON"))),
            },
            Self::String(text) => {
                meter.allocate(text.len())?;
                Json::String(text.to_string())
            }
            Self::Bytes(bytes) => {
                meter.allocate(bytes.len().saturating_mul(2))?;
                Json::String(BASE64.encode(bytes))
            }
            Self::Duration(nanos) => Json::String(moments::format_duration(*nanos)),
            Self::Timestamp(moment) => Json::String(moment.to_string()),
            Self::List(items) => {
                Json::Array(items.iter().map(|it| it.to_json_within(meter)).collect::<Result<_, _>>()?)
            }
            Self::Map(map) => {
                let mut object = JsonObject::new();
                for (key, value) in map.iter() {
                    let Key::String(key) = key else {
                        return Err(EvaluationError::failed("a key of an object in JSON must be a string"));
                    };
                    meter.allocate(key.len())?;
                    object.insert(key.to_string(), value.to_json_within(meter)?);
                }
                Json::Object(object)
            }
            Self::Json(it) => {
                meter.allocate(weight_in_bytes(it.json))?;
                it.json.clone()
            }
            Self::Optional(Some(inner)) => inner.to_json_within(meter)?,
            Self::Made(made) => {
                let mut object = JsonObject::new();
                for (name, value) in &made.fields {
                    object.insert(name.to_string(), value.to_json_within(meter)?);
                }
                Json::Object(object)
            }
            Self::Type(_) | Self::Authorization(_) | Self::Lazy => {
                let of = self.type_of();
                return Err(EvaluationError::failed(format!("type {of} is no value of JSON")));
            }
            Self::Library(it) => Json::String(it.to_string()),
        })
    }
}

impl std::fmt::Display for LibraryValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Library::Url(url) => f.write_str(&url.text),
            Library::Ip(ip) => write!(f, "{ip}"),
            Library::Cidr(cidr) => write!(f, "{}/{}", cidr.address, cidr.prefix),
            Library::Quantity(quantity) => f.write_str(&quantity.canonical()),
            Library::Semver(version) => write!(f, "{version}"),
            Library::Format(name) => f.write_str(name),
        }
    }
}

impl<'a> JsonValue<'a> {
    /// Returns the declared types of the fields, if it is an object with declared fields.
    fn object_shape(&self) -> Option<&'a ObjectShape> {
        match &self.declared.shape {
            Shape::Object(shape) => Some(shape),
            _ => None,
        }
    }

    fn part_type(&self) -> &'a DeclaredType {
        self.declared.element().map_or_else(|| &**any_type(), |it| &**it)
    }

    fn item(&self, index: usize, meter: &Meter) -> Option<Result<Value<'a>, EvaluationError>> {
        let item = self.json.as_array()?.get(index)?;
        Some(Value::read(item, self.part_type(), meter))
    }

    fn keys(&self) -> Vec<Value<'a>> {
        let Json::Object(fields) = self.json else { return Vec::new() };
        let text = |key: &'a str| Value::String(Text::Borrowed(key));
        match self.object_shape() {
            None => fields.keys().map(|it| text(it)).collect(),
            Some(shape) => {
                let present = shape.selectable.iter().filter(|(_, name)| fields.contains_key(*name));
                present.map(|(escaped, _)| text(escaped)).collect()
            }
        }
    }

    fn entry(&self, key: &str, meter: &Meter) -> Result<Option<Value<'a>>, EvaluationError> {
        let Json::Object(fields) = self.json else { return Ok(None) };
        let Some(shape) = self.object_shape() else {
            let value = fields.get(key).map(|it| Value::read(it, self.part_type(), meter));
            return value.transpose();
        };
        let Some(name) = shape.selectable.get(key) else { return Ok(None) };
        let (Some(value), Some(declared)) = (fields.get(name), shape.fields.get(name)) else {
            return Ok(None);
        };
        Value::read(value, declared, meter).map(Some)
    }

    /// Returns the type of a part of an object by its name in JSON.
    fn field_type(&self, name: &str) -> &'a DeclaredType {
        match self.object_shape() {
            Some(shape) => shape.fields.get(name).map_or_else(|| &**any_type(), |it| &**it),
            None => self.part_type(),
        }
    }

    /// Returns the way in which the items of a list are identified.
    pub(crate) fn topology(&self) -> &'a Topology {
        match &self.declared.shape {
            Shape::List { topology, .. } => topology,
            _ => &Topology::Atomic,
        }
    }
}

/// Returns the approximate size of JSON in memory.
fn weight_in_bytes(json: &Json) -> usize {
    weight::of(json).saturating_mul(64)
}

/// Returns the keys of an item of a list of type `map`, for comparisons.
pub(crate) fn list_map_key(item: &Json, keys: &[String]) -> String {
    let parts: Vec<&Json> = keys.iter().map(|key| item.get(key).unwrap_or(&Json::Null)).collect();
    serde_json::to_string(&parts).unwrap_or_default()
}

/// Returns whether two values are equal. Values of different types are not, numbers excepted.
pub(crate) fn equal(one: &Value<'_>, two: &Value<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    meter.work(1)?;
    Ok(match (one, two) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(two)) => one == two,
        (Value::String(one), Value::String(two)) => {
            meter.work(one.len().min(two.len()) as u64 / 8)?;
            one == two
        }
        (Value::Bytes(one), Value::Bytes(two)) => {
            meter.work(one.len().min(two.len()) as u64 / 8)?;
            one == two
        }
        (Value::Duration(one), Value::Duration(two)) => one == two,
        (Value::Timestamp(one), Value::Timestamp(two)) => one == two,
        (Value::Type(one), Value::Type(two)) => {
            std::mem::discriminant(one) == std::mem::discriminant(two)
                && (!matches!(one, Type::Opaque(_)) || one.is_same(two))
        }
        (Value::Optional(one), Value::Optional(two)) => match (one, two) {
            (None, None) => true,
            (Some(one), Some(two)) => equal(one, two, meter)?,
            _ => false,
        },
        (Value::Library(one), Value::Library(two)) => match (&one.0, &two.0) {
            (Library::Url(one), Library::Url(two)) => one.text == two.text,
            (Library::Ip(one), Library::Ip(two)) => one == two,
            (Library::Cidr(one), Library::Cidr(two)) => one == two,
            (Library::Quantity(one), Library::Quantity(two)) => one.equals(*two),
            (Library::Semver(one), Library::Semver(two)) => one.precedence(two).is_eq(),
            (Library::Format(one), Library::Format(two)) => one == two,
            _ => false,
        },
        (Value::Made(one), Value::Made(two)) => {
            if one.name != two.name || one.fields.len() != two.fields.len() {
                return Ok(false);
            }
            for (name, value) in &one.fields {
                let Some(other) = two.fields.get(name) else { return Ok(false) };
                if !equal(value, other, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        _ if number_order(one, two).is_some() => number_order(one, two) == Some(Ordering::Equal),
        _ if one.list_len().is_some() && two.list_len().is_some() => equal_lists(one, two, meter)?,
        _ if one.map_len().is_some() && two.map_len().is_some() => equal_maps(one, two, meter)?,
        // Values that cannot be read are compared as they are.
        (Value::Json(one), Value::Json(two)) => {
            meter.work(weight_in_bytes(one.json) as u64 / 8)?;
            one.json == two.json
        }
        _ => false,
    })
}

fn equal_lists(one: &Value<'_>, two: &Value<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    if one.list_len() != two.list_len() {
        return Ok(false);
    }
    if let (Value::Json(one), Value::Json(two)) = (one, two)
        && let (Json::Array(left), Json::Array(right)) = (one.json, two.json)
    {
        let cost = left.len().saturating_mul(4) as u64;
        match one.topology() {
            // The order of the items does not count (k8s.io/apiserver v0.36.4
            // pkg/cel/common/valuesunstructured.go).
            Topology::Map(keys) => {
                meter.work(cost)?;
                let key_of = |item: &Json| {
                    let key = list_map_key(item, keys);
                    meter.allocate(key.len()).map(|()| key)
                };
                let mut by_key: BTreeMap<String, &Json> = BTreeMap::new();
                for item in left {
                    by_key.insert(key_of(item)?, item);
                }
                for item in right {
                    let Some(same) = by_key.get(&key_of(item)?) else { return Ok(false) };
                    let left = Value::read(same, one.part_type(), meter)?;
                    if !equal(&left, &Value::read(item, two.part_type(), meter)?, meter)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            Topology::Set => {
                let bytes = left.iter().chain(right).map(weight_in_bytes);
                meter.work(bytes.fold(cost, |sum, it| sum.saturating_add(it as u64)))?;
                let known: std::collections::HashSet<&Json> = left.iter().collect();
                return Ok(right.iter().all(|it| known.contains(it)));
            }
            Topology::Atomic => {}
        }
    }
    if let Value::Json(set) = one
        && matches!(set.topology(), Topology::Set)
    {
        return is_subset(two, one, meter);
    }
    for index in 0..one.list_len().unwrap_or(0) {
        let (Some(left), Some(right)) = (one.item(index, meter), two.item(index, meter)) else {
            return Ok(false);
        };
        if !equal(&left?, &right?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a list contains every item of another one.
fn is_subset(items: &Value<'_>, list: &Value<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    for index in 0..items.list_len().unwrap_or(0) {
        let Some(item) = items.item(index, meter).transpose()? else { return Ok(false) };
        let mut is_known = false;
        for at in 0..list.list_len().unwrap_or(0) {
            let Some(known) = list.item(at, meter).transpose()? else { continue };
            is_known |= equal(&known, &item, meter)?;
        }
        if !is_known {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(one: &Value<'_>, two: &Value<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    if one.map_len() != two.map_len() {
        return Ok(false);
    }
    if let (Value::Json(one), Value::Json(two)) = (one, two)
        && let (Json::Object(left), Json::Object(right)) = (one.json, two.json)
    {
        for (name, value) in left {
            let Some(other) = right.get(name) else { return Ok(false) };
            let left = Value::read(value, one.field_type(name), meter)?;
            if !equal(&left, &Value::read(other, two.field_type(name), meter)?, meter)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for key in one.keys(meter)? {
        let (Some(left), Some(right)) = (one.entry(&key, meter)?, two.entry(&key, meter)?) else {
            return Ok(false);
        };
        if !equal(&left, &right, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the order of two numbers of any type; `None` if one is not a number or not comparable.
pub(crate) fn number_order(one: &Value<'_>, two: &Value<'_>) -> Option<Ordering> {
    let int_with_double = |int: i128, double: f64| -> Option<Ordering> {
        if double.is_nan() {
            return None;
        }
        // Beyond this, every integer is smaller.
        if double.abs() >= 1e30 {
            return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
        }
        let whole = double.trunc() as i128;
        Some(int.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&double.fract()).unwrap_or(Ordering::Equal)))
    };
    let integer = |value: &Value<'_>| match value {
        Value::Int(it) => Some(i128::from(*it)),
        Value::Uint(it) => Some(i128::from(*it)),
        _ => None,
    };
    match (one, two) {
        (Value::Double(one), Value::Double(two)) => one.partial_cmp(two),
        (Value::Double(double), other) => int_with_double(integer(other)?, *double).map(Ordering::reverse),
        (other, Value::Double(double)) => int_with_double(integer(other)?, *double),
        (one, two) => Some(integer(one)?.cmp(&integer(two)?)),
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

/// Returns the order of two values of one type; `None` if they have none.
///
/// # Errors
/// They are of different types, or of one without an order.
pub(crate) fn order(
    one: &Value<'_>,
    two: &Value<'_>,
    meter: &Meter,
) -> Result<Option<Ordering>, EvaluationError> {
    let shorter = match (one, two) {
        (Value::String(one), Value::String(two)) => one.len().min(two.len()),
        (Value::Bytes(one), Value::Bytes(two)) => one.len().min(two.len()),
        _ => 0,
    };
    meter.work(shorter as u64 / 8)?;
    match plain_order(one, two) {
        None if is_number(one) && is_number(two) => Ok(None),
        None => Err(EvaluationError::no_such_overload()),
        order => Ok(order),
    }
}

/// Returns the order of two values of one type, if they have one.
pub(crate) fn plain_order(one: &Value<'_>, two: &Value<'_>) -> Option<Ordering> {
    Some(match (one, two) {
        (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
        (Value::String(one), Value::String(two)) => one.cmp(two),
        (Value::Bytes(one), Value::Bytes(two)) => one.cmp(two),
        (Value::Duration(one), Value::Duration(two)) => one.cmp(two),
        (Value::Timestamp(one), Value::Timestamp(two)) => one.cmp(two),
        _ => return number_order(one, two),
    })
}
