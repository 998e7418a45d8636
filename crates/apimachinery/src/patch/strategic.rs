//! Strategic merge patch: a merge in which the schema declares which lists merge, and by which key.
//!
//! Directives in a patch: `$patch` in an object replaces or deletes it (in a list item: replaces
//! the list, deletes the item); `$retainKeys` drops all keys of an object but these;
//! `$setElementOrder/<list>` gives the order of a list; `$deleteFromPrimitiveList/<list>` removes
//! scalars from a list. As in k8s.io/apimachinery v0.36.4 pkg/util/strategicpatch/patch.go, new
//! values are taken as they are: directives inside a new item stay, until unknown fields are
//! dropped.

use std::cell::Cell;
use std::collections::HashSet;

use dogwatch_core::Reason;
use serde_json::{Map, Value};

use super::go_format::type_name;
use super::list::{self, DIRECTIVE};
use super::merge::without_nulls;
use super::schema_node::SchemaNode;
use crate::ApiError;
use crate::schema::PatchStrategy;
use crate::weight;

type Fields = Map<String, Value>;

const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_SCALARS: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The weight of the lists that any patch may merge.
const FREE_WEIGHT: usize = 100_000;

/// The number of times that a patch may merge everything in it and in the object. A list is merged
/// once, and once more with each list around it, unless the patch repeats items with the same key.
const MAX_REPEATS: usize = 16;

/// The weight of the lists that a patch may still merge. Without it, a patch with many items of one
/// key would merge a long list in the live item as many times. kube-apiserver has no limit.
struct Budget(Cell<usize>);

impl Budget {
    fn of(live: &Fields, patch: &Fields) -> Self {
        let values = live.values().chain(patch.values());
        let weight = values.fold(0_usize, |sum, it| sum.saturating_add(weight::of(it)));
        Self(Cell::new(weight.saturating_mul(MAX_REPEATS).saturating_add(FREE_WEIGHT)))
    }

    fn spend(&self, lists: [&[Value]; 2]) -> Result<(), ApiError> {
        let [live, patch] = lists.map(weight::of_items);
        let left = self.0.get().checked_sub(live.saturating_add(patch));
        self.0.set(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| {
            let message =
                "Request entity too large: The patch repeats items of a list with the same key too often";
            ApiError::new(Reason::RequestEntityTooLarge, message)
        })
    }
}

/// Merges `patch` into the `live` object, whose schema is `node`.
pub(super) fn merge(live: Fields, patch: Fields, node: &SchemaNode<'_>) -> Result<Fields, ApiError> {
    let budget = Budget::of(&live, &patch);
    merge_fields(live, patch, node, &budget)
}

fn merge_fields(
    mut live: Fields,
    mut patch: Fields,
    node: &SchemaNode<'_>,
    budget: &Budget,
) -> Result<Fields, ApiError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(list::unknown_directive(&patch)),
        };
    }
    retain_keys(&mut live, &mut patch)?;
    merge_ordered_lists(&mut live, &mut patch, node, budget)?;
    // `mergeMap` in strategicpatch/patch.go iterates over the fields in the random order of a Go
    // map, and nearly always removes scalars last.
    let is_deletion = |(key, _): &(String, Value)| key.starts_with(DELETE_SCALARS);
    let (deletions, fields): (Vec<_>, Vec<_>) = patch.into_iter().partition(is_deletion);
    for (key, value) in fields.into_iter().chain(deletions) {
        merge_field(&mut live, &key, value, node, budget)?;
    }
    Ok(live)
}

/// Executes `$retainKeys`: it must contain every key that the patch sets, and all other keys are
/// dropped.
fn retain_keys(live: &mut Fields, patch: &mut Fields) -> Result<(), ApiError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || ApiError::bad_request("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(bad)?;
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let names = |key: &str| retained.contains(key);
    let sets = |key: &str, value: &Value| {
        !value.is_null() && !key.starts_with(DELETE_SCALARS) && !key.starts_with(SET_ORDER)
    };
    if patch.iter().any(|(key, value)| sets(key, value) && !names(key)) {
        return Err(bad());
    }
    live.retain(|key, _| names(key));
    Ok(())
}

