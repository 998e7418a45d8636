//! The items of an old list, found by their keys.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::custom::structural::Structural;
use crate::schema::Topology;
use crate::weight;

/// The items of the old list by their keys, for keyed lists.
#[derive(Default)]
pub(super) struct FormerItems<'a> {
    keys: &'a [String],
    /// By [`key_of`]: a list may have a million items, so it is not searched for each.
    items: HashMap<String, &'a Value>,
}

impl<'a> FormerItems<'a> {
    /// Finds the items of an old list. `take_checks` is called with the number of checks that take
    /// as long; if it returns false, there are none.
    pub(super) fn new(
        schema: &'a Structural,
        old: Option<&'a Value>,
        take_checks: impl FnOnce(usize) -> bool,
    ) -> Self {
        let (Some(Topology::Map(keys)), Some(Value::Array(old))) = (&schema.list, old) else {
            return Self::default();
        };
        if !take_checks(weight_of_keys(keys, old)) {
            return Self::default();
        }
        let mut items = HashMap::with_capacity(old.len());
        for item in old.iter().filter(|it| it.is_object()) {
            // The first of several items with the same keys counts.
            items.entry(key_of(keys, item)).or_insert(item);
        }
        Self { keys, items }
    }

    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() { None } else { self.items.get(&key_of(self.keys, item)).copied() }
    }
}

/// Returns the weight of the keys of all items, whether they have them or not.
fn weight_of_keys(keys: &[String], items: &[Value]) -> usize {
    let of_key = |item: &Value, key: &String| item.get(key).map_or(1, weight::of);
    let of_item = |item: &Value| keys.iter().fold(0, |sum: usize, key| sum.saturating_add(of_key(item, key)));
    items.iter().fold(0, |sum: usize, item| sum.saturating_add(of_item(item)))
}

/// Returns the JSON of the keys that an item has, each with its index. An absent key differs from a
/// null, and takes no memory.
fn key_of(keys: &[String], item: &Value) -> String {
    let mut text = String::new();
    for (index, key) in keys.iter().enumerate() {
        if let Some(value) = item.get(key) {
            // Writing to a string cannot fail.
            _ = write!(text, "{index}:{value};");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_keys_of_an_item_differ_by_their_index() {
        let keys = ["a", "b", "c"].map(str::to_owned);
        let items =
            [json!({}), json!({"a": 1}), json!({"b": 1}), json!({"b": null}), json!({"a": 1, "c": 1})];
        let found: HashSet<String> = items.iter().map(|item| key_of(&keys, item)).collect();
        assert_eq!(found.len(), items.len(), "{found:?}");
        assert_eq!(key_of(&keys, &json!({"c": "x;", "d": 1})), "2:\"x;\";");
    }
}
