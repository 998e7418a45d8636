//! A view of pods: the few fields that a scheduler reads.

use compact_str::CompactString;
use dogwatch::api::{Header, Meta};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Object, View};
use serde::Deserialize;

/// A pod as a scheduler sees it: its node, priority, phase and resource requests.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct PodView {
    /// The metadata.
    pub metadata: Meta,
    /// The fields of the spec.
    #[serde(default)]
    pub spec: PodSpecView,
    /// The fields of the status.
    #[serde(default)]
    pub status: PodStatusView,
}

/// The fields of a pod's spec.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PodSpecView {
    /// The name of its node, empty until it has one.
    pub node_name: CompactString,
    /// Its priority.
    pub priority: i32,
    /// Its containers.
    pub containers: Box<[ContainerView]>,
}

/// The fields of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerView {
    /// Its resources.
    pub resources: ResourcesView,
}

/// The fields of a container's resources.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ResourcesView {
    /// Its requests; the limits are left out.
    pub requests: RequestsView,
}

/// The requests of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RequestsView {
    /// Processors, such as `100m`.
    pub cpu: CompactString,
    /// Memory, such as `1Gi`.
    pub memory: CompactString,
}

/// The fields of a pod's status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PodStatusView {
    /// Its phase, such as `Running`.
    pub phase: CompactString,
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
    use super::*;

    #[test]
    fn a_minimal_pod_decodes_into_a_view() {
        let whole = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{"k":"v"}},
            "spec":{"nodeName":"x","containers":[{"name":"c","image":"i",
            "resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}}}]},"status":{"phase":"Running"}}"#;
        let whole: PodView = serde_json::from_str(whole).expect("a pod");
        assert_eq!(&*whole.spec.containers[0].resources.requests.memory, "1Gi");
        assert_eq!((&*whole.spec.node_name, &*whole.status.phase), ("x", "Running"));
        assert_eq!(whole.key().map(String::from).as_deref(), Some("n/a"));
        let bare: PodView =
            serde_json::from_str(r#"{"metadata":{"name":"a"},"spec":{"containers":[{}]}}"#).expect("a pod");
        assert_eq!(bare.spec.containers.len(), 1);
    }
}
