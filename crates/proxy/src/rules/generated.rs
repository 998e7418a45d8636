//! Generated rules of every kind, callers and objects, for property tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Rule, RuleSet};

/// A rule of any kind, over a few labels and fields.
pub(crate) fn any_rule() -> impl Strategy<Value = String> {
    let selector = prop_oneof![
        Just(""),
        Just(", labels: tier=web"),
        Just(", labels: '!tier'"),
        Just(", namespace: b"),
        Just(", when: 'size(object.data) > 1'"),
        Just(", when: 'object.data.a == \"x\"'")
    ];
    let callers = prop_oneof![4 => Just(""), 1 => Just(", user: jane"), 1 => Just(", userAgent: envoy/")];
    let change = prop_oneof![
        Just("hide: true"),
        Just("annotations: {seen: 'yes'}"),
        Just("redact: [/data/a, /items/*/x]"),
        Just("renameHosts: {x: renamed, y: x}"),
        Just("keepZone: near"),
        Just("keepZone: far"),
        Just("patch: {type: merge, value: {data: {b: new, c: null}, metadata: {labels: {tier: db}}}}"),
        Just("patch: {type: merge, value: {items: [{x: 9}], data: {deep: {er: 1}}, extra: {}}}"),
        Just("patch: {type: cel, value: '{\"data\": {\"b\": object.metadata.name, \"c\": null}}'}"),
        Just("patch: {type: cel, value: '{\"metadata\": {\"name\": \"other\", \"labels\": object.data}}'}"),
        Just("patch: {type: json, value: [{op: remove, path: /data/c}]}"),
        Just("patch: {type: json, value: [{op: add, path: /items/-, value: {x: 7}}]}"),
        Just("patch: {type: json, value: [{op: replace, path: /items/0/x, value: 8}]}"),
        Just("patch: {type: json, value: [{op: copy, from: /data, path: /copy}]}"),
    ];
    let text =
        |(selector, callers, change)| format!("- match: {{resource: maps{selector}{callers}}}\n  {change}\n");
    (selector, callers, change).prop_map(text)
}

/// Returns the rules for one of a few callers.
pub(crate) fn rules_for(texts: &[String], (user, agent): (&str, &str)) -> Vec<Arc<Rule>> {
    let text = if texts.is_empty() { "rules: []".to_owned() } else { format!("rules:\n{}", texts.concat()) };
    let all = RuleSet::parse(&text, &[(String::new(), "maps".to_owned())]).unwrap().rules;
    all.into_iter().filter(|it| it.callers.contain(user, agent)).collect()
}

pub(crate) fn any_caller() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop_oneof![Just(("jane", "kubectl/1")), Just(("joe", "envoy/2")), Just(("joe", ""))]
}

pub(crate) fn any_object() -> impl Strategy<Value = Value> {
    let tier = proptest::option::of(prop_oneof![Just("web"), Just("db")]);
    let data = proptest::collection::btree_map("[abc]", "[xy]", 0..3);
    let zone = proptest::option::of(prop_oneof![Just("near"), Just("far")]);
    let endpoints = proptest::collection::vec(zone.prop_map(|it| json!({ "zone": it })), 0..3);
    let host = proptest::option::of("[xy]");
    let namespace = prop_oneof![Just("a"), Just("b")];
    (namespace, tier, data, "[pqr]", endpoints, host).prop_map(
        |(namespace, tier, data, name, endpoints, host)| {
            let labels: BTreeMap<_, _> = tier.map(|it| ("tier", it)).into_iter().collect();
            let hosts: Vec<_> = host.iter().map(|it| json!({ "host": it })).collect();
            json!({
                "metadata": { "name": name, "namespace": namespace, "labels": labels },
                "data": data, "items": [{ "x": 1, "y": 2 }], "endpoints": endpoints,
                "spec": { "rules": hosts, "externalName": host },
            })
        },
    )
}
