//! Merging of the items of one list in a strategic merge patch: which items match, and the
//! resulting order.
//!
//! Items in the patch are ordered as in the patch, the others as in the live list. The two are
//! interleaved by the order of the live list; new items come first. See k8s.io/apimachinery v0.36.4
//! pkg/util/strategicpatch/patch.go.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::go_format::{GoString, GoValue, LIST, MAP, format_lists, rejected, type_name};
use crate::ApiError;

/// The directive of an object: `replace`, `delete`, or `merge`.
pub(super) const DIRECTIVE: &str = "$patch";

/// The function that merges an item of the patch into the live one with the same key.
pub(super) type MergeItem<'a> =
    dyn Fn(Map<String, Value>, Map<String, Value>) -> Result<Map<String, Value>, ApiError> + 'a;

/// Merges two lists of scalars into one without duplicates.
pub(super) fn merge_scalars(
    live: &[Value],
    patch: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let mut seen = HashMap::new();
    let both = live.iter().chain(patch);
    let merged = both.filter(|item| seen.insert(item.to_string(), ()).is_none()).cloned().collect();
    arrange(merged, patch, live, key, false)
}

/// Returns the list without the scalars to delete.
pub(super) fn delete_scalars(live: &[Value], delete: &[Value]) -> Vec<Value> {
    let gone = Positions::new(delete, None);
    live.iter().filter(|item| gone.of(item).is_none()).cloned().collect()
}

/// Merges a list of objects by their key, after executing the directives among the items of the
/// patch.
pub(super) fn merge_objects(
    live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    merge_item: &MergeItem<'_>,
) -> Result<Vec<Value>, ApiError> {
    let (live, patch) = follow_directives(live, patch, key)?;
    let mut merged = live.clone();
    let mut positions = Positions::new(&merged, Some(key));
    for item in &patch {
        let Value::Object(item) = item else { return Err(wrong_type(MAP, item)) };
        let value = item.get(key).ok_or_else(|| no_key(item, key))?;
        match positions.of_key(value) {
            Some(at) => {
                let Value::Object(current) = merged[at].take() else {
                    return Err(ApiError::unexplained(format!("value for key {at} is not a map")));
                };
                merged[at] = Value::Object(merge_item(current, item.clone())?);
            }
            None => {
                positions.add(value, merged.len());
                merged.push(Value::Object(item.clone()));
            }
        }
    }
    arrange(merged, &patch, &live, Some(key), true)
}

/// Executes the directives of the patch. Returns the rest of the live list and the plain items of
/// the patch. If the patch replaces the list, its plain items are returned as the live list.
fn follow_directives(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let (special, plain): (Vec<_>, Vec<_>) = patch.into_iter().partition(has_directive);
    let mut replace = false;
    let mut delete = Vec::new();
    for item in &special {
        let Value::Object(item) = item else { continue };
        match &item[DIRECTIVE] {
            Value::String(word) if word == "delete" => {
                delete.push(item.get(key).ok_or_else(|| no_key(item, key))?.clone());
            }
            Value::String(word) if word == "replace" => replace = true,
            Value::String(word) if word == "merge" => {
                return Err(ApiError::unexplained("merging lists cannot yet be specified in the patch"));
            }
            _ => return Err(unknown_directive(item)),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !delete.is_empty() {
        let gone = Positions::new(&delete, None);
        live.retain(|item| item.get(key).is_none_or(|value| gone.of_key(value).is_none()));
    }
    Ok((live, plain))
}

/// Returns the live order of a list whose order the patch gives. kube-apiserver deletes and adds in
/// place: added items take the slots of deleted ones, and count as having been there.
pub(super) fn live_order(live: &[Value], patch: &[Value], key: &str) -> Result<Vec<Value>, ApiError> {
    if patch.iter().any(|item| item[DIRECTIVE] == "replace") {
        return Ok(live.to_vec());
    }
    let (mut order, plain) = follow_directives(live.to_vec(), patch.to_vec(), key)?;
    let mut known = Positions::new(&order, Some(key));
    for item in plain {
        let Some(value) = item.get(key).filter(|value| known.of_key(value).is_none()) else { continue };
        known.add(value, order.len());
        order.push(item);
    }
    order.truncate(live.len());
    Ok(order)
}

/// Orders merged items: those in `first` by their position there, the others by that in `live`,
/// interleaved by `live`.
pub(super) fn arrange(
    merged: Vec<Value>,
    first: &[Value],
    live: &[Value],
    key: Option<&str>,
    objects: bool,
) -> Result<Vec<Value>, ApiError> {
    if let Some(key) = key {
        check_keys(&merged, key)?;
        if let Some(at) = first.iter().position(|item| !item.is_object()).filter(|_| !merged.is_empty()) {
            return Err(ApiError::unexplained(format!("value for key {at} is not a map")));
        }
    }
    if let Some(key) = key.filter(|_| objects) {
        check_keys(first, key)?;
        check_keys(live, key)?;
    }
    let (first, live) = (Positions::new(first, key), Positions::new(live, key));
    let (named, others): (Vec<_>, Vec<_>) = merged.into_iter().partition(|item| first.of(item).is_some());
    // Finding a position takes as long as the key is large, so each is found once.
    let placed = |items: Vec<Value>| items.into_iter().map(|it| (live.of(&it), it));
    let mut named = placed(sort(named, &first)).peekable();
    let mut others = placed(sort(others, &live)).peekable();
    let mut arranged = Vec::new();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (Some((other, _)), Some((named, _))) => {
                other.zip(*named).is_some_and(|(other, named)| other < named)
            }
            (other, _) => other.is_some(),
        };
        match if other_first { others.next() } else { named.next() } {
            Some((_, item)) => arranged.push(item),
            None => return Ok(arranged),
        }
    }
}

