//! The kinds that the server serves now, as the collector needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dogwatch_client::Discovery;
use dogwatch_core::{Gvk, ResourceType};

use super::graph::CollectionName;

/// The served kinds. Equal if the server serves the same.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    /// Every kind in every version, by API version and kind.
    by_kind: BTreeMap<(String, String), ResourceType>,
    /// The resources whose objects may be owned or own others, each in one version.
    pub(super) collected: BTreeMap<CollectionName, ResourceType>,
    /// The groups of which a version could not be discovered.
    pub(super) failed_groups: BTreeSet<String>,
}

impl Kinds {
    pub(super) fn new(discovery: &Discovery) -> Self {
        let mut kinds = Self::default();
        for served in discovery.resources() {
            let Gvk { kind, .. } = &served.resource.gvk;
            let name = (served.resource.gvk.api_version().into_owned(), kind.to_string());
            kinds.by_kind.entry(name).or_insert_with(|| served.resource.clone());
        }
        for served in discovery.preferred_resources() {
            // As `GetDeletableResources` in k8s.io/kubernetes v1.36.4
            // pkg/controller/garbagecollector/garbagecollector.go.
            if served.supports_all(&["delete", "list", "watch"]) && !is_ignored(&served.resource) {
                kinds.collected.insert(collection(&served.resource), served.resource.clone());
            }
        }
        kinds.failed_groups = discovery.failures.iter().map(|it| it.group.clone()).collect();
        kinds
    }

    /// Returns the resource of a kind, if it is served in this version.
    pub(super) fn find(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        self.by_kind.get(&(api_version.to_owned(), kind.to_owned()))
    }

    /// Returns true if a kind is served in any version.
    pub(super) fn serves(&self, group: &str, kind: &str) -> bool {
        self.by_kind.values().any(|it| it.gvk.group == group && it.gvk.kind == kind)
    }

    /// Returns true if a resource is served in exactly this version.
    pub(super) fn serves_resource(&self, resource: &ResourceType) -> bool {
        self.by_kind.values().any(|it| it == resource)
    }
}

/// Returns the name of the collection of a resource.
pub(super) fn collection(resource: &ResourceType) -> CollectionName {
    Arc::from(format!("{}/{}", resource.gvk.group, resource.plural))
}

/// Returns true for events: they are many and never dependents. kube-controller-manager ignores
/// them too (`DefaultIgnoredResources` in k8s.io/kubernetes v1.36.4
/// pkg/controller/garbagecollector/graph_builder.go).
fn is_ignored(resource: &ResourceType) -> bool {
    resource.plural == "events" && matches!(&*resource.gvk.group, "" | "events.k8s.io")
}
