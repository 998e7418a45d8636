//! A value taken apart by its schema, one level at a time.
//!
//! Everything that has to do with owning walks objects through this: which fields are stated, what two objects differ in, what
//! goes when nobody owns it any more. It knows nothing of owners.

use serde_json::Value;

use super::element::Element;
use super::shape::{Items, Members, Shape, fields, items};
use crate::schema::{Definitions, Schema};

/// What a value is made of.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// Nothing that could be owned by itself: a scalar, or a list or object that is replaced as a whole.
    Whole,
    /// Nothing at all: a list or object without anything in it, or null in place of one.
    Nothing,
    /// Parts, sorted by element, each once. What has no place in the schema, or no key, is not among them.
    Parts(Vec<Part<'a>>),
}

/// A field of an object, or an item of a list.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) element: Element,
    pub(super) schema: Schema,
    /// Whether it is a field that the schema names, as opposed to an item and to a key that a user chose. Nobody decides that
    /// a named field is there: it counts as owned where something in it is.
    pub(super) named: bool,
    pub(super) held: Held<'a>,
}

/// What is found at an element.
#[derive(Debug)]
pub(super) enum Held<'a> {
    One(&'a Value),
    /// Items of a list that cannot be told apart, which are one thing together.
    Several(Vec<&'a Value>),
}

impl<'a> Content<'a> {
    /// Takes a value apart. One that does not fit its schema is made of nothing.
    pub(super) fn of(value: &'a Value, schema: &Schema, definitions: &dyn Definitions) -> Self {
        let shape = Shape::of(schema, Some(value), definitions);
        if shape.is_atomic() {
            return Self::Whole;
        }
        match shape {
            Shape::List(list) if !items(value).is_empty() => {
                Self::Parts(of_list(&list, items(value), definitions))
            }
            Shape::Object { members, .. } if fields(value).next().is_some() => {
                Self::Parts(of_object(&members, value))
            }
            _ => Self::Nothing,
        }
    }

    /// The parts; none where there are none.
    pub(super) fn parts(self) -> Vec<Part<'a>> {
        match self {
            Self::Parts(parts) => parts,
            Self::Whole | Self::Nothing => Vec::new(),
        }
    }
}

impl<'a> Part<'a> {
    /// What it is made of; items that cannot be told apart are not looked into.
    pub(super) fn content(&self, definitions: &dyn Definitions) -> Content<'a> {
        match &self.held {
            Held::One(value) => Content::of(value, &self.schema, definitions),
            Held::Several(_) => Content::Whole,
        }
    }

    /// Whether whoever wrote this part has stated it, and not only what is in it. A list of which nothing is left says
    /// nothing, other than an object of which nothing is left.
    pub(super) fn is_stated(&self, content: &Content<'_>) -> bool {
        match (content, &self.held) {
            _ if !self.named => true,
            (Content::Whole, _) => true,
            (Content::Nothing, Held::One(value)) => !value.is_array(),
            _ => false,
        }
    }
}

fn of_object<'a>(members: &Members, value: &'a Value) -> Vec<Part<'a>> {
    let each = fields(value).filter_map(|(name, value)| {
        let schema = members.schema(name)?;
        let (element, named) = (Element::field(name), members.names(name));
        Some(Part { element, schema, named, held: Held::One(value) })
    });
    let mut parts: Vec<_> = each.collect();
    // Objects are sorted already unless their order is kept.
    if !parts.is_sorted_by(|a, b| a.element <= b.element) {
        parts.sort_by(|a, b| a.element.cmp(&b.element));
    }
    parts
}

fn of_list<'a>(list: &Items, items: &'a [Value], definitions: &dyn Definitions) -> Vec<Part<'a>> {
    let told_apart = items.iter().filter_map(|item| Some((list.element(item, definitions).ok()?, item)));
    let mut sorted: Vec<(Element, &Value)> = told_apart.collect();
    // Those that are the same stay in the order of the list.
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut parts: Vec<Part<'a>> = Vec::with_capacity(sorted.len());
    for (element, item) in sorted {
        match parts.last_mut().filter(|last| last.element == element) {
            Some(last) => match &mut last.held {
                Held::One(first) => last.held = Held::Several(vec![*first, item]),
                Held::Several(all) => all.push(item),
            },
            None => {
                let schema = list.schema.clone();
                parts.push(Part { element, schema, named: false, held: Held::One(item) });
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
    fn what_may_be_anything_is_taken_apart_by_what_it_is() {
        assert_eq!(elements(&json!({"b": 1, "a": [2]}), &Schema::Any), [".a", ".b"]);
        for (value, whole) in [(json!([1]), true), (json!(1), true), (json!(null), false), (json!({}), false)]
        {
            let content = Content::of(&value, &Schema::Any, &NoDefinitions);
            assert_eq!(matches!(content, Content::Whole), whole, "{value}");
            assert_eq!(matches!(content, Content::Nothing), !whole, "{value}");
        }
    }

    #[test]
    fn the_items_of_a_set_are_sorted_and_the_same_ones_are_one_part() {
        let item = Schema::Scalar(Scalar::String);
        let set = Schema::List(Arc::new(List { item, topology: Topology::Set }));
        let value = json!(["b", "a", null, "b"]);
        assert_eq!(elements(&value, &set), [r#"[="a"]"#, r#"[="b"]"#], "null is not an item of a set");
        let parts = Content::of(&value, &set, &NoDefinitions).parts();
        assert!(matches!(&parts[1].held, Held::Several(both) if both.len() == 2));
    }
}
