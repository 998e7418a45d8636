//! The objects without a namespace that plugins look at, such as classes and nodes.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::cluster::Cluster;

/// Returns all objects of a kind that is not namespaced.
pub(super) fn all(cluster: &Cluster, group: &str, plural: &str) -> Vec<Value> {
    let Some(kind) = cluster.catalog().kind(group, "v1", plural) else { return Vec::new() };
    cluster.list(&kind, None).iter().map(|it| kind.show(it)).collect()
}

/// Returns an object that is not namespaced.
pub(super) fn one(cluster: &Cluster, group: &str, plural: &str, name: &str) -> Option<Value> {
    let kind = cluster.catalog().kind(group, "v1", plural)?;
    let stored = cluster.get(&kind, &ObjectKey::from_parts(None, name).ok()?)?;
    Some(kind.show(&stored))
}
