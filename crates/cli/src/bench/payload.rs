//! Views of objects for an informer: small structs with a few fields.

#![cfg_attr(not(test), expect(dead_code, reason = "the fields are held to be measured, not read"))]

use compact_str::CompactString;
use dogwatch::Object;
use dogwatch::api::{Header, Meta};
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
