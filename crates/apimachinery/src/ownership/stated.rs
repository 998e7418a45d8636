//! The fields that an object states under its schema: those that an applier owns.
//!
//! Atomic lists and maps are one field; items of other lists are identified by key or value.

use serde_json::{Map, Value};

use super::content::Content;
use super::element::Element;
use super::field_set::FieldSet;
use super::shape::{Members, Shape};
use crate::schema::{Definitions, Schema};

/// Returns the fields of an object. Duplicate items count once, as a whole; items without a key do
/// not count.
pub fn fields_of(object: &Value, schema: &Schema, definitions: &dyn Definitions) -> FieldSet {
    stated_in(Content::of(object, schema, definitions), definitions)
}

fn stated_in(content: Content<'_>, definitions: &dyn Definitions) -> FieldSet {
    let mut stated = FieldSet::new();
    for part in content.parts() {
        let content = part.content(definitions);
        let itself = part.is_stated(&content);
        stated.put(part.element, itself, stated_in(content, definitions));
    }
    stated
}

/// Returns all fields in an object, also those that only contain stated fields.
pub(super) fn everything_in(content: Content<'_>, definitions: &dyn Definitions) -> FieldSet {
    let mut all = FieldSet::new();
    for part in content.parts() {
        let below = everything_in(part.content(definitions), definitions);
        all.put(part.element, true, below);
    }
    all
}

/// Updates a set to the current schema: values that have become atomic since it was written are
/// owned as a whole.
pub(super) fn settled(set: &FieldSet, schema: &Schema, definitions: &dyn Definitions) -> FieldSet {
    let shape = Shape::of(schema, None, definitions);
    let mut today = FieldSet::new();
    for (element, member, below) in set.nodes() {
        let inner = if below.is_empty() { None } else { within(&shape, element) };
        let now = inner.as_ref().map(|schema| Shape::of(schema, None, definitions));
        match (now, inner) {
            (Some(now), Some(inner)) if !now.is_atomic() => {
                today.put(element.clone(), member, settled(below, &inner, definitions));
            }
            (Some(Shape::List(_) | Shape::Object { .. }), _) => {
                today.put(element.clone(), true, FieldSet::new())
            }
            // The field is unknown, or cannot have the former type: it is not changed.
            _ => today.put(element.clone(), member, below.clone()),
        }
    }
    today
}

/// Returns the schema of the value at an element; `None` if the schema allows anything or nothing
/// there.
fn within(shape: &Shape, element: &Element) -> Option<Schema> {
    let inner = match (shape, element) {
        (Shape::Object { members: Members::Every(Schema::Any), .. }, _) => None,
        (Shape::Object { members, .. }, Element::Field(name)) => members.schema(name),
        (Shape::List(list), _) => Some(list.schema().clone()),
        _ => None,
    };
    inner.filter(|inner| !matches!(inner, Schema::Any))
}

/// Returns an object of a built-in kind without any content: only the fields that are always
/// present, such as `metadata`, with theirs. They are those whose default is `{}`, and those that
/// are required, with null or their default.
///
/// Custom kinds have no such fields; theirs is the empty object.
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
    fn keys_include_defaults_and_duplicate_items_count_once() {
        let fields =
            fields_of(&json!({"ports": [{"port": 1}, {"port": 2}, {"port": 2}]}), &ports(), &NoDefinitions);
        let expected = json!({"f:ports": {
            r#"k:{"port":1,"protocol":"TCP"}"#: {".": {}, "f:port": {}},
            r#"k:{"port":2,"protocol":"TCP"}"#: {},
        }});
        assert_eq!(fields.to_json(), expected);
    }

    #[test]
    fn a_list_that_became_atomic_is_owned_as_a_whole() {
        let item = Schema::Scalar(Scalar::String);
        let list = Schema::List(Arc::new(List { item, topology: Topology::Atomic }));
        let set = FieldSet::from_json(&json!({"f:tags": {"v:\"a\"": {}}, "f:x": {}})).unwrap();
        let schema = object(vec![("tags", Field::new(list))]);
        assert_eq!(settled(&set, &schema, &NoDefinitions).to_json(), json!({"f:tags": {}, "f:x": {}}));
    }

    #[test]
    fn a_blank_object_has_the_fields_that_are_always_present() {
        let always = |schema| Field { default: Some(json!({})), ..Field::new(schema) };
        let required = Field { required: true, ..Field::new(ports()) };
        let schema =
            object(vec![("spec", always(object(vec![("list", required)]))), ("x", Field::new(Schema::Any))]);
        assert_eq!(blank(&schema, &NoDefinitions), json!({"spec": {"list": null}}));
    }
}
