//! Checks that the definition of a custom kind still exists while one of its objects is written.

use dogwatch_core::Reason;

use crate::ApiError;
use crate::registry::{Catalog, Kind};

/// Rejects an object of a custom kind whose definition was deleted, or replaced by another of
/// its name.
///
/// A request looks up its kind when it begins, and its body may take a minute to arrive. Stored
/// then, the object would be in the collection of the new definition, which may have another
/// scope: no request could name it.
///
/// # Errors
/// 404, as for a kind that was never served.
pub(super) fn check_defined(catalog: &Catalog, kind: &Kind) -> Result<(), ApiError> {
    if kind.def.custom && catalog.definition_of(kind).is_none() {
        return Err(ApiError::new(Reason::NotFound, "the server could not find the requested resource"));
    }
    Ok(())
}

/// Rejects a new object of a custom kind whose definition is being deleted: nothing would delete
/// it before its collection is removed.
///
/// # Errors
/// 403, as `forbidCreateAdmission` in k8s.io/apiextensions-apiserver v0.36.4
/// pkg/apiserver/customresource_handler.go.
pub(super) fn check_accepts_new(catalog: &Catalog, kind: &Kind, name: &str) -> Result<(), ApiError> {
    if kind.def.custom && catalog.definition_of(kind).is_some_and(|it| it.is_terminating()) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&kind.def.group, &kind.def.plural, name, why));
    }
    Ok(())
}
