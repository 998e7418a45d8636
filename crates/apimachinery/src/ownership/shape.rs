//! The shape of a value under its schema: a leaf, a list of keyed items, or an object.
//!
//! The only file of this module that reads [`Schema`]; comparison, checks and merges use the shape.

use std::fmt;
use std::sync::{Arc, LazyLock};

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

/// The items of a list. Shared with the schema: an object can have a million lists, each of which
/// has 64 long keys.
#[derive(Clone, Debug)]
pub(super) struct Items(Arc<List>);

/// The reason why an item of a list has no element. Formatted only if it is reported.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoElement<'a> {
    /// The list or the type of the item allows none.
    Unsuitable(&'static str),
    /// The item has none of these keys, and they have no defaults.
    OmitsKeys(&'a [String]),
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
            Schema::List(list) => Self::List(Items(list)),
            // structured-merge-diff has no type for int-or-string, and accepts any value there.
            Schema::Scalar(_) | Schema::Any | Schema::Named(_) => match value {
                Some(Value::Array(_)) => Self::List(Items::untyped()),
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
            Self::List(items) => *items.topology() == Topology::Atomic,
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
    /// Returns the items of a list without a schema.
    fn untyped() -> Self {
        static UNTYPED: LazyLock<Arc<List>> =
            LazyLock::new(|| Arc::new(List { item: Schema::Any, topology: Topology::Atomic }));
        Self(Arc::clone(&UNTYPED))
    }

    /// Returns the schema of each item.
    pub(super) fn schema(&self) -> &Schema {
        &self.0.item
    }

    /// Returns the identity of the items.
    pub(super) fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// Returns the element that identifies an item of this list.
    ///
    /// # Errors
    /// The reason why the item has none, in the words of structured-merge-diff v6.3.3
    /// typed/helpers.go.
    pub(super) fn element(
        &self,
        item: &Value,
        definitions: &dyn Definitions,
    ) -> Result<Element, NoElement<'_>> {
        let unsuitable = |why| Err(NoElement::Unsuitable(why));
        match self.topology() {
            Topology::Atomic => unsuitable("invalid indexing of non-associative list"),
            Topology::Set => match item {
                Value::Object(_) => {
                    unsuitable("associative list without keys has an element that's a map type")
                }
                Value::Array(_) => unsuitable("not supported: associative list with lists as elements"),
                Value::Null => {
                    unsuitable("associative list without keys has an element that's an explicit null")
                }
                scalar => Ok(Element::Value(Datum(scalar.clone()))),
            },
            Topology::Map(keys) => match item {
                Value::Object(item) => self.keyed(keys, item, definitions),
                Value::Null => unsuitable("associative list with keys may not have a null element"),
                _ => unsuitable("associative list with keys may not have non-map elements"),
            },
        }
    }

    fn keyed<'a>(
        &self,
        keys: &'a [String],
        item: &Map<String, Value>,
        definitions: &dyn Definitions,
    ) -> Result<Element, NoElement<'a>> {
        let Schema::Struct(fields) = self.schema().resolve(definitions) else {
            // Only named fields have defaults.
            return Self::from_fields(keys, |key| item.get(key).cloned());
        };
        Self::from_fields(keys, |key| {
            let default = || fields.fields.get(key).and_then(|field| field.default.clone());
            item.get(key).cloned().or_else(default)
        })
    }

    fn from_fields(keys: &[String], value: impl Fn(&str) -> Option<Value>) -> Result<Element, NoElement<'_>> {
        // A missing key is left out: such an item differs from those that have it.
        let found = keys.iter().filter_map(|key| value(key).map(|value| (key.clone(), value)));
        let found: Vec<_> = found.collect();
        if found.is_empty() { Err(NoElement::OmitsKeys(keys)) } else { Ok(Element::key(found)) }
    }
}

impl fmt::Display for NoElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = match self {
            Self::Unsuitable(why) => return f.write_str(why),
            Self::OmitsKeys(keys) => keys,
        };
        f.write_str("associative list with keys has an element that omits all key fields [")?;
        for (index, key) in keys.iter().enumerate() {
            write!(f, "{}{key:?}", if index == 0 { "" } else { " " })?;
        }
        f.write_str("] (and doesn't have default values for any key fields)")
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::NoDefinitions;

    #[test]
    fn the_keys_of_a_list_are_shared_with_the_schema() {
        let list = Arc::new(List { item: Schema::Any, topology: Topology::Map(vec!["k".to_owned()]) });
        let shape = Shape::of(&Schema::List(Arc::clone(&list)), Some(&json!([])), &NoDefinitions);
        let Shape::List(items) = shape else { panic!("{shape:?}") };
        assert!(std::ptr::eq(items.topology(), &list.topology));
    }

    #[test]
    fn an_item_without_any_key_is_reported_with_all_of_them() {
        let keys = ["a", "b\""].map(str::to_owned).to_vec();
        let items = Items(Arc::new(List { item: Schema::Any, topology: Topology::Map(keys) }));
        let why = items.element(&json!({ "c": 1 }), &NoDefinitions).map_err(|why| why.to_string());
        let expected = "associative list with keys has an element that omits all key fields [\"a\" \"b\\\"\"] (and \
                        doesn't have default values for any key fields)";
        assert_eq!(why, Err(expected.to_owned()));
        let element = items.element(&json!({ "a": 1 }), &NoDefinitions).map_err(|why| why.to_string());
        assert_eq!(element, Ok(Element::key([("a".to_owned(), json!(1))])));
    }
}
