//! The maximum memory of decoded objects.
//!
//! A map takes some 600 bytes, however small it is, so a text of 3 MiB such as `{"":{"":{…}}}` takes
//! 400 MB when it is decoded. A write holds several copies of an object, in several versions. One limit
//! for everything that is read from outside bounds them all. kube-apiserver has none, but etcd accepts
//! only 1.5 MiB: an object of that size exceeds this limit if its maps have less than 15 bytes of text
//! each.

use serde_json::Value;

/// The maximum memory of an object without its `metadata.managedFields`, and of those, in bytes.
pub(crate) const OBJECT: usize = 64 * 1024 * 1024;

/// The memory of a value in a list or map, in bytes.
const SLOT: usize = size_of::<Value>();
/// The memory of a node of a map, and the number of fields that a node holds on average.
const MAP_NODE: usize = 11 * (SLOT + size_of::<String>()) + 16;
const FIELDS_PER_NODE: usize = 8;
/// The memory of the bookkeeping of an allocation.
const ALLOCATION: usize = 16;

/// Returns the message for an object that takes too much memory.
pub fn exceeded() -> String {
    let limit = OBJECT / 1024 / 1024;
    format!("exceeded max memory of {limit} MiB: the object has too many small lists and maps")
}

/// Returns the approximate memory of a value, in bytes.
pub fn of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => of_text(text),
        Value::Array(items) => {
            let slots = items.len().saturating_mul(SLOT).saturating_add(ALLOCATION);
            items.iter().fold(slots, |sum, it| sum.saturating_add(of(it)))
        }
        Value::Object(fields) => {
            let nodes = fields.len().div_ceil(FIELDS_PER_NODE).saturating_mul(MAP_NODE + ALLOCATION);
            fields
                .iter()
                .fold(nodes, |sum, (name, it)| sum.saturating_add(of_text(name)).saturating_add(of(it)))
        }
    }
}

fn of_text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + ALLOCATION }
}

/// Returns true if an object or its `managedFields` take more memory than the limit.
pub fn is_exceeded_by(object: &Value) -> bool {
    let managed_fields = of_managed_fields(object);
    managed_fields > OBJECT || of(object).saturating_sub(managed_fields) > OBJECT
}

/// Returns true if the `managedFields` of an object take more memory than the limit.
pub fn is_exceeded_by_managed_fields(object: &Value) -> bool {
    of_managed_fields(object) > OBJECT
}

fn of_managed_fields(object: &Value) -> usize {
    object.get("metadata").and_then(|it| it.get("managedFields")).map_or(0, of)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_estimate_is_close_to_the_allocated_memory() {
        let chain = (0..50).fold(json!(1), |inner, _| json!({ "": inner }));
        for (value, least, most) in [
            (json!(vec![0; 1_000]), 32_000, 33_000),
            (json!("x".repeat(1_000)), 1_000, 1_100),
            (chain, 50 * 600, 50 * 700),
            ((0..1_000).map(|it| (it.to_string(), json!(it))).collect::<Value>(), 60_000, 110_000),
        ] {
            let estimate = of(&value);
            assert!((least..=most).contains(&estimate), "{estimate} is not in {least}..={most}");
        }
    }

    #[test]
    fn managed_fields_have_a_limit_of_their_own() {
        let large = || json!(vec![0; OBJECT / SLOT - 1_000]);
        let mut object = json!({ "spec": large(), "metadata": { "managedFields": large() } });
        assert!(!is_exceeded_by(&object) && !is_exceeded_by_managed_fields(&object));
        object["metadata"]["managedFields"] = json!([large(), vec![0; 2_000]]);
        assert!(is_exceeded_by(&object) && is_exceeded_by_managed_fields(&object));
        assert!(is_exceeded_by(&json!({ "spec": [large(), vec![0; 2_000]] })));
    }
}
