//! Properties of apply for all objects: it is idempotent, force takes fields over, unowned fields
//! are removed and owned ones stay.

use dogwatch_apimachinery::ownership::{
    FieldSet, OneVersion, Reset, Target, apply, compare, fields_of, keep_times_if_unchanged, update,
};
use dogwatch_apimachinery::schema::Schema;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{definitions, owned, writer};

/// Generates objects that mostly fit the schema `Star`.
fn object() -> impl Strategy<Value = Value> {
    let data = prop::collection::btree_map("[ab]", "[xy]", 1..3);
    let tags = prop::collection::btree_set("[abc]", 0..3);
    let rings = prop::collection::btree_map("[xy]", prop::option::of(0..3_u8), 0..3);
    let plain = prop::option::of(prop::collection::vec("[pq]", 0..3));
    (data, tags, rings, plain).prop_map(|(data, tags, rings, plain)| {
        let rings: Vec<Value> = rings
            .into_iter()
            .map(|(name, r)| r.map_or_else(|| json!({"name": name}), |r| json!({"name": name, "r": r})))
            .collect();
        let mut spec = json!({"tags": tags, "rings": rings, "free": data});
        if let Some(plain) = plain {
            spec["plain"] = json!(plain);
        }
        json!({"apiVersion": "ex.io/v1", "kind": "Star", "metadata": {"name": "s"}, "spec": spec})
    })
}

fn with_star<T>(test: impl FnOnce(&Target<'_>) -> T) -> T {
    let definitions = definitions();
    let schema = Schema::Named("Star".into());
    test(&Target {
        api_version: "ex.io/v1",
        kind: "Star",
        schema: &schema,
        definitions: &definitions,
        empty: &json!({}),
        versions: &OneVersion,
        reset: &Reset::Nothing,
    })
}

/// Returns true if the value at a path, written as in messages, is an empty list or object, or
/// null.
fn is_empty(object: &Value, path: &str) -> bool {
    let value = path.split('.').skip(1).try_fold(object, |value, name| value.get(name));
    value.is_some_and(|it| it.is_null() || *it == json!({}) || *it == json!([]))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        "[a-z<]{0,3}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("spec"),
        Just("metadata"),
        Just("rings"),
        Just("tags"),
        Just("free"),
        Just("name"),
        Just("whole"),
        Just("managedFields"),
        Just("annotations"),
        Just("status"),
        Just("opt"),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn applying_again_is_a_no_op(first in object(), second in object()) {
        with_star(|target| {
            let live = apply(None, &first, target, &writer("a", 1), false).unwrap();
            let live = apply(Some(&live), &second, target, &writer("b", 2), true).unwrap();
            let again = apply(Some(&live), &second, target, &writer("b", 3), false).unwrap();
            prop_assert_eq!(&again, &live);
            Ok(())
        })?;
    }

    #[test]
    fn force_takes_over_only_applied_fields(first in object(), second in object()) {
        with_star(|target| {
            let live = apply(None, &first, target, &writer("a", 1), false).unwrap();
            let forced = apply(Some(&live), &second, target, &writer("b", 2), true).unwrap();
            let applied_fields = fields_of(&second, target.schema, target.definitions);
            let lost = owned(&live, "a").difference(&owned(&forced, "a"));
            prop_assert!(lost.difference(&applied_fields).is_empty(), "lost {lost:?}");
            // The fields that it still owns still exist.
            let existing = fields_of(&forced, target.schema, target.definitions);
            prop_assert!(owned(&forced, "a").difference(&existing).is_empty());
            Ok(())
        })?;
    }

    #[test]
    fn dropping_all_fields_restores_those_of_others(first in object(), second in object()) {
        with_star(|target| {
            let alone = apply(None, &first, target, &writer("a", 1), false).unwrap();
            let Ok(both) = apply(Some(&alone), &second, target, &writer("b", 2), false) else { return Ok(()) };
            let nothing = json!({"apiVersion": "ex.io/v1", "kind": "Star", "metadata": {"name": "s"}});
            let after = apply(Some(&both), &nothing, target, &writer("b", 3), false).unwrap();
            prop_assert_eq!(owned(&after, "a"), owned(&alone, "a"));
            prop_assert!(owned(&after, "b").is_empty());
            let fields = |object| fields_of(object, target.schema, target.definitions).leaves();
            let lost = fields(&alone).difference(&fields(&after));
            prop_assert!(lost.is_empty(), "lost {lost:?}");
            Ok(())
        })?;
    }

    #[test]
    fn fields_without_an_owner_are_removed(first in object(), second in object(), third in object()) {
        with_star(|target| {
            let live = apply(None, &first, target, &writer("a", 1), false).unwrap();
            let live = apply(Some(&live), &second, target, &writer("b", 2), true).unwrap();
            let after = apply(Some(&live), &third, target, &writer("b", 3), true).unwrap();
            let existing = fields_of(&after, target.schema, target.definitions).leaves();
            let owned = owned(&after, "a").union(&owned(&after, "b"));
            let names = FieldSet::of_fields(["apiVersion", "kind", "metadata"]);
            let unowned = existing.difference(&owned).without_trees(&names);
            // A list or object may be left empty if another field in its parent keeps an owner.
            let left = unowned.paths().into_iter().filter(|path| !is_empty(&after, &path.to_string()));
            prop_assert_eq!(left.map(|it| it.to_string()).collect::<Vec<_>>(), Vec::<String>::new());
            Ok(())
        })?;
    }

    #[test]
    fn a_forced_apply_sets_and_owns_all_its_fields(first in object(), second in object()) {
        with_star(|target| {
            let live = apply(None, &first, target, &writer("a", 1), false).unwrap();
            let forced = apply(Some(&live), &second, target, &writer("b", 2), true).unwrap();
            let names = FieldSet::of_fields(["apiVersion", "kind", "metadata.name"]);
            let applied_fields = fields_of(&second, target.schema, target.definitions).difference(&names);
            prop_assert_eq!(owned(&forced, "b"), applied_fields);
            let changed = compare(&second, &forced, target.schema, target.definitions);
            prop_assert!(changed.modified.is_empty() && changed.removed.leaves().is_empty(), "{changed:?}");
            Ok(())
        })?;
    }

    #[test]
    fn no_json_causes_a_panic(live in any_json(), new in any_json(), by in "(kubectl|m)") {
        with_star(|target| {
            let mut applied = new.clone();
            if let Some(fields) = applied.as_object_mut() {
                fields.insert("apiVersion".to_owned(), json!("ex.io/v1"));
                fields.insert("kind".to_owned(), json!("Star"));
            }
            for live in [None, Some(&live)] {
                let _ = apply(live, &applied, target, &writer(&by, 1), false);
                let _ = apply(live, &applied, target, &writer(&by, 1), true);
                update(live, &mut new.clone(), target, &writer(&by, 1));
                if let Some(live) = live {
                    keep_times_if_unchanged(live, &mut new.clone());
                }
            }
        });
    }
}
