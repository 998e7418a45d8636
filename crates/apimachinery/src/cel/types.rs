//! The types of expressions, as the checker infers them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::declared::DeclaredType;

/// The type of an expression.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Type {
    /// Any type; checked at run time.
    Dyn,
    /// The type of an expression with an error, which fits everywhere so that one error is reported
    /// once.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// A duration.
    Duration,
    /// A moment.
    Timestamp,
    /// A list with items of one type.
    List(Arc<Self>),
    /// A map with keys and values of one type each.
    Map(Arc<Self>, Arc<Self>),
    /// An object with declared fields.
    Object(Arc<DeclaredType>),
    /// An object whose fields have types of their own, not those of JSON.
    Record(Arc<RecordType>),
    /// A value that may be absent.
    Optional(Arc<Self>),
    /// The type of a type.
    Type(Arc<Self>),
    /// A type of a library, such as `net.IP`.
    Opaque(&'static str),
    /// A type that is not known yet.
    Parameter(u32),
}

/// A type with a name and with fields, such as that of the variable `request`.
#[derive(Clone, Debug)]
pub struct RecordType {
    name: Arc<str>,
    /// The types of the fields; `None` if it has every field, of any type.
    fields: Option<BTreeMap<Arc<str>, Type>>,
}

impl RecordType {
    /// Creates a type with these fields.
    pub fn new<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        let fields = fields.into_iter().map(|(name, of)| (Arc::from(name), of));
        Self { name: name.into(), fields: Some(fields.collect()) }
    }

    /// Creates a type that has every field, of any type.
    pub fn dynamic(name: &str) -> Self {
        Self { name: name.into(), fields: None }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of a field.
    pub fn field(&self, name: &str) -> Option<Type> {
        match &self.fields {
            Some(fields) => fields.get(name).cloned(),
            None => Some(Type::Dyn),
        }
    }
}

/// The names of the types that are values of an expression, such as the `int` of
/// `type(x) == int`.
pub(crate) const TYPE_NAMES: [(&str, Type); 12] = [
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::String),
    ("bytes", Type::Bytes),
    ("null_type", Type::Null),
    ("dyn", Type::Dyn),
    ("google.protobuf.Duration", Type::Duration),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("net.IP", Type::Opaque("net.IP")),
    ("net.CIDR", Type::Opaque("net.CIDR")),
];

impl Type {
    /// Returns a list of this type.
    pub fn list(self) -> Self {
        Self::List(Arc::new(self))
    }

    /// Returns a map from texts to this type.
    pub fn map(self) -> Self {
        Self::Map(Arc::new(Self::String), Arc::new(self))
    }

    pub(crate) fn optional(self) -> Self {
        Self::Optional(Arc::new(self))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns true if both are the same type, including their parameters.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(two))
            | (Self::Optional(one), Self::Optional(two))
            | (Self::Type(one), Self::Type(two)) => one.is_same(two),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.is_same(other_key) && value.is_same(other_value)
            }
            (Self::Object(one), Self::Object(two)) => Arc::ptr_eq(one, two) || one.name() == two.name(),
            (Self::Record(one), Self::Record(two)) => one.name == two.name,
            (Self::Opaque(one), Self::Opaque(two)) => one == two,
            (Self::Parameter(one), Self::Parameter(two)) => one == two,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Creates a type with fields of their own.
    pub fn record(of: RecordType) -> Self {
        Self::Record(Arc::new(of))
    }

    /// Returns the name of the type at run time (`String` of cel-go v0.26.0 common/types/types.go),
    /// which differs from that in messages of the checker for some types.
    pub fn runtime_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::List(item) => format!("list({})", item.runtime_name()),
            Self::Map(key, value) => format!("map({}, {})", key.runtime_name(), value.runtime_name()),
            Self::Optional(inner) => format!("optional_type({})", inner.runtime_name()),
            Self::Type(inner) => format!("type({})", inner.runtime_name()),
            other => other.to_string(),
        }
    }

    /// Returns true for types whose values have size 1.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }
}

/// Formats the type as messages of the checker do (cel-go v0.26.0 checker/format.go).
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(object) => f.write_str(object.name()),
            Self::Record(record) => f.write_str(record.name()),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Parameter(number) => write!(f, "_var{number}"),
        }
    }
}
