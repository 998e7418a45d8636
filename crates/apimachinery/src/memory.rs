//! The maximum memory of decoded objects.
//!
//! A map takes some 600 bytes, however small it is, so a text of 3 MiB such as `{"":{"":{…}}}`
//! takes 400 MB when it is decoded. A write holds several copies of an object, in several versions.
//! One limit for everything that is read from outside bounds them all. kube-apiserver has none, but
//! etcd accepts only 1.5 MiB: an object of that size exceeds this limit if its maps have less than
//! 15 bytes of text each.

use serde_json::Value;

/// The maximum memory of an object without its `metadata.managedFields`, and of those, in bytes.
pub const OBJECT: usize = 64 * 1024 * 1024;

/// The maximum memory of any text that is parsed, in bytes: an object with its `managedFields`, or
/// the few that a webhook converts in one call.
pub(crate) const TEXT: usize = 4 * OBJECT;

/// The memory of a value in a list or map, in bytes.
pub(crate) const SLOT: usize = size_of::<Value>();
/// The memory of a node of a map, and the number of fields that a node holds on average.
pub(crate) const MAP_NODE: usize = 11 * (SLOT + size_of::<String>()) + 16;
const FIELDS_PER_NODE: usize = 8;
/// The memory of the bookkeeping of an allocation.
const ALLOCATION: usize = 16;

/// Returns the message for an object that takes too much memory.
pub fn exceeded() -> String {
    let limit = OBJECT / 1024 / 1024;
    format!("exceeded max memory of {limit} MiB: the object has too many small lists and maps")
}

/// Returns the approximate memory of a value, in bytes. Empty maps and nulls count as small maps,
/// because defaults may fill them in.
pub fn of(value: &Value) -> usize {
    estimate(value, MAP_NODE)
}

/// Returns the approximate memory of a value that nothing is filled in, in bytes.
pub(crate) fn as_it_is(value: &Value) -> usize {
    estimate(value, 0)
}

/// Returns the approximate memory of a value, in bytes, with this much for an empty map.
fn estimate(value: &Value, empty_map: usize) -> usize {
    match value {
        Value::Null => empty_map,
        Value::Object(fields) if fields.is_empty() => empty_map,
        Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => of_text(text),
        Value::Array(items) => {
            let slots = items.len().saturating_mul(SLOT).saturating_add(ALLOCATION);
            items.iter().fold(slots, |sum, it| sum.saturating_add(estimate(it, empty_map)))
        }
        Value::Object(fields) => {
            let nodes = fields.len().div_ceil(FIELDS_PER_NODE).saturating_mul(MAP_NODE + ALLOCATION);
            fields.iter().fold(nodes, |sum, (name, it)| {
                sum.saturating_add(of_text(name)).saturating_add(estimate(it, empty_map))
            })
        }
    }
}

fn of_text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + ALLOCATION }
}

/// Returns true if an object or its `managedFields` take more memory than the limit.
pub fn is_exceeded_by(object: &Value) -> bool {
    is_exceeded_by_managed_fields(object) || without_managed_fields(object) > OBJECT
}

/// Returns the approximate memory of an object without its `managedFields`, in bytes.
pub fn without_managed_fields(object: &Value) -> usize {
    of(object).saturating_sub(managed_fields(object).map_or(0, of))
}

/// Returns true if the `managedFields` of an object take more memory than the limit.
pub fn is_exceeded_by_managed_fields(object: &Value) -> bool {
    // The leaves of `fieldsV1` are empty maps, which stay empty.
    managed_fields(object).is_some_and(|it| as_it_is(it) > OBJECT)
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
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
            (json!([{}, null]), 1_200, 1_400),
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
