//! PodResizeValidator: resized pods have to fit their node.

use super::cluster_objects;
use crate::ApiError;
use crate::admission::pod_resize;
use crate::cluster::policies::forbidden;
use crate::cluster::write::Write;
use crate::kinds::POD;
use crate::kinds::json_access::{number, text};

/// Rejects the resize of a pod that its node cannot take.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    let Some(base) = write.base.filter(|_| write.place.kind.is(&POD) && write.place.part == "resize") else {
        return Ok(());
    };
    let (pod, generation) = (&write.new, "/metadata/generation");
    let node = text(pod, "/spec/nodeName");
    if node.is_empty() || number(pod, generation) == number(base.object, generation) {
        return Ok(());
    }
    let refused = |why: &str| forbidden(write.place, pod, why);
    let found = cluster_objects::one(write.cluster, "", "nodes", node);
    let found = found.ok_or_else(|| refused(&format!("node {node:?} not found")))?;
    match pod_resize::refuse(pod, &found) {
        Some((reason, why)) => Err(refused(&why).cause(reason, "", "")),
        None => Ok(()),
    }
}
