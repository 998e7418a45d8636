//! Objects in a strategic merge patch: maps, nulls, `$patch` and `$retainKeys`.

use serde_json::json;

use super::check;

#[test]
fn maps_merge_and_null_deletes() {
    check(
        "metadata",
        [
            (
                "one key is deleted, one is added",
                json!({"labels": {"a": "1", "b": "2"}}),
                json!({"labels": {"a": null, "c": "3"}}),
                json!({"labels": {"b": "2", "c": "3"}}),
            ),
            (
                "the last key is deleted",
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": null}}),
                json!({"labels": {}}),
            ),
            ("the whole map is deleted", json!({"labels": {"a": "1"}}), json!({"labels": null}), json!({})),
            ("null for a missing field", json!({"name": "x"}), json!({"labels": null}), json!({"name": "x"})),
            (
                "nulls in new values are dropped at every depth",
                json!({}),
                json!({"labels": {"a": null, "b": "1"}, "list": [{"c": null}, null]}),
                json!({"labels": {"b": "1"}, "list": [{}, null]}),
            ),
            (
                "another type replaces",
                json!({"labels": {"a": "1"}}),
                json!({"labels": "x"}),
                json!({"labels": "x"}),
            ),
            (
                "a live null is replaced",
                json!({"labels": null}),
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": "1"}}),
            ),
            ("unknown fields are taken", json!({}), json!({"bogus": {"x": 1}}), json!({"bogus": {"x": 1}})),
        ],
    );
}

#[test]
fn a_directive_replaces_or_empties_an_object() {
    check(
        "metadata",
        [
            (
                "replace",
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"$patch": "replace", "only": "x"}}),
                json!({"labels": {"only": "x"}}),
            ),
            (
                "replace leaves nulls for decoding",
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"$patch": "replace", "a": null}}),
                json!({"labels": {"a": null}}),
            ),
            (
                "delete",
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"$patch": "delete", "b": "2"}}),
                json!({"labels": {}}),
            ),
            (
                "any directive for a missing field",
                json!({"name": "x"}),
                json!({"labels": {"$patch": "nonsense"}}),
                json!({"name": "x"}),
            ),
            (
                "instead of another type",
                json!({"labels": "x"}),
                json!({"labels": {"$patch": "delete"}}),
                json!({}),
            ),
        ],
    );
}

#[test]
fn retain_keys_drops_all_other_keys() {
    check(
        "spec",
        [
            (
                "of an object",
                json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"by": "1"}}}),
                json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
                json!({"strategy": {"type": "Recreate"}}),
            ),
            (
                "retained keys are merged",
                json!({"strategy": {"type": "Recreate", "by": "x", "rollingUpdate": {"type": "a", "by": "1"}}}),
                json!({"strategy": {"$retainKeys": ["type", "rollingUpdate"], "rollingUpdate": {"by": "2"}}}),
                json!({"strategy": {"type": "Recreate", "rollingUpdate": {"type": "a", "by": "2"}}}),
            ),
            (
                "a deleted key need not be listed",
                json!({"strategy": {"type": "Recreate", "by": "x"}}),
                json!({"strategy": {"$retainKeys": ["type"], "by": null}}),
                json!({"strategy": {"type": "Recreate"}}),
            ),
            (
                "without the directive nothing is dropped",
                json!({"strategy": {"type": "RollingUpdate", "by": "x"}}),
                json!({"strategy": {"type": "Recreate"}}),
                json!({"strategy": {"type": "Recreate", "by": "x"}}),
            ),
            (
                "of an item",
                json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}),
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}]}),
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "emptyDir": {}}]}),
            ),
            (
                "of any object, whatever the schema says",
                json!({"nodeSelector": {"a": "b", "z": "1"}}),
                json!({"nodeSelector": {"$retainKeys": ["b"], "b": "c"}}),
                json!({"nodeSelector": {"b": "c"}}),
            ),
        ],
    );
}

#[test]
fn directives_inside_new_items_are_kept_as_in_kube_apiserver() {
    check(
        "spec",
        [(
            "decoding drops them with all unknown fields",
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"name": "z", "env": [{"name": "e", "$patch": "delete"}]}]}),
            json!({"containers": [{"name": "z", "env": [{"name": "e", "$patch": "delete"}]}, {"name": "a"}]}),
        )],
    );
}

#[test]
fn many_retained_keys_take_linear_time() {
    let names: Vec<String> = (0..40_000).map(|it| format!("k{it}")).collect();
    let values = |value: &str| names.iter().map(|it| (it.clone(), json!(value))).collect();
    let (live, mut change): (serde_json::Map<_, _>, serde_json::Map<_, _>) = (values("1"), values("2"));
    let patched = change.clone();
    change.insert("$retainKeys".to_owned(), json!(names));
    let cases =
        [("all of them", json!({"labels": live}), json!({"labels": change}), json!({"labels": patched}))];
    check("metadata", cases);
}
