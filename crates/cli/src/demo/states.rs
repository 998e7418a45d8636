//! The state of an object as text.

use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use dogwatch::k8s_openapi::api::networking::v1::Ingress;

pub(super) fn of_deployment(deployment: &Deployment) -> String {
    let template = deployment.spec.template.spec.as_ref();
    let image = template.and_then(|it| it.containers.first()?.image.as_deref()).unwrap_or("no image");
    let wanted = deployment.spec.replicas.unwrap_or_default();
    let status = deployment.status.as_ref();
    let ready = status.and_then(|it| it.ready_replicas).unwrap_or_default();
    let updated = status.and_then(|it| it.updated_replicas).unwrap_or_default();
    format!("runs {image}: {ready}/{wanted} ready, {updated} updated")
}

pub(super) fn of_pod(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
    let phase = status.and_then(|it| it.phase.as_deref()).unwrap_or("Pending");
    match (pod.metadata.deletion_timestamp.is_some(), node_of(pod)) {
        (true, Some(node)) => format!("is terminating on {node}"),
        (true, None) => "is terminating".to_owned(),
        (false, None) => "waits for a node".to_owned(),
        (false, Some(node)) if ready => format!("is ready on {node}"),
        (false, Some(node)) => format!("is {} on {node}", phase.to_lowercase()),
    }
}

pub(super) fn of_slice(slice: &EndpointSlice) -> String {
    let ready = |it: &&Endpoint| it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true);
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    let addresses = if endpoints.len() == 1 { "address" } else { "addresses" };
    format!("have {} {addresses}, {} ready", endpoints.len(), endpoints.iter().filter(ready).count())
}

pub(super) fn of_ingress(ingress: &Ingress) -> String {
    let rules = ingress.spec.as_ref().and_then(|it| it.rules.as_deref()).unwrap_or_default();
    let hosts: Vec<&str> = rules.iter().filter_map(|it| it.host.as_deref()).collect();
    format!("routes {}", if hosts.is_empty() { "every host".to_owned() } else { hosts.join(", ") })
}

/// Returns the node of a pod, if it is scheduled.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_of_a_pod_is_its_readiness_and_node() {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        for (pod, expected) in [
            (json!({ "spec": { "containers": [] } }), "waits for a node"),
            (
                json!({ "spec": { "nodeName": "n", "containers": [] }, "status": { "phase": "Pending" } }),
                "is pending on n",
            ),
            (
                json!({ "spec": { "nodeName": "n", "containers": [] }, "status": { "phase": "Running", "conditions": ready } }),
                "is ready on n",
            ),
            (
                json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "nodeName": "n", "containers": [] } }),
                "is terminating on n",
            ),
        ] {
            assert_eq!(of_pod(&serde_json::from_value(pod).expect("a pod")), expected);
        }
    }
}
