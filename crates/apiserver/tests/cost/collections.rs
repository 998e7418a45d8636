//! Deletions of collections next to other stored objects.

use serde_json::{Value, json};

use crate::measure::{Sent, assert_proportional, list};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Returns a webhook that is not called for ConfigMaps.
fn webhook(at: usize, resource: &str) -> Value {
    json!({ "name": format!("h{at}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": "https://127.0.0.1:1/" },
        "rules": [{ "operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": [resource] }] })
}

fn configure(name: &str, webhooks: &Value) -> Sent {
    Sent::post(CONFIGURATIONS, &json!({ "metadata": { "name": name }, "webhooks": webhooks }))
}

/// Appends the creation of ConfigMaps and the deletion of all of them.
fn delete_config_maps(n: usize, mut before: Vec<Sent>) -> Vec<Sent> {
    let object = |i: usize| json!({ "metadata": { "name": format!("a{i}") } });
    before.extend((0..n).map(|i| Sent::post(CONFIG_MAPS, &object(i))));
    before.push(Sent::delete(CONFIG_MAPS, &json!({})));
    before
}

/// Creates definitions and deletes all of them.
fn delete_definitions(n: usize, kind: impl Fn(usize) -> String) -> Vec<Sent> {
    let definition = |i: usize| {
        json!({ "metadata": { "name": format!("p{i}.ex.io") }, "spec": { "group": "ex.io", "scope": "Cluster",
            "names": { "plural": format!("p{i}"), "singular": format!("s{i}"), "kind": kind(i), "listKind": format!("L{i}") },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }] } })
    };
    let mut all: Vec<Sent> = (0..n).map(|i| Sent::post(DEFINITIONS, &definition(i))).collect();
    all.push(Sent::delete(DEFINITIONS, &json!({})));
    all
}

/// Regression test: the configurations were parsed again for each object, the addresses of all
/// services were examined for each service, and all served kinds were collected for each
/// definition.
#[test]
fn a_collection_is_deleted_at_the_cost_of_its_objects() {
    assert_proportional(&[
        (
            "a configuration of many webhooks",
            25,
            |n| delete_config_maps(n, vec![configure("c", &list(n, |i| webhook(i, "deployments")))]),
            200,
        ),
        (
            "a configuration of many webhooks of all resources of a group",
            25,
            |n| delete_config_maps(n, vec![configure("c", &list(n, |i| webhook(i, "*")))]),
            200,
        ),
        (
            "many configurations",
            25,
            |n| {
                let one = |i: usize| configure(&format!("c{i}"), &json!([webhook(i, "deployments")]));
                delete_config_maps(n, (0..n).map(one).collect())
            },
            200,
        ),
        (
            "services",
            500,
            |n| {
                let service = |i: usize| json!({ "metadata": { "name": format!("a{i}") }, "spec": { "ports": [{ "port": 80 }] } });
                let mut all: Vec<Sent> = (0..n).map(|i| Sent::post(SERVICES, &service(i))).collect();
                all.push(Sent::delete(SERVICES, &json!({})));
                all
            },
            200,
        ),
        // One more than are deleted in a turn: the controller of definitions runs in between, and
        // takes the same part of both sizes.
        ("definitions", 65, |n| delete_definitions(n, |i| format!("K{i}")), 200),
        ("definitions that wait for a name", 6, |n| delete_definitions(n, |_| "K".to_owned()), 200),
    ]);
}
