//! NamespaceLifecycle: the namespace of a new object must exist and must not be terminating.

use std::sync::LazyLock;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::object_fields::metadata_mut;
use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::admission_plugin::AdmissionPlugin;
use crate::kinds::json_access::text;
use crate::store::CollectionName;

static NAMESPACES: LazyLock<CollectionName> = LazyLock::new(|| "/namespaces".into());

/// Rejects a creation in a namespace that does not exist, or is being deleted.
pub(super) fn admit_to_namespace(
    cluster: &Cluster,
    place: &ObjectRef<'_>,
    name: &str,
) -> Result<(), ApiError> {
    let Some(namespace) = place.namespace.filter(|_| place.kind.def.namespaced) else { return Ok(()) };
    if !cluster.plugins.has(AdmissionPlugin::NamespaceLifecycle) {
        return Ok(());
    }
    // Access reviews name a namespace without being stored in it.
    if place.kind.rules.review.is_some() {
        return Ok(());
    }
    let missing = || ApiError::not_found("", "namespaces", namespace);
    let key = ObjectKey::from_parts(None, namespace).map_err(|_| missing())?;
    let found = cluster.store().get(&NAMESPACES, &key).ok_or_else(missing)?;
    if found.field("status.phase") == Some("Terminating") {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = format!("namespace {namespace} is being terminated");
        return Err(ApiError::forbidden(&place.kind.def.group, &place.kind.def.plural, name, &why).cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ));
    }
    Ok(())
}

/// Sets the namespace of an object to that of the request, and rejects an object that names
/// another.
pub(super) fn settle_namespace(place: &ObjectRef<'_>, object: &mut Value) -> Result<(), ApiError> {
    let said = text(object, "/metadata/namespace").to_owned();
    let metadata = metadata_mut(object);
    match place.namespace {
        Some(namespace) if said.is_empty() => {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        Some(namespace) if said == namespace => {}
        // kube-apiserver removes the namespace from cluster-scoped objects instead of rejecting
        // them (k8s.io/apiserver v0.36.4 pkg/registry/rest/meta.go).
        None => {
            metadata.remove("namespace");
        }
        Some(_) => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}
