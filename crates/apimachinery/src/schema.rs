//! The schema of a kind: the types of its fields, how lists and maps merge, and which unknown
//! fields are kept.
//!
//! Schemas of built-in kinds come from generated tables, those of custom kinds from their
//! definition. Strategic merge patch, server-side apply, validation, pruning and the OpenAPI
//! documents all read this form. It knows nothing of requests.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// A node of a schema; cheap to clone. Built-in schemas are recursive, so a node may be a name to
/// look up.
#[derive(Clone, Debug)]
pub enum Schema {
    /// A value without inner structure: a string, number, boolean, or one of the types with a
    /// string form.
    Scalar(Scalar),
    /// An object with named fields.
    Struct(Arc<Struct>),
    /// An object with arbitrary keys.
    Map(Arc<Map>),
    /// A list.
    List(Arc<List>),
    /// A reference to a definition, looked up by name in the [`Definitions`].
    Named(Arc<str>),
    /// Any JSON value, kept as is.
    Any,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A number, with or without a fraction.
    Number,
    /// A boolean.
    Boolean,
    /// An integer or a string: ports and percentages.
    IntOrString,
    /// A quantity such as `500m`.
    Quantity,
    /// A point in time.
    Time,
    /// A point in time with microseconds.
    MicroTime,
    /// A duration such as `1h0m0s`.
    Duration,
    /// Bytes, encoded as base64.
    Bytes,
}

/// An object with named fields.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// The fields by name.
    pub fields: HashMap<String, Field>,
    /// The schema of the values of unnamed fields, if those are kept.
    pub additional: Option<Schema>,
    /// True if the object has one owner and is replaced as a whole.
    pub atomic: bool,
    /// True if unknown fields are kept instead of pruned.
    pub preserve_unknown: bool,
}

/// One field of a [`Struct`].
#[derive(Clone, Debug)]
pub struct Field {
    /// The schema of its value.
    pub schema: Schema,
    /// The treatment of the field by a strategic merge patch.
    pub patch: PatchStrategy,
    /// True if the field must be present.
    pub required: bool,
    /// The value of a missing field, if the schema defines one.
    pub default: Option<Value>,
}

/// An object with arbitrary keys.
#[derive(Clone, Debug)]
pub struct Map {
    /// The schema of the values.
    pub value: Schema,
    /// True if the map has one owner and is replaced as a whole.
    pub atomic: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    /// The schema of the items.
    pub item: Schema,
    /// The identity of the items in server-side apply.
    pub topology: Topology,
}

/// The identity of the items of a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Items have no identity: the list has one owner and is replaced as a whole.
    Atomic,
    /// Items are identified by their value.
    Set,
    /// Items are identified by the values of these fields.
    Map(Vec<String>),
}

/// The treatment of a field by a strategic merge patch. Distinct from [`Topology`]: the keys differ
/// for some lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merges the list or map instead of replacing it.
    pub merge: bool,
    /// Drops the keys that the patch does not contain (`retainKeys`).
    pub retain_keys: bool,
    /// Replaces the object as a whole instead of merging it.
    pub replace: bool,
    /// The field that identifies an item of a merged list. `None` for lists of scalars.
    pub merge_key: Option<String>,
}

/// The definitions that [`Schema::Named`] refers to, by name.
pub trait Definitions: Send + Sync {
    /// Returns the definition of that name.
    fn get(&self, name: &str) -> Option<Schema>;
}

/// An empty set of definitions, for schemas that refer to none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDefinitions;

impl Definitions for NoDefinitions {
    fn get(&self, _: &str) -> Option<Schema> {
        None
    }
}

impl Schema {
    /// Follows names to the schema they refer to. Returns [`Schema::Any`] for an unknown name.
    pub fn resolve(&self, definitions: &dyn Definitions) -> Schema {
        let mut schema = self.clone();
        while let Self::Named(name) = &schema {
            schema = definitions.get(name).unwrap_or(Self::Any);
        }
        schema
    }
}

impl Field {
    /// Creates an optional field of this schema, without a default or a patch strategy.
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
    fn names_resolve_through_chains_and_unknown_ones_to_any() {
        assert!(matches!(Schema::Named("a".into()).resolve(&One), Schema::Scalar(Scalar::String)));
        assert!(matches!(Schema::Named("c".into()).resolve(&One), Schema::Any));
        assert!(matches!(Schema::Any.resolve(&NoDefinitions), Schema::Any));
    }
}
