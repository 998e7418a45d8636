//! Which fields were added, modified and removed between two objects of one schema.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::{Element, same};
use super::field_set::FieldSet;
use super::shape::{Items, Members, Shape, field, fields, items};
use crate::schema::{Definitions, Schema};

/// The difference of two objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the second object has.
    pub added: FieldSet,
    /// Fields that both have, with different values.
    pub modified: FieldSet,
    /// Fields that only the first object has.
    pub removed: FieldSet,
}

/// Compares two objects. An object that comes or goes is named with everything in it.
pub fn compare(old: &Value, new: &Value, schema: &Schema, definitions: &dyn Definitions) -> Comparison {
    let mut walk = Walk { definitions, path: Vec::new(), found: Comparison::default() };
    walk.visit(Some(old), Some(new), schema);
    walk.found
}

struct Walk<'a> {
    definitions: &'a dyn Definitions,
    path: Vec<Element>,
    found: Comparison,
}

impl Walk<'_> {
    fn visit(&mut self, old: Option<&Value>, new: Option<&Value>, schema: &Schema) {
        let is = Shape::of(schema, new.or(old), self.definitions);
        let both = old.is_some() && new.is_some();
        if both && matches!(schema, Schema::Any | Schema::Scalar(_) | Schema::Named(_)) {
            // Where anything is allowed, a value may have become something else altogether.
            let was = Shape::of(schema, old, self.definitions);
            if !was.alike(&is) {
                self.visit_as(&was, old, new);
            }
        }
        let leaf = self.visit_as(&is, old, new);
        if leaf {
            return;
        }
        if old.is_none() {
            self.found.added.insert(&self.path);
        } else if new.is_none() {
            self.found.removed.insert(&self.path);
        }
    }

    /// Compares both as this shape; says whether they were compared as a whole.
    fn visit_as(&mut self, shape: &Shape, old: Option<&Value>, new: Option<&Value>) -> bool {
        let empty = match shape {
            Shape::Scalar(_) => true,
            Shape::List(_) => items(old).is_empty() && items(new).is_empty(),
            Shape::Object { .. } => [old, new].into_iter().all(|it| fields(it).next().is_none()),
        };
        // Two empty ones are compared as a whole, so that empty and null stay different.
        if shape.is_atomic() || empty {
            self.visit_leaf(old, new);
            return true;
        }
        match shape {
            Shape::List(list) => self.visit_items(list, items(old), items(new)),
            Shape::Object { members, .. } => self.visit_fields(members, old, new),
            Shape::Scalar(_) => {}
        }
        false
    }

    fn visit_leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn visit_fields(&mut self, members: &Members, old: Option<&Value>, new: Option<&Value>) {
        let before = fields(old).map(|(name, _)| name);
        let more = fields(new).map(|(name, _)| name).filter(|name| field(old, name).is_none());
        for name in before.chain(more) {
            let Some(schema) = members.schema(name) else { continue };
            let (was, is) = (field(old, name), field(new, name));
            self.path.push(Element::field(name));
            self.visit(was, is, &schema);
            self.path.pop();
        }
    }

    fn visit_items(&mut self, list: &Items, old: &[Value], new: &[Value]) {
        let mut told_apart: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(element) = list.element(item, self.definitions) {
                told_apart.entry(element).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(element) = list.element(item, self.definitions) {
                told_apart.entry(element).or_default().1.push(item);
            }
        }
        for (element, (old, new)) in told_apart {
            self.path.push(element);
            self.visit_item(&list.schema, &old, &new);
            self.path.pop();
        }
    }

    /// Items that cannot be told apart are one leaf together.
    fn visit_item(&mut self, schema: &Schema, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => self.visit(old.first().copied(), new.first().copied(), schema),
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                if !equal {
                    self.found.modified.insert(&self.path);
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.visit(None, Some(new), schema);
                }
                self.found.removed.insert(&self.path);
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    self.visit(Some(old), None, schema);
                }
                self.found.added.insert(&self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{List, NoDefinitions, Scalar, Topology};

    #[test]
    fn changes_are_named_with_everything_in_them() {
        for (old, new, added, modified, removed) in [
            (json!({}), json!({"a": {"b": 1}}), json!({"f:a": {".": {}, "f:b": {}}}), json!({}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({}), json!({"f:a": {}}), json!({})),
            (json!({"a": [1]}), json!({"a": [1, 2]}), json!({}), json!({"f:a": {}}), json!({})),
            (
                json!({"a": {"b": 1}}),
                json!({"a": 5}),
                json!({}),
                json!({"f:a": {}}),
                json!({"f:a": {"f:b": {}}}),
            ),
            (json!({"a": {}}), json!({"a": null}), json!({}), json!({"f:a": {}}), json!({})),
            (json!({"a": 1}), json!({"a": 1.0}), json!({}), json!({}), json!({})),
        ] {
            let found = compare(&old, &new, &Schema::Any, &NoDefinitions);
            let found = (found.added.to_json(), found.modified.to_json(), found.removed.to_json());
            assert_eq!(found, (added, modified, removed), "{old} to {new}");
        }
    }

    #[test]
    fn items_that_cannot_be_told_apart_are_one_leaf() {
        let item = Schema::Scalar(Scalar::String);
        let schema = Schema::List(Arc::new(List { item, topology: Topology::Set }));
        let compared = |old: Value, new: Value| compare(&old, &new, &schema, &NoDefinitions);
        let a = FieldSet::from_json(&json!({"v:\"a\"": {}})).unwrap();
        assert_eq!(compared(json!(["a", "a"]), json!(["a", "a"])), Comparison::default());
        assert_eq!(compared(json!(["a", "a"]), json!(["a", "a", "a"])).modified, a);
        let fewer = compared(json!(["a", "a"]), json!(["a"]));
        assert_eq!((fewer.added, fewer.removed), (a.clone(), a.clone()));
        let more = compared(json!(["a"]), json!(["a", "a"]));
        assert_eq!((more.added, more.removed), (a.clone(), a));
    }
}
