//! Laying one object over another by their schema, and taking fields out of one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;
use super::field_set::FieldSet;
use super::shape::{Items, Members, Shape, field, items, names};
use crate::schema::{Definitions, Schema, Topology};

/// Lays `over` over `base`: scalars and atomic values are replaced, objects merge field by field, told-apart items one
/// by one. New items go where `over` has them among the shared ones; a null over something filled changes nothing.
pub fn merge(base: &Value, over: &Value, schema: &Schema, definitions: &dyn Definitions) -> Value {
    visit(Some(base), Some(over), schema, definitions)
}

fn visit(
    base: Option<&Value>,
    over: Option<&Value>,
    schema: &Schema,
    definitions: &dyn Definitions,
) -> Value {
    let shape = Shape::of(schema, over.or(base), definitions);
    match &shape {
        Shape::List(list) if !shape.is_atomic() && items(base).len() + items(over).len() > 0 => {
            merge_items(list, items(base), items(over), definitions)
        }
        Shape::Object { members, .. } if !shape.is_atomic() && !names(base, over).is_empty() => {
            merge_fields(members, base, over, definitions)
        }
        _ => over.or(base).cloned().unwrap_or_default(),
    }
}

fn merge_fields(
    members: &Members,
    base: Option<&Value>,
    over: Option<&Value>,
    definitions: &dyn Definitions,
) -> Value {
    let merged = names(base, over).into_iter().map(|name| {
        let schema = members.schema(name).unwrap_or(Schema::Any);
        (name.to_owned(), visit(field(base, name), field(over, name), &schema, definitions))
    });
    Value::Object(merged.collect())
}

/// The items of one side, told apart.
struct Side<'a> {
    /// Every item with its element, in order.
    order: Vec<(Element, &'a Value)>,
    /// The item of each element; `None` where several share it, which are not merged with anything.
    by_element: BTreeMap<Element, Option<&'a Value>>,
}

impl<'a> Side<'a> {
    fn new(list: &Items, items: &'a [Value], definitions: &dyn Definitions) -> Self {
        let told_apart = items.iter().filter_map(|item| Some((list.element(item, definitions).ok()?, item)));
        let order: Vec<_> = told_apart.collect();
        let mut by_element = BTreeMap::new();
        for (element, item) in &order {
            by_element.entry(element.clone()).and_modify(|known| *known = None).or_insert(Some(*item));
        }
        Self { order, by_element }
    }

    fn has(&self, element: &Element) -> bool {
        self.by_element.contains_key(element)
    }

    fn get(&self, element: &Element) -> Option<&'a Value> {
        self.by_element.get(element).copied().flatten()
    }
}

/// Walks both lists at once. `base` goes first where it has items of its own; shared ones come in the order of `over`.
fn merge_items(list: &Items, base: &[Value], over: &[Value], definitions: &dyn Definitions) -> Value {
    let (left, right) = (Side::new(list, base, definitions), Side::new(list, over, definitions));
    let mut shared = right.order.iter().map(|(element, _)| element).filter(|it| left.has(it)).peekable();
    let (mut l, mut r) = (left.order.iter().peekable(), right.order.iter().peekable());
    let mut merged = Vec::with_capacity(base.len().max(over.len()));
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let both = |element: &Element| visit(left.get(element), right.get(element), &list.schema, definitions);
    loop {
        if let (Some((ours, _)), Some((theirs, _))) = (l.peek(), r.peek()) {
            if ours == theirs {
                merged.push(both(ours));
                done.insert(ours);
                l.next();
                r.next();
                shared.next();
                continue;
            }
            if right.has(ours) && shared.peek().is_some_and(|next| *next != ours) {
                // Shared, but not its turn: it comes where the other list has it.
                l.next();
                continue;
            }
        }
        if let Some((ours, item)) = l.peek() {
            if !right.has(ours) {
                merged.push(visit(Some(item), None, &list.schema, definitions));
                l.next();
                continue;
            }
            if done.contains(ours) {
                l.next();
            }
        }
        match r.next() {
            Some((theirs, _)) => {
                merged.push(both(theirs));
                done.insert(theirs);
                shared.next_if(|next| *next == theirs);
            }
            None if l.peek().is_none() => return Value::Array(merged),
            None => {}
        }
    }
}

/// The value without the fields of the set. A list or object that loses everything becomes null, and so does an atomic
/// one that the set reaches into.
pub fn remove(value: &Value, set: &FieldSet, schema: &Schema, definitions: &dyn Definitions) -> Value {
    let shape = Shape::of(schema, Some(value), definitions);
    match (&shape, value) {
        (Shape::Scalar(_), value) => value.clone(),
        (Shape::List(list), Value::Array(items)) if list.topology != Topology::Atomic => {
            let kept = items.iter().filter_map(|item| {
                let Ok(element) = list.element(item, definitions) else { return Some(item.clone()) };
                if set.has(&element) {
                    return None;
                }
                let below = set.below(&element);
                Some(below.map_or_else(|| item.clone(), |set| remove(item, set, &list.schema, definitions)))
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Shape::Object { members, atomic: false }, Value::Object(fields)) => {
            let kept = fields.iter().filter_map(|(name, value)| {
                let element = Element::field(name);
                if set.has(&element) {
                    return None;
                }
                let schema = members.schema(name).unwrap_or(Schema::Any);
                let below = set.below(&element);
                let value =
                    below.map_or_else(|| value.clone(), |set| remove(value, set, &schema, definitions));
                Some((name.clone(), value))
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{List, NoDefinitions, Scalar};

    fn set_of_texts() -> Schema {
        Schema::List(Arc::new(List { item: Schema::Scalar(Scalar::String), topology: Topology::Set }))
    }

    #[test]
    fn shared_items_come_in_the_order_of_the_upper_list() {
        for (base, over, merged) in [
            ("", "ab", "ab"),
            ("ab", "", "ab"),
            ("ab", "c", "abc"),
            ("abc", "ca", "bca"),
            ("ab", "xb", "axb"),
            ("ab", "bx", "abx"),
            ("abcd", "dxb", "acdxb"),
        ] {
            let list = |text: &str| json!(text.chars().map(String::from).collect::<Vec<_>>());
            let result = merge(&list(base), &list(over), &set_of_texts(), &NoDefinitions);
            assert_eq!(result, list(merged), "{over} over {base}");
        }
    }

    #[test]
    fn anything_merges_by_what_it_is_and_null_over_something_filled_changes_nothing() {
        for (base, over, merged) in [
            (json!({"a": {"b": 1}}), json!({"a": {"c": 2}}), json!({"a": {"b": 1, "c": 2}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": {"b": 1}}), json!({"a": 5}), json!({"a": 5})),
            (json!({"a": 5}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": {"b": 1}})),
            (json!({"a": {}}), json!({"a": null}), json!({"a": null})),
        ] {
            assert_eq!(merge(&base, &over, &Schema::Any, &NoDefinitions), merged, "{over} over {base}");
        }
    }

    #[test]
    fn what_loses_everything_becomes_null() {
        let fields = FieldSet::from_json(&json!({"f:a": {"f:b": {}}, "f:c": {}})).unwrap();
        let left = remove(&json!({"a": {"b": 1}, "c": 2, "d": 3}), &fields, &Schema::Any, &NoDefinitions);
        assert_eq!(left, json!({"a": null, "d": 3}));
    }
}
