//! Access to limit ranges and runtime classes, and the defaults that they give to pods.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::admission::{limits, runtime_class};
use crate::kinds::POD;
use crate::kinds::json_access::{at, text};
use crate::registry::Registry;
use crate::store::Store;

/// The limit ranges and runtime classes of a cluster.
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

    /// Fills in the fields of a new or resized pod that policies have defaults for.
    pub(super) fn fill(&self, place: &ObjectRef<'_>, object: &mut Value) -> Result<(), ApiError> {
        let kind = place.kind;
        if !kind.is(&POD) {
            return Ok(());
        }
        let refused = |object: &Value, why: &str| forbidden(place, object, why);
        limits::fill(object, &self.limit_ranges(place));
        if place.part.is_empty()
            && let Some(class) = self.runtime_class(object)
        {
            let class = class.map_err(|why| refused(object, &why))?;
            runtime_class::fill(object, &class).map_err(|why| refused(object, &why))?;
        }
        Ok(())
    }

    /// Returns the runtime class that a pod names, or the error if it does not exist.
    pub(super) fn runtime_class(&self, pod: &Value) -> Option<Result<Value, String>> {
        let name = at(pod, "/spec/runtimeClassName")?.as_str()?;
        let found = || {
            let kind = self.registry.catalog().kind("node.k8s.io", "v1", "runtimeclasses")?;
            let key = ObjectKey::from_parts(None, name).ok()?;
            Some(kind.show(&*self.store.get(&kind.collection, &key)?))
        };
        Some(found().ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found")))
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
    let name = if name.is_empty() { base } else { name };
    ApiError::forbidden(&place.kind.def.group, &place.kind.def.plural, name, why)
}
