//! The merge of an applied configuration into a live object, by their schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{Items, Members, Shape, fields, items};
use crate::schema::{Definitions, Schema};

/// Merges `over` into `base`: scalars and atomic values are replaced, objects are merged field by
/// field, and keyed items one by one. New items are placed where `over` has them relative to the
/// shared ones. A null in `over` does not change a value that has content.
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
    // A field is either merged or copied, never both: otherwise a merge of nested objects would
    // hold a copy for each level.
    let kept = fields(base).map(|(name, under)| {
        let value = match over.get(name) {
            Some(value) => {
                let schema = members.schema(name).unwrap_or(Schema::Any);
                merge(under, value, &schema, definitions)
            }
            None => under.clone(),
        };
        (name.to_owned(), value)
    });
    let mut merged: Map<String, Value> = kept.collect();
    for (name, value) in fields(over) {
        if !merged.contains_key(name) {
            merged.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(merged)
}

/// Merges two lists. The items of `over` keep their order. Those that only `base` has keep theirs,
/// and come as early as possible: those before the next shared item precede the new items of `over`
/// before it.
fn merge_items(list: &Items, base: &[Value], over: &[Value], definitions: &dyn Definitions) -> Value {
    // Keys can be as large as a request. They are numbered once, and then only the numbers are
    // compared.
    let mut numbers = BTreeMap::new();
    let base = numbered_items(list, base, definitions, &mut numbers);
    let over = numbered_items(list, over, definitions, &mut numbers);
    let mut is_in_over = vec![false; numbers.len()];
    for (number, _) in &over {
        is_in_over[*number] = true;
    }
    let mut in_base = vec![InBase::Never; numbers.len()];
    for (number, item) in &base {
        in_base[*number] = match in_base[*number] {
            InBase::Never => InBase::Once(item),
            InBase::Once(_) | InBase::Repeatedly => InBase::Repeatedly,
        };
    }

    let mut merged = Vec::with_capacity(base.len().max(over.len()));
    let mut rest = base.iter().peekable();
    for ((number, item), shared) in over.iter().zip(next_shared(&over, &in_base)) {
        while let Some((own, item)) = rest.next_if(|(it, _)| Some(*it) != shared) {
            if !is_in_over[*own] {
                merged.push((*item).clone());
            }
        }
        merged.push(match in_base[*number] {
            InBase::Once(under) => merge(under, item, list.schema(), definitions),
            InBase::Never | InBase::Repeatedly => (*item).clone(),
        });
        rest.next_if(|(it, _)| it == number);
    }
    merged.extend(rest.filter(|(it, _)| !is_in_over[*it]).map(|(_, item)| (*item).clone()));
    Value::Array(merged)
}

/// The items of the live list that have the same key.
#[derive(Clone, Copy)]
enum InBase<'a> {
    Never,
    Once(&'a Value),
    /// None of the items is merged with.
    Repeatedly,
}

/// Returns the items of a list that have a key, each with the number of its key.
fn numbered_items<'a>(
    list: &Items,
    items: &'a [Value],
    definitions: &dyn Definitions,
    numbers: &mut BTreeMap<Element, usize>,
) -> Vec<(usize, &'a Value)> {
    let keyed = items.iter().filter_map(|item| Some((list.element(item, definitions).ok()?, item)));
    keyed
        .map(|(element, item)| {
            let next = numbers.len();
            (*numbers.entry(element).or_insert(next), item)
        })
        .collect()
}

/// Returns for each item the first one from it on that the live list has too.
fn next_shared(items: &[(usize, &Value)], in_base: &[InBase<'_>]) -> Vec<Option<usize>> {
    let mut next = None;
    let from_the_end = items.iter().rev().map(|(number, _)| {
        if !matches!(in_base[*number], InBase::Never) {
            next = Some(*number);
        }
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
    fn shared_items_come_in_the_order_of_the_applied_list() {
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
    fn untyped_values_merge_by_their_type_and_null_does_not_replace_content() {
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