/// Sorts by position. Items without one only occur if a patch adds items that its own order does
/// not contain: those before all others then go to the end, those after them to the front, both in
/// reverse.
fn sort(items: Vec<Value>, order: &Positions<'_>) -> Vec<Value> {
    let mut placed = Vec::with_capacity(items.len());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for item in items {
        match order.of(&item) {
            Some(at) => placed.push((at, item)),
            None if placed.is_empty() => before.push(item),
            None => after.push(item),
        }
    }
    placed.sort_by_key(|(at, _)| *at);
    let placed = placed.into_iter().map(|(_, item)| item);
    after.into_iter().rev().chain(placed).chain(before.into_iter().rev()).collect()
}

/// Checks that the order in the patch contains all items of the patch, in that order.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), ApiError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    if let Some(item) = patch.iter().find(|item| key.is_some() && !item.is_object()) {
        return Err(wrong_type(MAP, item));
    }
    let deletes = |item: &Value| key.is_some() && item[DIRECTIVE] == "delete";
    let mut rest = patch.iter().filter(|item| !deletes(item)).peekable();
    for named in order {
        while rest.next_if(|item| has_directive(item)).is_some() {}
        let Some(item) = rest.peek() else { break };
        if same(item, named, key)? {
            rest.next();
        }
    }
    if rest.peek().is_none() {
        return Ok(());
    }
    let (patch, order) = (Value::Array(patch.to_vec()), Value::Array(order.to_vec()));
    Err(ApiError::unexplained(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        GoValue(&patch),
        GoValue(&order)
    )))
}

fn same(left: &Value, right: &Value, key: Option<&str>) -> Result<bool, ApiError> {
    let Some(key) = key else { return Ok(left == right) };
    Ok(key_of(left, key)? == key_of(right, key)?)
}

/// Returns the key of an item. It may be large, and is compared with those of many items.
fn key_of<'v>(item: &'v Value, key: &str) -> Result<&'v Value, ApiError> {
    match item {
        Value::Object(fields) => fields.get(key).ok_or_else(|| no_key(fields, key)),
        other => Err(wrong_type(MAP, other)),
    }
}

/// Returns true if the items of the lists are objects.
///
/// # Errors
/// 500 if the items are of several types, 422 if they are lists.
pub(super) fn holds_objects(lists: &[&[Value]]) -> Result<bool, ApiError> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else {
        return Err(ApiError::unexplained("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(rejected());
    }
    if first.is_null() || items.any(|item| type_name(item) != type_name(first)) {
        return Err(ApiError::unexplained(format!(
            "list element types are not identical: {}",
            format_lists(lists)
        )));
    }
    Ok(first.is_object())
}

/// Returns true for an object with a directive.
pub(super) fn has_directive(item: &Value) -> bool {
    item.as_object().is_some_and(|fields| fields.contains_key(DIRECTIVE))
}

/// Creates a 500: the directive is not known.
pub(super) fn unknown_directive(fields: &Map<String, Value>) -> ApiError {
    let directive = fields.get(DIRECTIVE).unwrap_or(&Value::Null);
    let whole = Value::Object(fields.clone());
    ApiError::unexplained(format!("unknown patch type: {} in map: {}", GoString(directive), GoValue(&whole)))
}

/// Creates a 500: the value is not a list.
pub(super) fn not_a_list(value: &Value) -> ApiError {
    wrong_type(LIST, value)
}

fn wrong_type(expected: &str, value: &Value) -> ApiError {
    ApiError::unexplained(format!("expected a {expected}, but received a {}", type_name(value)))
}

fn no_key(item: &Map<String, Value>, key: &str) -> ApiError {
    let shown = Value::Object(item.clone());
    ApiError::unexplained(format!("map: {} does not contain declared merge key: {key}", GoValue(&shown)))
}

fn check_keys(items: &[Value], key: &str) -> Result<(), ApiError> {
    items.iter().try_for_each(|item| match item {
        Value::Object(fields) if fields.contains_key(key) => Ok(()),
        Value::Object(fields) => Err(no_key(fields, key)),
        other => Err(wrong_type(MAP, other)),
    })
}

/// The positions of the items of a list by key. The first one counts if several have the same key.
struct Positions<'a> {
    key: Option<&'a str>,
    by_key: HashMap<String, usize>,
}

impl<'a> Positions<'a> {
    fn new(items: &[Value], key: Option<&'a str>) -> Self {
        let mut positions = Self { key, by_key: HashMap::with_capacity(items.len()) };
        for (at, item) in items.iter().enumerate() {
            if let Some(value) = key.map_or(Some(item), |key| item.get(key)) {
                positions.add(value, at);
            }
        }
        positions
    }

    fn add(&mut self, value: &Value, at: usize) {
        self.by_key.entry(value.to_string()).or_insert(at);
    }

    fn of(&self, item: &Value) -> Option<usize> {
        self.of_key(self.key.map_or(Some(item), |key| item.get(key))?)
    }

    fn of_key(&self, value: &Value) -> Option<usize> {
        self.by_key.get(&value.to_string()).copied()
    }
}
