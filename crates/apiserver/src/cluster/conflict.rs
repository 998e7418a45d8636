//! The conflicts of writes with the stored state, which are answered with 409: the object has
//! changed since the client read it, is another one of the same name, or exists already.
//!
//! The verbs and the stages of a write call these checks. They do not know why a client sends a
//! version or a uid. 409s about one subresource only, such as the binding of a pod that has a node,
//! are made where that subresource is implemented.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::place::ObjectRef;
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::at;
use crate::registry::Kind;
use crate::store::Encoded;
use crate::strconv;
use crate::{ApiError, FieldError, FieldErrorKind};

/// The message of a conflict with a newer version: `OptimisticLockErrorMsg` in k8s.io/apiserver
/// v0.36.4 pkg/registry/generic/registry/store.go.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Kind {
    /// Creates a 409: the object is in a state that does not permit the request.
    pub(super) fn conflict(&self, name: &str, why: &str) -> ApiError {
        ApiError::conflict(&self.def.group, &self.def.plural, name, why)
    }

    /// Creates a 409: the object has changed since the client, or the server itself, has read it.
    pub(super) fn modified(&self, name: &str) -> ApiError {
        self.conflict(name, MODIFIED)
    }

    /// Creates a 409: the object that is to be created exists. `current` is its state, or null if
    /// that is unknown.
    pub(super) fn already_exists(&self, name: &str, current: &Value) -> ApiError {
        let mut refusal = ApiError::already_exists(&self.def.group, &self.def.plural, name);
        // `Store.create` in k8s.io/apiserver v0.36.4 pkg/registry/generic/registry/store.go.
        if at(current, "/metadata/deletionTimestamp").is_some() {
            refusal.0.message = format!("object is being deleted: {}", refusal.0.message);
        }
        refusal
    }
}

/// Checks that the object still has the version that the client has seen, if the client names one.
/// With `needed`, kinds that require a version reject a write without one.
pub(super) fn check_version(
    place: &ObjectRef<'_>,
    wanted: &str,
    current: &Encoded,
    needed: bool,
) -> Result<(), ApiError> {
    if wanted.is_empty() || wanted == "0" {
        if !needed || !place.kind.traits.requires_version_on_update {
            return Ok(());
        }
        let problem = FieldError::with_value(
            "metadata.resourceVersion",
            FieldErrorKind::Invalid,
            0,
            "must be specified for an update",
        );
        return Err(ApiError::invalid(&place.kind.def.group, &place.kind.def.plural, place.name, &[problem]));
    }
    let version: u64 =
        wanted.parse().map_err(|it| ApiError::unexplained(strconv::error("ParseUint", wanted, &it)))?;
    if version == current.version() { Ok(()) } else { Err(place.kind.modified(place.name)) }
}

/// Checks that the stored object has the uid and the version that the client names; empty ones are
/// not checked. `current` is `None` if there is no such object, which then has another uid.
///
/// The messages are those of `Preconditions.Check` in k8s.io/apiserver v0.36.4
/// pkg/storage/interfaces.go.
pub(super) fn check_stored(
    kind: &Kind,
    key: &ObjectKey,
    (uid, version): (&str, &str),
    current: Option<&Encoded>,
) -> Result<(), ApiError> {
    let stored_uid = current.map_or("", Encoded::uid);
    let stored_version = current.map(|it| it.version().to_string()).unwrap_or_default();
    for (field, wanted, stored) in
        [("UID", uid, stored_uid), ("ResourceVersion", version, stored_version.as_str())]
    {
        if wanted.is_empty() || wanted == stored {
            continue;
        }
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {stored}",
            registry_path(kind),
        );
        return Err(kind.conflict(key.name(), &why));
    }
    Ok(())
}

/// Checks that an object that is to be deleted has the uid and the version of the preconditions.
///
/// The messages are those of `BeforeDelete` in k8s.io/apiserver v0.36.4
/// pkg/registry/rest/delete.go.
pub(super) fn check_deletion(
    place: &ObjectRef<'_>,
    (uid, version): (Option<&str>, Option<&str>),
    current: &Encoded,
) -> Result<(), ApiError> {
    let refused =
        |why: String| ApiError::conflict(&place.kind.def.group, &place.kind.def.kind, place.name, &why);
    if let Some(uid) = uid.filter(|it| *it != current.uid()) {
        // kube-apiserver checks namespaces with another message (k8s.io/kubernetes v1.36.4
        // pkg/registry/core/namespace/storage/storage.go).
        if place.kind.is(&NAMESPACE) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            );
            return Err(place.kind.conflict(place.name, &why));
        }
        return Err(refused(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid()
        )));
    }
    if let Some(version) = version.filter(|it| *it != current.version().to_string()) {
        return Err(refused(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            current.version()
        )));
    }
    Ok(())
}

/// Returns the path in etcd under which kube-apiserver stores a kind (k8s.io/kubernetes v1.36.4
/// pkg/kubeapiserver/default_storage_factory_builder.go).
fn registry_path(kind: &Kind) -> String {
    let (group, plural) = (&kind.def.group, &kind.def.plural);
    match kind.rules.storage_path {
        Some(path) => path.to_owned(),
        None if kind.def.custom => format!("{group}/{plural}"),
        None => plural.clone(),
    }
}
