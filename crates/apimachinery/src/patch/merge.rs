//! JSON merge patch (RFC 7386), with one quirk of kube-apiserver: a value that replaces anything
//! but an object loses the null fields of its objects, even inside lists (`pruneNulls` of
//! gopkg.in/evanphx/json-patch.v4 v4.13.0 merge.go).

use serde_json::{Map, Value};

/// Merges `patch` into `target`: null removes, objects merge, everything else replaces.
pub(super) fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(key), value) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(inner)), Value::Object(patch)) => merge(inner, patch),
            (Some(current @ Value::Object(_)), _) => *current = value.clone(),
            _ => {
                target.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns the value without the null fields of its objects. Nulls that are items of a list stay.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(target: &Value, patch: &Value) -> Value {
        let mut target = target.as_object().expect("an object").clone();
        merge(&mut target, patch.as_object().expect("an object"));
        Value::Object(target)
    }

    #[test]
    fn objects_merge_as_in_the_examples_of_the_rfc() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merged(&target, &patch), result, "{target} {patch}");
        }
    }

    /// Recorded from kube-apiserver 1.36 with a custom resource that keeps unknown fields.
    #[test]
    fn nulls_inside_lists_are_lost_unless_the_list_replaces_an_object() {
        let target = json!({"o": {"x": 1}, "s": "t"});
        let patch = json!({
            "o": [{"a": null, "b": 1}],
            "s": [{"a": null, "b": 1}, null],
            "w": [{"a": null, "b": {"c": null}}],
        });
        let result = json!({"o": [{"a": null, "b": 1}], "s": [{"b": 1}, null], "w": [{"b": {}}]});
        assert_eq!(merged(&target, &patch), result);
    }

    /// Returns the patch that turns `from` into `to`, for documents without nulls.
    fn difference(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
        let mut patch = Map::new();
        for key in from.keys().filter(|key| !to.contains_key(*key)) {
            patch.insert(key.clone(), Value::Null);
        }
        for (key, value) in to {
            match (from.get(key), value) {
                (Some(Value::Object(from)), Value::Object(to)) => {
                    patch.insert(key.clone(), Value::Object(difference(from, to)));
                }
                (Some(old), new) if old == new => {}
                _ => {
                    patch.insert(key.clone(), value.clone());
                }
            }
        }
        patch
    }

    fn document(with_nulls: bool) -> impl Strategy<Value = Value> {
        let plain = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        let list = prop::collection::vec(plain.clone(), 0..3).prop_map(Value::Array);
        let leaf = if with_nulls {
            prop_oneof![plain, list, Just(Value::Null)].boxed()
        } else {
            prop_oneof![plain, list].boxed()
        };
        let tree = leaf.prop_recursive(3, 24, 4, |inner| object(inner).boxed());
        object(tree.boxed())
    }

    fn object(value: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]", value, 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(target in document(true), patch in document(true)) {
            let once = merged(&target, &patch);
            prop_assert_eq!(merged(&once, &patch), once);
        }

        #[test]
        fn the_difference_of_two_documents_turns_one_into_the_other(from in document(false), to in document(false)) {
            let (before, after) = (from.as_object().expect("an object"), to.as_object().expect("an object"));
            prop_assert_eq!(merged(&from, &Value::Object(difference(before, after))), to);
        }

        #[test]
        fn an_empty_patch_changes_nothing(target in document(true)) {
            prop_assert_eq!(merged(&target, &json!({})), target);
        }
    }
}
