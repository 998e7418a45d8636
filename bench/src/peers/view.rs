//! A view of pods: the few fields that a scheduler reads, the same as `dogwatch bench sync` has.

#![cfg_attr(not(test), expect(dead_code, reason = "the fields are held to be measured, not read"))]

use compact_str::CompactString;
use dogwatch::api::{Header, Meta};
use dogwatch::{Object, View};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

/// A pod as a scheduler sees it: its node, priority, phase and resource requests.
#[derive(Debug, Deserialize)]
pub(super) struct PodView {
    metadata: Meta,
    #[serde(default)]
    spec: PodSpecView,
    #[serde(default)]
    status: PodStatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpecView {
    node_name: CompactString,
    priority: i32,
    containers: Box<[ContainerView]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerView {
    resources: ResourcesView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourcesView {
    requests: RequestsView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestsView {
    cpu: CompactString,
    memory: CompactString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatusView {
    phase: CompactString,
}

impl Object for PodView {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for PodView {
    type Of = Pod;
}

#[cfg(test)]
mod tests {
    use super::super::super::pods::Pods;
    use super::*;

    #[test]
    fn a_pod_of_the_sample_decodes_into_a_view() {
        let pod: PodView = serde_json::from_str(&Pods::new().unwrap().pod(7)).unwrap();
        assert_eq!(pod.status.phase, "Running");
        assert!(pod.spec.node_name.starts_with("node-"));
        assert!(pod.spec.containers.iter().all(|it| !it.resources.requests.memory.is_empty()));
        assert_eq!(pod.key().map(String::from).as_deref(), Some("default/svc-000-6c8f7d9b5c-000007"));
    }
}
