//! PodTopologyLabels: the zone and the region of a node, as labels of the pods on it.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/podtopologylabels/admission.go.

use serde_json::{Map, Value};

use super::cluster_objects;
use crate::ApiError;
use crate::admission_plugin::AdmissionPlugin;
use crate::cluster::Cluster;
use crate::cluster::object_fields::metadata_mut;
use crate::cluster::write::Write;
use crate::kinds::POD;
use crate::kinds::json_access::{at, object, text};

/// The labels that are copied.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Copies the labels to a new pod that names its node. The labels of other pods come with their
/// binding.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    if write.place.kind.is(&POD) && write.is_creation() {
        let labels = labels_of_node(write.cluster, text(&write.new, "/spec/nodeName"));
        if !labels.is_empty() {
            object(metadata_mut(&mut write.new), "labels").extend(labels);
        }
    }
    Ok(())
}

/// Returns the labels that pods of a node get; none if there is no such node, or the plugin is off.
pub(in crate::cluster) fn labels_of_node(cluster: &Cluster, node: &str) -> Map<String, Value> {
    let is_on = cluster.plugins.has(AdmissionPlugin::PodTopologyLabels);
    let node = Some(node).filter(|it| is_on && !it.is_empty());
    let node = node.and_then(|it| cluster_objects::one(cluster, "", "nodes", it)).unwrap_or_default();
    let label = |name: &str| Some((name.to_owned(), at(&node, "/metadata/labels")?.get(name)?.clone()));
    LABELS.iter().filter_map(|it| label(it)).collect()
}
