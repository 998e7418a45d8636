//! The approximate cost of copying, comparing or checking a value.
//!
//! A request can make the server visit one value once for each of many parts of another. Budgets
//! for such work are multiples of the weight of both, so that the cost of a request remains
//! proportional to its size.

use serde_json::Value;

/// The number of bytes of a text that weigh as much as a small value.
const BYTES: usize = 64;

/// Returns the weight of a value: the number of values in it, and more for long texts.
pub(crate) fn of(value: &Value) -> usize {
    match value {
        Value::String(it) => of_text(it),
        Value::Array(items) => of_items(items),
        Value::Object(fields) => fields
            .iter()
            .fold(1, |sum, (key, it)| sum.saturating_add(key.len() / BYTES).saturating_add(of(it))),
        _ => 1,
    }
}

/// Returns the weight of a list.
pub(crate) fn of_items(items: &[Value]) -> usize {
    items.iter().fold(1, |sum, it| sum.saturating_add(of(it)))
}

/// Returns the weight of a text.
pub(crate) fn of_text(text: &str) -> usize {
    (text.len() / BYTES).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_counts_and_long_texts_count_more() {
        assert_eq!(of(&json!({ "a": [1, null, "x"], "b": {} })), 6);
        assert_eq!((of(&json!("x".repeat(640))), of(&json!({ "k".repeat(640): 1 }))), (11, 12));
    }
}
