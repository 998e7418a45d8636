//! RuntimeClass: the overhead and the scheduling of pods of a runtime class, which has to exist.

use serde_json::Value;

use super::cluster_objects;
use crate::ApiError;
use crate::admission::runtime_class;
use crate::cluster::policies::forbidden;
use crate::cluster::write::Write;
use crate::kinds::POD;
use crate::kinds::json_access::at;

/// Sets overhead, node selector and tolerations of a new pod.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    let Some(class) = class(write)? else { return Ok(()) };
    let filled = runtime_class::fill(&mut write.new, &class);
    filled.map_err(|why| forbidden(write.place, &write.new, &why))
}

/// Rejects a new pod whose overhead is not that of its class.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    if !write.place.kind.is(&POD) || !write.is_creation() {
        return Ok(());
    }
    match runtime_class::refuse(&write.new, class(write)?.as_ref()) {
        Some(why) => Err(forbidden(write.place, &write.new, &why)),
        None => Ok(()),
    }
}

/// Returns the runtime class that a new pod names.
fn class(write: &Write<'_>) -> Result<Option<Value>, ApiError> {
    if !write.place.kind.is(&POD) || !write.is_creation() {
        return Ok(None);
    }
    let Some(name) = at(&write.new, "/spec/runtimeClassName").and_then(Value::as_str) else {
        return Ok(None);
    };
    let missing = || {
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        forbidden(write.place, &write.new, &why)
    };
    cluster_objects::one(write.cluster, "node.k8s.io", "runtimeclasses", name).ok_or_else(missing).map(Some)
}
