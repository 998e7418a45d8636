//! The fields an object states, under its schema: what an applier owns.
//!
//! Atomic lists and maps are one field; items of the others are told apart by key or value.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::field_set::FieldSet;
use super::shape::{Members, Shape, items};
use crate::schema::{Definitions, Schema};

/// The fields of an object. Items that cannot be told apart count once, as a whole; those without a key not at all.
pub fn fields_of(object: &Value, schema: &Schema, definitions: &dyn Definitions) -> FieldSet {
    walk(object, schema, definitions).1
}

/// Whether the value itself is stated, and the fields below it.
fn walk(value: &Value, schema: &Schema, definitions: &dyn Definitions) -> (bool, FieldSet) {
    let mut below = FieldSet::new();
    match Shape::of(schema, Some(value), definitions) {
        shape if shape.is_atomic() => return (true, below),
        Shape::List(list) => {
            let mut told_apart: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
            for item in items(Some(value)) {
                if let Ok(element) = list.element(item, definitions) {
                    told_apart.entry(element).or_default().push(item);
                }
            }
            for (element, same) in told_apart {
                let inner = match same.as_slice() {
                    [one] => walk(one, &list.schema, definitions).1,
                    _ => FieldSet::new(),
                };
                below.put(element, true, inner);
            }
        }
        Shape::Object { members, .. } => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let Some(schema) = members.schema(name) else { continue };
                let (stated, inner) = walk(value, &schema, definitions);
                let hollow = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                below.put(Element::field(name), stated || hollow || !members.names(name), inner);
            }
        }
        Shape::Scalar(_) => {}
    }
    (false, below)
}

/// The set with every named field on the way to its members, but not the keys that users chose.
pub(super) fn with_named_fields(set: &FieldSet, schema: &Schema, definitions: &dyn Definitions) -> FieldSet {
    let shape = Shape::of(schema, None, definitions);
    let mut all = FieldSet::new();
    for (element, member, below) in set.nodes() {
        let (named, inner) = match (&shape, element) {
            (Shape::Object { members, .. }, Element::Field(name)) => {
                (!below.is_empty() && members.names(name), members.schema(name))
            }
            (Shape::List(list), Element::Key(_)) => (false, Some(list.schema.clone())),
            _ => (false, None),
        };
        let below =
            inner.map_or_else(|| below.clone(), |schema| with_named_fields(below, &schema, definitions));
        all.put(element.clone(), member || named, below);
    }
    all
}

/// The set as it is to be read today: what became atomic since it was written is owned as a whole.
pub(super) fn settled(set: &FieldSet, schema: &Schema, definitions: &dyn Definitions) -> FieldSet {
    let shape = Shape::of(schema, None, definitions);
    if matches!(&shape, Shape::Object { members: Members::Every(Schema::Any), .. }) {
        return set.clone();
    }
    let mut settled_set = FieldSet::new();
    for (element, member, below) in set.nodes() {
        let inner = match (&shape, element) {
            (Shape::Object { members, .. }, Element::Field(name)) => members.schema(name),
            (Shape::List(list), _) => Some(list.schema.clone()),
            _ => None,
        };
        let Some(inner) = inner.filter(|_| !below.is_empty()) else {
            settled_set.put(element.clone(), member, below.clone());
            continue;
        };
        match Shape::of(&inner, None, definitions) {
            Shape::Scalar(_) => settled_set.put(element.clone(), member, below.clone()),
            shape if shape.is_atomic() => settled_set.put(element.clone(), true, FieldSet::new()),
            _ => settled_set.put(element.clone(), member, settled(below, &inner, definitions)),
        }
    }
    settled_set
}

/// An object of a built-in kind in which nothing is said: the fields that are always there, such as `metadata`, with
/// theirs. They are those whose default is `{}`, and those that are required: null, or their default.
///
/// Objects of custom kinds have no such fields; theirs is the empty object.
pub fn blank(schema: &Schema, definitions: &dyn Definitions) -> Value {
    let mut object = Map::new();
    if let Schema::Struct(fields) = schema.resolve(definitions) {
        for (name, field) in &fields.fields {
            if field.default.as_ref().and_then(Value::as_object).is_some_and(Map::is_empty) {
                object.insert(name.clone(), blank(&field.schema, definitions));
            } else if field.required {
                object.insert(name.clone(), field.default.clone().unwrap_or_default());
            }
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{Field, List, NoDefinitions, Scalar, Struct, Topology};

    fn object(fields: Vec<(&str, Field)>) -> Schema {
        let fields = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
        Schema::Struct(Arc::new(Struct { fields, ..Struct::default() }))
    }

    fn ports() -> Schema {
        let protocol = Field { default: Some(json!("TCP")), ..Field::new(Schema::Scalar(Scalar::String)) };
        let item =
            object(vec![("port", Field::new(Schema::Scalar(Scalar::Integer))), ("protocol", protocol)]);
        let topology = Topology::Map(vec!["port".to_owned(), "protocol".to_owned()]);
        object(vec![("ports", Field::new(Schema::List(Arc::new(List { item, topology }))))])
    }

    #[test]
    fn items_are_told_apart_by_their_defaults_and_count_once_where_they_are_not() {
        let fields =
            fields_of(&json!({"ports": [{"port": 1}, {"port": 2}, {"port": 2}]}), &ports(), &NoDefinitions);
        let expected = json!({"f:ports": {
            r#"k:{"port":1,"protocol":"TCP"}"#: {".": {}, "f:port": {}},
            r#"k:{"port":2,"protocol":"TCP"}"#: {},
        }});
        assert_eq!(fields.to_json(), expected);
    }

    #[test]
    fn named_fields_on_the_way_are_added_and_keys_are_not() {
        let set = FieldSet::from_json(&json!({"f:ports": {r#"k:{"port":1}"#: {"f:port": {}}}})).unwrap();
        let all = with_named_fields(&set, &ports(), &NoDefinitions);
        assert_eq!(all.to_json(), json!({"f:ports": {".": {}, r#"k:{"port":1}"#: {"f:port": {}}}}));
    }

    #[test]
    fn what_became_atomic_is_owned_as_a_whole() {
        let item = Schema::Scalar(Scalar::String);
        let list = Schema::List(Arc::new(List { item, topology: Topology::Atomic }));
        let set = FieldSet::from_json(&json!({"f:tags": {"v:\"a\"": {}}, "f:x": {}})).unwrap();
        let schema = object(vec![("tags", Field::new(list))]);
        assert_eq!(settled(&set, &schema, &NoDefinitions).to_json(), json!({"f:tags": {}, "f:x": {}}));
    }

    #[test]
    fn a_blank_object_has_what_is_always_there() {
        let always = |schema| Field { default: Some(json!({})), ..Field::new(schema) };
        let required = Field { required: true, ..Field::new(ports()) };
        let schema =
            object(vec![("spec", always(object(vec![("list", required)]))), ("x", Field::new(Schema::Any))]);
        assert_eq!(blank(&schema, &NoDefinitions), json!({"spec": {"list": null}}));
    }
}
