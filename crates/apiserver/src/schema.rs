//! What is known about the fields of a kind: types, how lists and maps merge, what may be unknown.
//!
//! Built-in kinds take theirs from generated tables, custom ones from their definition. Strategic merge patch, server-side
//! apply, validation, pruning and the OpenAPI documents all read this one form. It knows nothing of requests.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// A part of a schema; cheap to clone. Built-in schemas are recursive, so a part may be a name to look up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Schema {
    /// A value that is not looked into: text, number, boolean, or one of the types with a text form.
    Scalar(Scalar),
    /// An object with named fields.
    Struct(Arc<Struct>),
    /// An object with keys of the user's choice.
    Map(Arc<Map>),
    /// A list.
    List(Arc<List>),
    /// A definition by its name, looked up in the [`Definitions`] at hand.
    Named(Arc<str>),
    /// Anything at all: raw JSON, kept as it is.
    Any,
}

/// What a scalar holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scalar {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number, or text: ports and percentages.
    IntOrString,
    /// A quantity such as `500m`.
    Quantity,
    /// A point in time.
    Time,
    /// A point in time with microseconds.
    MicroTime,
    /// A duration such as `1h0m0s`.
    Duration,
    /// Bytes as base64.
    Bytes,
}

/// An object with named fields.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// The fields by name.
    pub fields: HashMap<String, Field>,
    /// The values of fields that are not named, where such are kept.
    pub additional: Option<Schema>,
    /// Owned and replaced as a whole.
    pub atomic: bool,
    /// Unknown fields are kept instead of pruned.
    pub preserve_unknown: bool,
}

/// One field of a [`Struct`].
#[derive(Clone, Debug)]
pub struct Field {
    /// What it holds.
    pub schema: Schema,
    /// How a strategic merge patch treats it.
    pub patch: PatchStrategy,
    /// Whether it must be there.
    pub required: bool,
    /// What it is when it is not there, where the schema says so.
    pub default: Option<Value>,
}

/// An object with keys of the user's choice.
#[derive(Clone, Debug)]
pub struct Map {
    /// What the values hold.
    pub value: Schema,
    /// Owned and replaced as a whole.
    pub atomic: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    /// What the items hold.
    pub item: Schema,
    /// How items are told apart in server-side apply.
    pub topology: Topology,
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// Not at all: the list is owned and replaced as a whole.
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// How a strategic merge patch treats a field. Distinct from [`Topology`]: the keys differ for some lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merge the list or map instead of replacing it.
    pub merge: bool,
    /// Drop the keys the patch does not name (`retainKeys`).
    pub retain_keys: bool,
    /// Replace an object as a whole, which is merged otherwise.
    pub replace: bool,
    /// The field that names an item of a merged list; absent for lists of scalars.
    pub merge_key: Option<String>,
}

/// Definitions by name: what [`Schema::Named`] refers to.
pub trait Definitions: Send + Sync {
    /// The definition of that name.
    fn get(&self, name: &str) -> Option<Schema>;
}

/// No definitions, for schemas that name none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDefinitions;

impl Definitions for NoDefinitions {
    fn get(&self, _: &str) -> Option<Schema> {
        None
    }
}

impl Schema {
    /// The schema itself where it is named; [`Schema::Any`] where the name is not known.
    pub fn resolve(&self, definitions: &dyn Definitions) -> Schema {
        let mut schema = self.clone();
        while let Self::Named(name) = &schema {
            schema = definitions.get(name).unwrap_or(Self::Any);
        }
        schema
    }
}

impl Field {
    /// A field of which nothing is known but what it holds.
    pub fn new(schema: Schema) -> Self {
        Self { schema, patch: PatchStrategy::default(), required: false, default: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Definitions for One {
        fn get(&self, name: &str) -> Option<Schema> {
            match name {
                "a" => Some(Schema::Named("b".into())),
                "b" => Some(Schema::Scalar(Scalar::String)),
                _ => None,
            }
        }
    }

    #[test]
    fn names_are_followed_to_the_end_and_unknown_ones_are_anything() {
        assert!(matches!(Schema::Named("a".into()).resolve(&One), Schema::Scalar(Scalar::String)));
        assert!(matches!(Schema::Named("c".into()).resolve(&One), Schema::Any));
        assert!(matches!(Schema::Any.resolve(&NoDefinitions), Schema::Any));
    }
}
