//! Lists in a strategic merge patch: merging and the resulting order.

use serde_json::{Value, json};

use super::check;

/// Returns containers `a`, `b` and `c`.
fn live() -> Value {
    json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}]})
}

/// Returns containers with these names and images.
fn containers(pairs: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = pairs.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
    json!({ "containers": items })
}

#[test]
fn objects_merge_by_key_and_new_ones_come_first() {
    check(
        "spec",
        [
            (
                "a new item comes first",
                containers(&[("c", "1")]),
                containers(&[("d", "2")]),
                containers(&[("d", "2"), ("c", "1")]),
            ),
            (
                "live items stay before the items they preceded",
                live(),
                containers(&[("x", "9"), ("b", "22")]),
                containers(&[("x", "9"), ("a", "1"), ("b", "22"), ("c", "3")]),
            ),
            (
                "the order of the patch wins over the live one",
                live(),
                containers(&[("c", "33"), ("x", "9"), ("a", "11")]),
                containers(&[("b", "2"), ("c", "33"), ("x", "9"), ("a", "11")]),
            ),
            ("an empty list adds nothing", live(), json!({"containers": []}), live()),
            (
                "duplicate items are merged one after the other",
                containers(&[("b", "1")]),
                json!({"containers": [{"name": "n", "image": "1"}, {"name": "b"}, {"name": "n", "image": "2"}]}),
                containers(&[("n", "2"), ("b", "1")]),
            ),
            (
                "a new list is taken unchanged",
                json!({}),
                containers(&[("b", "1"), ("a", "2")]),
                containers(&[("b", "1"), ("a", "2")]),
            ),
            ("null removes the list", live(), json!({"containers": null}), json!({})),
        ],
    );
}

