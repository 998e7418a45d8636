//! Declared types: the shape of the JSON values that expressions read, with the limits of their
//! sizes on which cost estimates depend.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/cel/types.go and pkg/cel/common/schemas.go. The types of
//! types.rs refer to these for the fields of objects, and the values of value.rs for reading JSON.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::escaping::escape;
use crate::schema::Topology;

/// The size of the largest request, in bytes: `DefaultMaxRequestSizeBytes` of k8s.io/apiserver
/// v0.36.4 pkg/cel/limits.go.
pub const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// The length of the name of a type, in bytes, from which on it is shortened.
const MAX_NAME: usize = 1_024;

/// The limit of values that have no size: `MaxElements` is not set for them.
const NO_SIZE: u64 = 0;

/// The type of a JSON value.
#[derive(Clone, Debug)]
pub struct DeclaredType {
    name: Arc<str>,
    pub(crate) shape: Shape,
    pub(crate) nullable: bool,
    pub(crate) max_elements: u64,
    pub(crate) min_serialized: u64,
}

/// The forms of JSON values.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Any value.
    Any,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// A value that expressions cannot read, only compare as a part of another one.
    Hidden,
    Bool,
    Int,
    Double,
    String,
    /// Base64 text.
    Bytes,
    Duration,
    Date,
    DateTime,
    List {
        item: Arc<DeclaredType>,
        topology: Topology,
    },
    Map {
        value: Arc<DeclaredType>,
    },
    Object(Box<ObjectShape>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectShape {
    /// The fields by their names in JSON.
    pub(crate) fields: BTreeMap<String, Arc<DeclaredType>>,
    /// The names in JSON of the fields that expressions can select, by the names that they use.
    pub(crate) selectable: BTreeMap<String, String>,
}

/// A field of a new object type.
#[derive(Clone, Debug)]
pub struct DeclaredField {
    /// The name in JSON.
    pub name: String,
    /// The type.
    pub of: DeclaredType,
    /// True if the field is required and has no default: it takes up space in every object.
    pub takes_space: bool,
}

impl DeclaredType {
    fn new(name: &str, shape: Shape, max_elements: u64, min_serialized: u64) -> Self {
        Self { name: name.into(), shape, nullable: false, max_elements, min_serialized }
    }

    /// Any JSON value, whose parts are read without a declaration.
    pub fn any() -> Self {
        Self { nullable: true, ..Self::new("dyn", Shape::Any, NO_SIZE, 1) }
    }

    /// An integer or a string, of at most so many bytes.
    pub fn int_or_string(max_length: u64) -> Self {
        Self::new("dyn", Shape::IntOrString, max_length, 1)
    }

    /// A value that expressions cannot read.
    pub fn hidden() -> Self {
        Self { nullable: true, ..Self::new("hidden", Shape::Hidden, NO_SIZE, 1) }
    }

    /// A boolean.
    pub fn bool() -> Self {
        Self::new("bool", Shape::Bool, NO_SIZE, 4)
    }

    /// An integer.
    pub fn int() -> Self {
        Self::new("int", Shape::Int, NO_SIZE, 1)
    }

    /// A number.
    pub fn double() -> Self {
        Self::new("double", Shape::Double, NO_SIZE, 1)
    }

    /// A string of at most so many bytes.
    pub fn string(max_length: u64) -> Self {
        Self::new("string", Shape::String, max_length, 2)
    }

    /// A string without a limit of its own.
    pub fn long_string() -> Self {
        Self::string(MAX_REQUEST_SIZE - 2)
    }

    /// Base64 text of at most so many bytes.
    pub fn bytes(max_length: u64) -> Self {
        Self::new("bytes", Shape::Bytes, max_length, 2)
    }

    /// A duration such as `1h`.
    pub fn duration() -> Self {
        Self::new("duration", Shape::Duration, 32, 3)
    }

    /// A date such as `2026-01-31`.
    pub fn date() -> Self {
        Self::new("timestamp", Shape::Date, 12, 12)
    }

    /// A moment in the format of RFC 3339.
    pub fn date_time() -> Self {
        Self::new("timestamp", Shape::DateTime, 32, 21)
    }

    /// A list, with its limit of items if it has one.
    pub fn list(item: Self, max_items: Option<u64>, topology: Topology) -> Self {
        let fitting = (MAX_REQUEST_SIZE - 2) / item.min_serialized.saturating_add(1).max(1);
        let max = max_items.unwrap_or(fitting);
        Self::new("list", Shape::List { item: Arc::new(item), topology }, max, 2)
    }

    /// A map with text keys, with its limit of entries if it has one.
    pub fn map(value: Self, max_entries: Option<u64>) -> Self {
        let fitting = (MAX_REQUEST_SIZE - 2) / value.min_serialized.saturating_add(6).max(1);
        let max = max_entries.unwrap_or(fitting);
        Self::new("map", Shape::Map { value: Arc::new(value) }, max, 2)
    }

    /// An object with these fields, and no others that can be read.
    pub fn object(fields: Vec<DeclaredField>) -> Self {
        let mut shape = ObjectShape::default();
        let mut size = 2_u64;
        for field in fields {
            let is_readable = !matches!(field.of.shape, Shape::Hidden);
            if is_readable && field.takes_space {
                let own = field.of.min_serialized.saturating_add(field.name.len() as u64);
                size = size.saturating_add(own).saturating_add(4);
            }
            if let Some(escaped) = escape(&field.name).filter(|_| is_readable) {
                shape.selectable.insert(escaped, field.name.clone());
            }
            shape.fields.insert(field.name, Arc::new(field.of));
        }
        Self::new("object", Shape::Object(Box::new(shape)), NO_SIZE, size)
    }

    /// Allows null.
    #[must_use]
    pub fn nullable(self, nullable: bool) -> Self {
        Self { nullable, ..self }
    }

    /// Sets the name of an object in messages; its fields are named after it. A long name is
    /// shortened, since the parts of an object may be many.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        match &mut self.shape {
            Shape::Object(object) => {
                for (key, field) in &mut object.fields {
                    Self::name_part(field, &part_name(name, key));
                }
                self.name = name.into();
            }
            Shape::List { item, .. } => Self::name_part(item, &part_name(name, "@idx")),
            Shape::Map { value } => Self::name_part(value, &part_name(name, "@elem")),
            _ => {}
        }
        self
    }

    fn name_part(part: &mut Arc<Self>, name: &str) {
        if !matches!(part.shape, Shape::Object(_) | Shape::List { .. } | Shape::Map { .. }) {
            return;
        }
        let inner = Arc::unwrap_or_clone(std::mem::replace(part, Arc::clone(any_type())));
        *part = Arc::new(inner.named(name));
    }

    /// Returns the name of the type in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the smallest size of such a value in JSON.
    pub fn min_serialized(&self) -> u64 {
        self.min_serialized
    }

    /// Returns true if expressions cannot read such a value.
    pub fn is_hidden(&self) -> bool {
        matches!(self.shape, Shape::Hidden)
    }

    /// Returns the type of items or of values of a map.
    pub fn element(&self) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::List { item, .. } => Some(item),
            Shape::Map { value } => Some(value),
            _ => None,
        }
    }

    /// Returns the type of a field that expressions select by this name.
    pub(crate) fn selected(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::Object(object) => object.fields.get(object.selectable.get(name)?),
            _ => None,
        }
    }

    /// Returns the type of a field by its name in JSON.
    pub fn field(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::Object(object) => object.fields.get(name),
            _ => None,
        }
    }
}

/// Returns the name of a part of a named type. Types differ by their names, so one that is
/// shortened keeps a number that is computed from all of it.
fn part_name(name: &str, key: &str) -> String {
    if name.len() + key.len() < MAX_NAME {
        return format!("{name}.{key}");
    }
    let mut hasher = DefaultHasher::new();
    (name, key).hash(&mut hasher);
    let begin =
        |text: &str| text.get(..text.floor_char_boundary(MAX_NAME / 4)).unwrap_or_default().to_owned();
    format!("{}...{:016x}.{}", begin(name), hasher.finish(), begin(key))
}

/// Returns the type of values without a declaration.
pub(crate) fn any_type() -> &'static Arc<DeclaredType> {
    static ANY: std::sync::OnceLock<Arc<DeclaredType>> = std::sync::OnceLock::new();
    ANY.get_or_init(|| Arc::new(DeclaredType::any()))
}
