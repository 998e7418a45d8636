//! The shape of a value under its schema: a leaf, a list of keyed items, or an object.
//!
//! The only file of this module that reads [`Schema`]; comparison, checks and merges use the shape.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::element::{Datum, Element};
use crate::schema::{Definitions, List, Scalar, Schema, Struct, Topology};

/// The shape of a value under its schema.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Text, number or boolean; `None` is any of them.
    Scalar(Option<Scalar>),
    /// A list.
    List(Items),
    /// An object.
    Object { members: Members, atomic: bool },
}

/// The items of a list.
#[derive(Clone, Debug)]
pub(super) struct Items {
    pub(super) schema: Schema,
    pub(super) topology: Topology,
}

/// The fields of an object.
#[derive(Clone, Debug)]
pub(super) enum Members {
    Named(Arc<Struct>),
    Every(Schema),
}

impl Shape {
    /// Returns the shape of a value of this schema. If the schema allows anything, the value
    /// decides; null then counts as an object.
    pub(super) fn of(schema: &Schema, value: Option<&Value>, definitions: &dyn Definitions) -> Self {
        match schema.resolve(definitions) {
            Schema::Scalar(scalar) if scalar != Scalar::IntOrString => Self::Scalar(Some(scalar)),
            Schema::Struct(object) => {
                let atomic = object.atomic;
                Self::Object { members: Members::Named(object), atomic }
            }
            Schema::Map(map) => {
                Self::Object { members: Members::Every(map.value.clone()), atomic: map.atomic }
            }
            Schema::List(list) => {
                let List { item, topology } = list.as_ref();
                Self::List(Items { schema: item.clone(), topology: topology.clone() })
            }
            // structured-merge-diff has no type for int-or-string, and accepts any value there.
            Schema::Scalar(_) | Schema::Any | Schema::Named(_) => match value {
                Some(Value::Array(_)) => {
                    Self::List(Items { schema: Schema::Any, topology: Topology::Atomic })
                }
                Some(Value::Object(_) | Value::Null) | None => {
                    Self::Object { members: Members::Every(Schema::Any), atomic: false }
                }
                Some(_) => Self::Scalar(None),
            },
        }
    }

    /// Returns true if the value is owned and replaced as a whole.
    pub(super) fn is_atomic(&self) -> bool {
        match self {
            Self::Scalar(_) => true,
            Self::List(items) => items.topology == Topology::Atomic,
            Self::Object { atomic, .. } => *atomic,
        }
    }
}

impl Members {
    /// Returns the schema of the field of this name; `None` if there cannot be such a field.
    pub(super) fn schema(&self, name: &str) -> Option<Schema> {
        match self {
            Self::Every(schema) => Some(schema.clone()),
            Self::Named(object) => {
                let free = object.preserve_unknown || object.fields.is_empty();
                let field = object.fields.get(name).map(|field| &field.schema);
                field.or(object.additional.as_ref()).cloned().or_else(|| free.then_some(Schema::Any))
            }
        }
    }

    /// Returns true if the schema names this field, as opposed to a key that a user chose.
    pub(super) fn names(&self, name: &str) -> bool {
        matches!(self, Self::Named(object) if object.fields.contains_key(name))
    }
}

impl Items {
    /// Returns the element that identifies an item of this list.
    ///
    /// # Errors
    /// The reason why the item has none, in the words of structured-merge-diff v6.3.3
    /// typed/helpers.go.
    pub(super) fn element(&self, item: &Value, definitions: &dyn Definitions) -> Result<Element, String> {
        match &self.topology {
            Topology::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Topology::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::Value(Datum(scalar.clone()))),
            },
            Topology::Map(keys) => match item {
                Value::Object(item) => self.keyed(keys, item, definitions),
                Value::Null => Err("associative list with keys may not have a null element".to_owned()),
                _ => Err("associative list with keys may not have non-map elements".to_owned()),
            },
        }
    }

    fn keyed(
        &self,
        keys: &[String],
        item: &Map<String, Value>,
        definitions: &dyn Definitions,
    ) -> Result<Element, String> {
        let Schema::Struct(fields) = self.schema.resolve(definitions) else {
            // Only named fields have defaults.
            return Self::from_fields(keys, |key| item.get(key).cloned());
        };
        Self::from_fields(keys, |key| {
            let default = || fields.fields.get(key).and_then(|field| field.default.clone());
            item.get(key).cloned().or_else(default)
        })
    }

    fn from_fields(keys: &[String], value: impl Fn(&str) -> Option<Value>) -> Result<Element, String> {
        // A missing key is left out: such an item differs from those that have it.
        let found: Vec<_> = keys.iter().filter_map(|key| Some((key.clone(), value(key)?))).collect();
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::key(found))
    }
}

/// Returns the items of a list; empty for any other value.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the fields of an object; empty for any other value.
pub(super) fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.as_str(), value))
}