#[test]
fn lists_inside_items_merge_by_their_own_rules() {
    let nested = |inside: Value| {
        let mut item = json!({"name": "a"});
        item.as_object_mut().expect("an object").extend(inside.as_object().cloned().expect("an object"));
        json!({ "containers": [item] })
    };
    check(
        "spec",
        [
            (
                "numbers are keys as well",
                nested(json!({"ports": [{"containerPort": 80, "name": "h"}, {"containerPort": 90}]})),
                nested(json!({"ports": [{"containerPort": 80}, {"containerPort": 81}]})),
                nested(
                    json!({"ports": [{"containerPort": 80, "name": "h"}, {"containerPort": 81}, {"containerPort": 90}]}),
                ),
            ),
            (
                "a float is a different key",
                nested(json!({"ports": [{"containerPort": 80, "name": "h"}]})),
                nested(json!({"ports": [{"containerPort": 80.0, "name": "z"}]})),
                nested(
                    json!({"ports": [{"containerPort": 80.0, "name": "z"}, {"containerPort": 80, "name": "h"}]}),
                ),
            ),
            (
                "a list that does not merge is replaced",
                nested(json!({"command": ["x", "y"], "env": [{"name": "A", "value": "1"}]})),
                nested(json!({"command": ["z"], "env": [{"name": "A", "value": "2"}]})),
                nested(json!({"command": ["z"], "env": [{"name": "A", "value": "2"}]})),
            ),
            (
                "scalars can be deleted from a list that does not merge",
                nested(json!({"command": ["x", "y", "x"]})),
                nested(json!({"$deleteFromPrimitiveList/command": ["x"]})),
                nested(json!({"command": ["y"]})),
            ),
            (
                "null removes a field of an item",
                nested(json!({"image": "1", "env": []})),
                nested(json!({"image": null})),
                nested(json!({"env": []})),
            ),
            (
                "the order of an inner list",
                nested(json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})),
                nested(
                    json!({"$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": [{"name": "A", "value": "3"}]}),
                ),
                nested(json!({"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]})),
            ),
        ],
    );
}

#[test]
fn items_can_be_deleted_and_lists_replaced() {
    check(
        "spec",
        [
            (
                "an item is deleted by its key",
                live(),
                json!({"containers": [{"name": "b", "$patch": "delete"}]}),
                containers(&[("a", "1"), ("c", "3")]),
            ),
            ("a missing item", live(), json!({"containers": [{"name": "x", "$patch": "delete"}]}), live()),
            (
                "every item with that key is deleted",
                containers(&[("a", "1"), ("b", "2"), ("a", "3")]),
                json!({"containers": [{"name": "a", "$patch": "delete"}]}),
                containers(&[("b", "2")]),
            ),
            (
                "one is deleted, one is added",
                live(),
                json!({"containers": [{"name": "x", "image": "9"}, {"name": "a", "$patch": "delete"}]}),
                containers(&[("x", "9"), ("b", "2"), ("c", "3")]),
            ),
            (
                "the list is replaced by the other items of the patch",
                live(),
                json!({"containers": [{"name": "z", "image": "9"}, {"$patch": "replace"}, {"name": "q", "$patch": "delete"}]}),
                containers(&[("z", "9")]),
            ),
            (
                "the list is replaced by nothing",
                live(),
                json!({"containers": [{"$patch": "replace"}]}),
                containers(&[]),
            ),
            (
                "directives are ignored in a list that does not merge",
                json!({"tolerations": [{"name": "a"}]}),
                json!({"tolerations": [{"name": "b", "$patch": "delete"}]}),
                json!({"tolerations": [{"name": "b", "$patch": "delete"}]}),
            ),
        ],
    );
}

#[test]
fn a_patch_can_reorder_live_items() {
    let order = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
    let abc = [("a", "1"), ("b", "2"), ("c", "3")];
    check(
        "spec",
        [
            (
                "of all items",
                live(),
                json!({"$setElementOrder/containers": order(&["c", "a", "b"])}),
                containers(&[abc[2], abc[0], abc[1]]),
            ),
            (
                "of some items",
                live(),
                json!({"$setElementOrder/containers": order(&["c", "a"])}),
                containers(&[abc[1], abc[2], abc[0]]),
            ),
            (
                "of missing items",
                live(),
                json!({"$setElementOrder/containers": order(&["c", "q", "a"])}),
                containers(&[abc[1], abc[2], abc[0]]),
            ),
            ("of nothing", live(), json!({"$setElementOrder/containers": []}), live()),
            (
                "of a missing list",
                json!({}),
                json!({"$setElementOrder/containers": order(&["a"])}),
                json!({}),
            ),
        ],
    );
}

#[test]
fn a_patch_can_reorder_a_list_it_changes() {
    let order = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
    let abc = [("a", "1"), ("b", "2"), ("c", "3")];
    check(
        "spec",
        [
            (
                "while it adds and deletes",
                live(),
                json!({
                    "$setElementOrder/containers": order(&["a", "x", "b"]),
                    "containers": [{"name": "x", "image": "9"}, {"name": "c", "$patch": "delete"}],
                }),
                containers(&[abc[0], ("x", "9"), abc[1]]),
            ),
            (
                "an added item takes the place of a deleted one",
                live(),
                json!({
                    "$setElementOrder/containers": order(&["b", "x"]),
                    "containers": [{"name": "x", "image": "9"}, {"name": "a", "$patch": "delete"}],
                }),
                containers(&[abc[1], abc[2], ("x", "9")]),
            ),
            (
                "without a deleted one it follows its predecessor",
                live(),
                json!({"$setElementOrder/containers": order(&["b", "x"]), "containers": [{"name": "x", "image": "9"}]}),
                containers(&[abc[0], abc[1], ("x", "9"), abc[2]]),
            ),
            (
                "of nothing, while it adds",
                live(),
                json!({"$setElementOrder/containers": [], "containers": [{"name": "x", "image": "8"}, {"name": "y", "image": "9"}]}),
                containers(&[abc[0], abc[1], abc[2], ("y", "9"), ("x", "8")]),
            ),
            (
                "of a list that is new",
                json!({}),
                json!({"$setElementOrder/containers": order(&["b", "a"]), "containers": [{"name": "b"}, {"name": "a"}, {"name": "q", "$patch": "delete"}]}),
                json!({"containers": [{"name": "b"}, {"name": "a"}]}),
            ),
            (
                "of a list it replaces",
                live(),
                json!({"$setElementOrder/containers": order(&["b"]), "containers": [{"$patch": "replace"}, {"name": "b", "image": "5"}]}),
                containers(&[("b", "5")]),
            ),
        ],
    );
}

#[test]
fn lists_of_scalars_are_merged_as_sets() {
    let finalizers = |list: &[&str]| json!({ "finalizers": list });
    check(
        "metadata",
        [
            ("new ones come first", finalizers(&["one"]), finalizers(&["two"]), finalizers(&["two", "one"])),
            (
                "as ordered by the patch",
                finalizers(&["a", "b"]),
                finalizers(&["c", "a"]),
                finalizers(&["c", "a", "b"]),
            ),
            (
                "each only once",
                finalizers(&["a", "b"]),
                finalizers(&["c", "c", "b"]),
                finalizers(&["c", "a", "b"]),
            ),
            (
                "an empty patch adds nothing",
                finalizers(&["a", "b"]),
                finalizers(&[]),
                finalizers(&["a", "b"]),
            ),
            ("two empty lists", finalizers(&[]), finalizers(&[]), finalizers(&[])),
            (
                "numbers",
                json!({"numbers": [1, 3]}),
                json!({"numbers": [2, 3]}),
                json!({"numbers": [2, 1, 3]}),
            ),
        ],
    );
}

#[test]
fn scalars_are_deleted_and_ordered_by_directives() {
    let finalizers = |list: &[&str]| json!({ "finalizers": list });
    check(
        "metadata",
        [
            (
                "deleted, also duplicates",
                finalizers(&["a", "b", "a"]),
                json!({"$deleteFromPrimitiveList/finalizers": ["a", "q"]}),
                finalizers(&["b"]),
            ),
            (
                "deleted from a missing list",
                json!({"name": "x"}),
                json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
                json!({"name": "x"}),
            ),
            (
                "deleted and added",
                finalizers(&["a", "b"]),
                json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
                finalizers(&["c", "b"]),
            ),
            (
                "in the order of the patch",
                finalizers(&["two"]),
                json!({"$setElementOrder/finalizers": ["three", "two"], "finalizers": ["three"]}),
                finalizers(&["three", "two"]),
            ),
            (
                "in an order that names only some",
                finalizers(&["a", "b"]),
                json!({"$setElementOrder/finalizers": ["b"]}),
                finalizers(&["a", "b"]),
            ),
            (
                "ordered, then deleted",
                json!({"numbers": [1, 2, 3, 4]}),
                json!({"$setElementOrder/numbers": [2, 1], "$deleteFromPrimitiveList/numbers": [3]}),
                json!({"numbers": [2, 1, 4]}),
            ),
            (
                "a directive that is not a list is ignored",
                finalizers(&["a"]),
                json!({"$deleteFromPrimitiveList/finalizers": "a"}),
                finalizers(&["a"]),
            ),
        ],
    );
}

#[test]
fn scalars_that_a_patch_both_adds_and_deletes_are_deleted() {
    check(
        "metadata",
        [(
            "one is added, one is kept, one is added and deleted",
            json!({"finalizers": ["a", "c"]}),
            json!({"finalizers": ["a", "b"], "$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!({"finalizers": ["b", "c"]}),
        )],
    );
}
