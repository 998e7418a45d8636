//! Small objects of the kinds the tests use. Pods name a scheduler that does not exist, so that
//! they are never scheduled.

use dogwatch::api::{Gvk, LabelSelector, ListParams, ResourceType};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Decodes an object from JSON.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("the test writes a valid object")
}

pub(crate) fn config_map(name: &str, labels: Value) -> ConfigMap {
    object(json!({ "metadata": { "name": name, "labels": labels }, "data": { "key": "value" } }))
}

pub(crate) fn pod(name: &str) -> Pod {
    object(json!({ "metadata": { "name": name, "labels": { "app": name } }, "spec": pod_spec() }))
}

pub(crate) fn deployment(name: &str) -> Deployment {
    object(json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": pod_spec() },
        },
    }))
}

fn pod_spec() -> Value {
    json!({
        "schedulerName": "no-such-scheduler",
        "automountServiceAccountToken": false,
        "containers": [{ "name": "main", "image": "example.invalid/main" }],
    })
}

/// Returns list parameters with a label selector.
pub(crate) fn labelled(selector: &str) -> ListParams {
    ListParams::default().labels(labels(selector))
}

pub(crate) fn labels(selector: &str) -> LabelSelector {
    selector.parse().expect("the test writes a valid selector")
}

/// Returns the config map resource, for dynamic handles.
pub(crate) fn config_maps() -> ResourceType {
    ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

/// Returns the deployment resource, for dynamic handles.
pub(crate) fn deployments() -> ResourceType {
    ResourceType::namespaced(Gvk::new("apps", "v1", "Deployment"), "deployments")
}

/// Returns the sorted names of objects.
pub(crate) fn names<'o, K: dogwatch::Object>(objects: impl IntoIterator<Item = &'o K>) -> Vec<String> {
    let mut names: Vec<_> = objects.into_iter().map(|it| it.header().name.to_owned()).collect();
    names.sort();
    names
}
