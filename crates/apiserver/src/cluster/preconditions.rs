//! The conditions that a write names: the name, the uid and the version of the object it is about.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::ObjectRef;
use super::place::MODIFIED;
use crate::kinds::json_access::text;
use crate::registry::Kind;
use crate::store::{Draft, Encoded};
use crate::strconv;
use crate::{ApiError, FieldError, FieldErrorKind};

/// Checks that the name of an object is that of the request.
pub(super) fn check_name(place: &ObjectRef<'_>, object: &Value) -> Result<(), ApiError> {
    match text(object, "/metadata/name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            place.name
        ))),
        name if name == place.name => Ok(()),
        name => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        ))),
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
    if version == current.version() { Ok(()) } else { Err(place.kind.conflict(place.name, MODIFIED)) }
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

/// Checks that an object is stored under its own key.
///
/// The verbs have checked its name and namespace before. A conversion webhook may have changed them
/// since then, and an object under the key of another could not be addressed any more.
pub(super) fn check_key(draft: &Draft, key: &ObjectKey) -> Result<(), ApiError> {
    if draft.key() == key {
        return Ok(());
    }
    Err(ApiError::internal(format!("the object {} cannot be stored as {key}", draft.key())))
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
