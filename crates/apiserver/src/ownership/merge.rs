//! Laying one object over another by their schema: what an applied object makes of a live one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{Items, Members, Shape, fields, items};
use crate::schema::{Definitions, Schema};

/// Lays `over` over `base`: scalars and atomic values are replaced, objects merge field by field, told-apart items one
/// by one. New items go where `over` has them among the shared ones; a null over something filled changes nothing.
pub fn merge(base: &Value, over: &Value, schema: &Schema, definitions: &dyn Definitions) -> Value {
    let shape = Shape::of(schema, Some(over), definitions);
    match &shape {
        shape if shape.is_atomic() => over.clone(),
        Shape::List(list) if !(items(base).is_empty() && items(over).is_empty()) => {
            merge_items(list, items(base), items(over), definitions)
        }
        Shape::Object { members, .. } if fields(base).chain(fields(over)).next().is_some() => {
            merge_fields(members, base, over, definitions)
        }
        _ => over.clone(),
    }
}

fn merge_fields(members: &Members, base: &Value, over: &Value, definitions: &dyn Definitions) -> Value {
    let copied = fields(base).map(|(name, value)| (name.to_owned(), value.clone()));
    let mut merged: Map<String, Value> = copied.collect();
    for (name, value) in fields(over) {
        match merged.get_mut(name) {
            Some(under) => {
                let schema = members.schema(name).unwrap_or(Schema::Any);
                *under = merge(under, value, &schema, definitions);
            }
            None => _ = merged.insert(name.to_owned(), value.clone()),
        }
    }
    Value::Object(merged)
}

/// The items of a list that have a place in it, each with what tells it apart.
fn told_apart<'a>(
    list: &Items,
    items: &'a [Value],
    definitions: &dyn Definitions,
) -> Vec<(Element, &'a Value)> {
    items.iter().filter_map(|item| Some((list.element(item, definitions).ok()?, item))).collect()
}

/// Merges two lists. The items of `over` come in their order. Those that only `base` has come in theirs, as early as they
/// can: all of them that stand before the next item both have are there before what `over` has before it.
fn merge_items(list: &Items, base: &[Value], over: &[Value], definitions: &dyn Definitions) -> Value {
    let (base, over) = (told_apart(list, base, definitions), told_apart(list, over, definitions));
    let in_over: BTreeSet<&Element> = over.iter().map(|(element, _)| element).collect();
    let mut in_base: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in &base {
        // Where several are the same, there is none to merge with.
        in_base.entry(element).and_modify(|known| *known = None).or_insert(Some(*item));
    }

    let mut merged = Vec::with_capacity(base.len().max(over.len()));
    let mut rest = base.iter().peekable();
    for ((element, item), shared) in over.iter().zip(next_shared(&over, &in_base)) {
        while let Some((own, item)) = rest.next_if(|(it, _)| Some(it) != shared) {
            if !in_over.contains(own) {
                merged.push((*item).clone());
            }
        }
        merged.push(match in_base.get(element) {
            Some(Some(under)) => merge(under, item, &list.schema, definitions),
            Some(None) | None => (*item).clone(),
        });
        rest.next_if(|(it, _)| it == element);
    }
    merged.extend(rest.filter(|(it, _)| !in_over.contains(it)).map(|(_, item)| (*item).clone()));
    Value::Array(merged)
}

/// For each item, the first from it on that the other list has too.
fn next_shared<'a>(
    items: &'a [(Element, &Value)],
    other: &BTreeMap<&Element, Option<&Value>>,
) -> Vec<Option<&'a Element>> {
    let mut next = None;
    let from_the_end = items.iter().rev().map(|(element, _)| {
        next = Some(element).filter(|it| other.contains_key(it)).or(next);
        next
    });
    let mut all: Vec<_> = from_the_end.collect();
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{List, NoDefinitions, Scalar, Topology};

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
            ("abcd", "cay", "bcday"),
            ("aabb", "b", "aab"),
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
}
