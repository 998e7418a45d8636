//! Properties of pruning, defaulting and validation for any schema and any object.

use dogwatch_apimachinery::custom::{Structural, default, prune, validate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        (-3i64..12).prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-e]", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Generates schemas with every keyword, some of them with invalid values.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf =
        (prop_oneof![Just("string"), Just("integer"), Just("number"), Just("boolean")], any_keywords())
            .prop_map(|(kind, mut keywords)| {
                keywords.insert("type".to_owned(), kind.into());
                Value::Object(keywords)
            });
    leaf.prop_recursive(4, 30, 4, |inner| {
        let properties = prop::collection::btree_map("[a-e]", inner.clone(), 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()));
        prop_oneof![
            (properties, any_keywords()).prop_map(|(properties, mut keywords)| {
                keywords.insert("type".to_owned(), "object".into());
                keywords.insert("properties".to_owned(), properties);
                Value::Object(keywords)
            }),
            (inner.clone(), any_keywords()).prop_map(|(items, mut keywords)| {
                keywords.insert("type".to_owned(), "array".into());
                keywords.insert("items".to_owned(), items);
                Value::Object(keywords)
            }),
            (inner.clone(), any_keywords()).prop_map(|(additional, mut keywords)| {
                keywords.insert("type".to_owned(), "object".into());
                keywords.insert("additionalProperties".to_owned(), additional);
                Value::Object(keywords)
            }),
            (prop::collection::vec(inner, 1..3), prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf")])
                .prop_map(
                    |(schemas, key)| json!({"x-kubernetes-preserve-unknown-fields": true, key: schemas})
                ),
        ]
    })
}

fn any_keywords() -> impl Strategy<Value = Map<String, Value>> {
    let keyword = prop_oneof![
        any_value().prop_map(|value| ("default", value)),
        any::<bool>().prop_map(|flag| ("nullable", flag.into())),
        any::<bool>().prop_map(|flag| ("x-kubernetes-preserve-unknown-fields", flag.into())),
        any::<bool>().prop_map(|flag| ("x-kubernetes-embedded-resource", flag.into())),
        any::<bool>().prop_map(|flag| ("x-kubernetes-int-or-string", flag.into())),
        prop_oneof![Just("set"), Just("map"), Just("atomic")]
            .prop_map(|kind| ("x-kubernetes-list-type", kind.into())),
        Just(("x-kubernetes-list-map-keys", json!(["a", "b"]))),
        prop::collection::vec(any_value(), 0..3).prop_map(|values| ("enum", values.into())),
        any_value().prop_map(|value| ("minimum", value)),
        any_value().prop_map(|value| ("multipleOf", value)),
        (0u64..4).prop_map(|count| ("maxLength", count.into())),
        Just(("pattern", json!("^[a-b]+$"))),
        Just(("pattern", json!("(["))),
        Just(("required", json!(["a"]))),
        "(date-time|int32|int64|float|duration|email|uri|uuid|ipv4|cidr|mac|isbn|creditcard|byte|hostname)"
            .prop_map(|format| ("format", format.into())),
    ];
    prop::collection::vec(keyword, 0..4)
        .prop_map(|keywords| keywords.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pruning_is_idempotent(schema in any_schema(), value in any_value()) {
        let schema = Structural::parse(&schema);
        let mut once = value;
        prune::prune(&mut once, &schema);
        let mut twice = once.clone();
        prop_assert_eq!(prune::prune(&mut twice, &schema), Vec::<String>::new());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_is_idempotent(schema in any_schema(), value in any_value()) {
        let schema = Structural::parse(&schema);
        let mut once = value;
        default::fill(&mut once, &schema).unwrap();
        let mut twice = once.clone();
        default::fill(&mut twice, &schema).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn validation_never_panics_and_accepts_unchanged_values(schema in any_schema(), value in any_value()) {
        let schema = Structural::parse(&schema);
        let problems = validate::validate(&value, None, &schema);
        prop_assert!(problems.iter().all(|problem| !problem.message.is_empty() && !problem.field.is_empty()));
        prop_assert!(validate::validate(&value, Some(&value), &schema).is_empty());
    }

    #[test]
    fn any_schema_can_be_converted_for_apply(schema in any_value()) {
        let _ = Structural::parse(&schema).to_schema();
    }
}