/// Merges the lists whose order the patch gives, and removes them from the patch.
fn merge_ordered_lists(
    live: &mut Fields,
    patch: &mut Fields,
    node: &SchemaNode<'_>,
    budget: &Budget,
) -> Result<(), ApiError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let order = order.as_array().ok_or_else(|| list::not_a_list(&order))?;
        let bad = || ApiError::bad_request("invalid patch format of setElementOrder list");
        let key = listed(&directive, SET_ORDER).ok_or_else(bad)?;
        let current = list_at(live, key)?;
        let change = list_at(patch, key)?;
        budget.spend([current.unwrap_or_default(), change.unwrap_or_default()])?;
        let (item, strategy) = node.items(key)?;
        let merge_key = strategy.merge_key.as_deref();
        list::check_order(change.unwrap_or_default(), order, merge_key)?;
        let merged = match (current, change) {
            (None, None) => continue,
            (Some(current), None) => current.to_vec(),
            (None, Some(change)) => change.iter().cloned().filter_map(without_directives).collect(),
            (Some(current), Some(change)) => {
                merge_list(current.to_vec(), change.to_vec(), &item, &strategy, false, budget)?
            }
        };
        let (current, change) = (current.unwrap_or_default(), change.unwrap_or_default());
        let objects = list::holds_objects(&[current, change])?;
        let live_order = match merge_key {
            Some(key) if objects && strategy.merge && !current.is_empty() => {
                list::live_order(current, change, key)?
            }
            _ => current.to_vec(),
        };
        let arranged = list::arrange(merged, order, &live_order, merge_key, objects)?;
        live.insert(key.to_owned(), Value::Array(arranged));
        patch.remove(key);
    }
    Ok(())
}

/// Returns the list under a key, if the key is present.
fn list_at<'a>(fields: &'a Fields, key: &str) -> Result<Option<&'a [Value]>, ApiError> {
    match fields.get(key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(list::not_a_list(other)),
    }
}

fn merge_field(
    live: &mut Fields,
    key: &str,
    value: Value,
    node: &SchemaNode<'_>,
    budget: &Budget,
) -> Result<(), ApiError> {
    let deletes = key.starts_with(DELETE_SCALARS);
    let key = if deletes {
        let bad = || ApiError::bad_request("invalid patch format of primitive list");
        listed(key, DELETE_SCALARS).ok_or_else(bad)?
    } else {
        key
    };
    if value.is_null() {
        live.remove(key);
        return Ok(());
    }
    match live.get_mut(key) {
        Some(current) if type_name(current) == type_name(&value) => {
            *current = merge_value(current.take(), value, key, deletes, node, budget)?;
        }
        _ if deletes => {}
        _ => match without_directives(without_nulls(&value)) {
            Some(value) => {
                live.insert(key.to_owned(), value);
            }
            None => {
                live.remove(key);
            }
        },
    }
    Ok(())
}

/// Merges two values of one type.
fn merge_value(
    current: Value,
    value: Value,
    key: &str,
    deletes: bool,
    node: &SchemaNode<'_>,
    budget: &Budget,
) -> Result<Value, ApiError> {
    match (current, value) {
        (Value::Object(current), Value::Object(value)) => {
            let (field, strategy) = node.field(key)?;
            if strategy.replace {
                return Ok(Value::Object(value));
            }
            merge_fields(current, value, &field, budget).map(Value::Object)
        }
        (Value::Array(current), Value::Array(value)) => {
            let (item, strategy) = node.items(key)?;
            merge_list(current, value, &item, &strategy, deletes, budget).map(Value::Array)
        }
        (_, value) => Ok(value),
    }
}

fn merge_list(
    live: Vec<Value>,
    patch: Vec<Value>,
    item: &SchemaNode<'_>,
    strategy: &PatchStrategy,
    deletes: bool,
    budget: &Budget,
) -> Result<Vec<Value>, ApiError> {
    if !strategy.merge && !deletes {
        return Ok(patch);
    }
    if live.is_empty() && patch.is_empty() {
        return Ok(live);
    }
    budget.spend([&live, &patch])?;
    let objects = list::holds_objects(&[&live, &patch])?;
    match strategy.merge_key.as_deref() {
        _ if !objects && deletes => Ok(list::delete_scalars(&live, &patch)),
        key if !objects => list::merge_scalars(&live, &patch, key),
        Some(key) => {
            let merge_item = |live, patch| merge_fields(live, patch, item, budget);
            list::merge_objects(live, patch, key, &merge_item)
        }
        None => {
            Err(ApiError::unexplained(format!("cannot merge lists without merge key for {}", item.kind())))
        }
    }
}

/// Returns the list that a directive such as `$setElementOrder/containers` refers to.
fn listed<'a>(key: &'a str, directive: &str) -> Option<&'a str> {
    key.split_once('/').filter(|(head, _)| *head == directive).map(|(_, list)| list)
}

/// Returns a new value without the objects that carry a directive, or `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}
