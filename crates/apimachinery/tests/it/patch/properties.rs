//! Properties of every patch.

use dogwatch_apimachinery::patch::PatchKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::patched;

/// Generates JSON from names that are meaningful in patches.
fn anything() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "metadata",
        "spec",
        "containers",
        "name",
        "env",
        "finalizers",
        "numbers",
        "labels",
        "volumes",
        "raw",
        "op",
        "path",
        "from",
        "value",
        "add",
        "move",
        "/spec",
        "/spec/containers/0",
        "$patch",
        "delete",
        "replace",
        "merge",
        "$retainKeys",
        "$setElementOrder",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Generates some of the letters, each at most once, in any order.
fn letters() -> impl Strategy<Value = Vec<char>> {
    prop::sample::subsequence(vec!['a', 'b', 'c', 'd', 'e', 'f'], 0..=6).prop_shuffle()
}

fn containers(names: &[char], image: &str) -> Value {
    let items: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": image})).collect();
    json!({"spec": {"containers": items}})
}

fn names(pod: &Value) -> Vec<char> {
    let items = pod["spec"]["containers"].as_array().expect("containers");
    items
        .iter()
        .map(|item| item["name"].as_str().and_then(|name| name.chars().next()).expect("a name"))
        .collect()
}

/// Returns the letters of `all` that are in `some`, in the order of `all`.
fn within(all: &[char], some: &[char]) -> Vec<char> {
    all.iter().copied().filter(|letter| some.contains(letter)).collect()
}

proptest! {
    #[test]
    fn no_patch_panics_and_every_result_is_an_object(live in anything(), patch in anything()) {
        let live = json!({"metadata": live.clone(), "spec": live});
        for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
            for patch in [patch.clone(), json!({"metadata": patch, "spec": patch}), json!([patch])] {
                if let Ok(result) = patched(kind, &live, &patch) {
                    prop_assert!(result.is_object());
                }
            }
        }
    }

    #[test]
    fn a_merged_list_has_the_order_of_the_patch_and_the_live_order_for_the_rest(live in letters(), patch in letters()) {
        let result = patched(PatchKind::Strategic, &containers(&live, "live"), &containers(&patch, "patch"))?;
        let all = names(&result);
        prop_assert_eq!(all.len(), live.len() + patch.iter().filter(|name| !live.contains(name)).count());
        prop_assert_eq!(within(&all, &patch), patch.clone());
        let rest: Vec<char> = live.iter().copied().filter(|name| !patch.contains(name)).collect();
        prop_assert_eq!(within(&all, &rest), rest);
        for item in result["spec"]["containers"].as_array().expect("containers") {
            let patched = patch.iter().any(|name| item["name"] == name.to_string());
            prop_assert_eq!(&item["image"], if patched { "patch" } else { "live" });
        }
    }

    #[test]
    fn an_order_that_lists_every_item_is_applied(order in letters(), seed in letters()) {
        prop_assume!(!order.is_empty());
        let live = within(&seed, &order);
        let added: Vec<char> = order.iter().copied().filter(|name| !live.contains(name)).collect();
        let mut patch = containers(&added, "new");
        patch["spec"]["$setElementOrder/containers"] = order.iter().map(|name| json!({ "name": name })).collect();
        prop_assert_eq!(names(&patched(PatchKind::Strategic, &containers(&live, "live"), &patch)?), order);
    }

    #[test]
    fn deleting_items_keeps_the_others(live in letters(), gone in letters()) {
        let items: Vec<Value> = gone.iter().map(|name| json!({"name": name, "$patch": "delete"})).collect();
        let patch = json!({"spec": {"containers": items}});
        let rest: Vec<char> = live.iter().copied().filter(|name| !gone.contains(name)).collect();
        let result = patched(PatchKind::Strategic, &containers(&live, "live"), &patch)?;
        prop_assert_eq!(result, containers(&rest, "live"));
    }
}
