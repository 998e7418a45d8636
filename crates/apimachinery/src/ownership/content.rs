//! The parts of a value by its schema, one level at a time.
//!
//! Everything about ownership walks objects through this: the stated fields, the difference of two
//! objects, the fields without an owner. It knows nothing of owners.

use serde_json::Value;

use super::element::Element;
use super::shape::{Items, Members, Shape, fields, items};
use crate::schema::{Definitions, Schema};

/// The content of a value.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// A leaf, whose parts cannot be owned: a scalar, or an atomic list or object.
    Leaf,
    /// An empty list or object, or null in place of one.
    Empty,
    /// Parts, sorted by element, without duplicates. Fields that are not in the schema and items
    /// without a key are not among them.
    Parts(Vec<Part<'a>>),
}

/// A field of an object, or an item of a list.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) element: Element,
    pub(super) schema: Schema,
    /// True for a field that the schema names, as opposed to an item or a map key that a user
    /// chose. A named field has no owner of its own: it counts as owned if something in it is.
    pub(super) named: bool,
    pub(super) held: PartValue<'a>,
}

/// The value at an element.
#[derive(Debug)]
pub(super) enum PartValue<'a> {
    One(&'a Value),
    /// Items with the same key, which are one value together.
    Several(Vec<&'a Value>),
}

impl<'a> Content<'a> {
    /// Returns the content of a value. One that does not match its schema has none.
    pub(super) fn of(value: &'a Value, schema: &Schema, definitions: &dyn Definitions) -> Self {
        let shape = Shape::of(schema, Some(value), definitions);
        if shape.is_atomic() {
            return Self::Leaf;
        }
        match shape {
            Shape::List(list) if !items(value).is_empty() => {
                Self::Parts(of_list(&list, items(value), definitions))
            }
            Shape::Object { members, .. } if fields(value).next().is_some() => {
                Self::Parts(of_object(&members, value))
            }
            _ => Self::Empty,
        }
    }

    /// Returns the parts; empty for a leaf and for an empty value.
    pub(super) fn parts(self) -> Vec<Part<'a>> {
        match self {
            Self::Parts(parts) => parts,
            Self::Leaf | Self::Empty => Vec::new(),
        }
    }
}

impl<'a> Part<'a> {
    /// Returns the content of the part. Duplicate items count as a leaf.
    pub(super) fn content(&self, definitions: &dyn Definitions) -> Content<'a> {
        match &self.held {
            PartValue::One(value) => Content::of(value, &self.schema, definitions),
            PartValue::Several(_) => Content::Leaf,
        }
    }

    /// Returns true if the writer has stated this part itself, and not only its content. An empty
    /// list states nothing; an empty object does.
    pub(super) fn is_stated(&self, content: &Content<'_>) -> bool {
        match (content, &self.held) {
            _ if !self.named => true,
            (Content::Leaf, _) => true,
            (Content::Empty, PartValue::One(value)) => !value.is_array(),
            _ => false,
        }
    }
}

fn of_object<'a>(members: &Members, value: &'a Value) -> Vec<Part<'a>> {
    let each = fields(value).filter_map(|(name, value)| {
        let schema = members.schema(name)?;
        let (element, named) = (Element::field(name), members.names(name));
        Some(Part { element, schema, named, held: PartValue::One(value) })
    });
    let mut parts: Vec<_> = each.collect();
    // Objects are sorted already unless their order is preserved.
    if !parts.is_sorted_by(|a, b| a.element <= b.element) {
        parts.sort_by(|a, b| a.element.cmp(&b.element));
    }
    parts
}

fn of_list<'a>(list: &Items, items: &'a [Value], definitions: &dyn Definitions) -> Vec<Part<'a>> {
    let keyed = items.iter().filter_map(|item| Some((list.element(item, definitions).ok()?, item)));
    let mut sorted: Vec<(Element, &Value)> = keyed.collect();
    // A stable sort: duplicates stay in the order of the list.
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut parts: Vec<Part<'a>> = Vec::with_capacity(sorted.len());
    for (element, item) in sorted {
        match parts.last_mut().filter(|last| last.element == element) {
            Some(last) => match &mut last.held {
                PartValue::One(first) => last.held = PartValue::Several(vec![*first, item]),
                PartValue::Several(all) => all.push(item),
            },
            None => {
                let schema = list.schema().clone();
                parts.push(Part { element, schema, named: false, held: PartValue::One(item) });
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{List, NoDefinitions, Scalar, Topology};

    fn elements(value: &Value, schema: &Schema) -> Vec<String> {
        let parts = Content::of(value, schema, &NoDefinitions).parts();
        parts.iter().map(|part| part.element.to_string()).collect()
    }

    #[test]
    fn an_untyped_value_has_parts_by_its_type() {
        assert_eq!(elements(&json!({"b": 1, "a": [2]}), &Schema::Any), [".a", ".b"]);
        for (value, whole) in [(json!([1]), true), (json!(1), true), (json!(null), false), (json!({}), false)]
        {
            let content = Content::of(&value, &Schema::Any, &NoDefinitions);
            assert_eq!(matches!(content, Content::Leaf), whole, "{value}");
            assert_eq!(matches!(content, Content::Empty), !whole, "{value}");
        }
    }

    #[test]
    fn the_items_of_a_set_are_sorted_and_duplicates_are_one_part() {
        let item = Schema::Scalar(Scalar::String);
        let set = Schema::List(Arc::new(List { item, topology: Topology::Set }));
        let value = json!(["b", "a", null, "b"]);
        assert_eq!(elements(&value, &set), [r#"[="a"]"#, r#"[="b"]"#], "null is not an item of a set");
        let parts = Content::of(&value, &set, &NoDefinitions).parts();
        assert!(matches!(&parts[1].held, PartValue::Several(both) if both.len() == 2));
    }
}
