//! Access to limit ranges, and the rejection of an object by a policy.

use serde_json::Value;

use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::kinds::json_access::text;
use crate::registry::Registry;
use crate::store::Store;

/// The limit ranges of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policies<'a> {
    store: &'a Store,
    registry: &'a Registry,
}

impl<'a> Policies<'a> {
    /// Returns the policies of a cluster.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self { store: cluster.store(), registry: &cluster.registry }
    }

    /// Returns the limit ranges in the namespace of a place.
    pub(super) fn limit_ranges(&self, place: &ObjectRef<'_>) -> Vec<Value> {
        let Some(kind) = self.registry.catalog().kind("", "v1", "limitranges") else { return Vec::new() };
        let ranges = self.store.list(&kind.collection, place.namespace);
        ranges.iter().map(|it| kind.show(it)).collect()
    }
}

/// Returns a 403 about an object, which may have no name yet.
pub(super) fn forbidden(place: &ObjectRef<'_>, object: &Value, why: &str) -> ApiError {
    let (name, base) = (text(object, "/metadata/name"), text(object, "/metadata/generateName"));
    // As in k8s.io/apiserver v0.36.4 pkg/admission/errors.go.
    let name = [name, base, "Unknown"].into_iter().find(|it| !it.is_empty()).unwrap_or_default();
    ApiError::forbidden(&place.kind.def.group, &place.kind.def.plural, name, why)
}
