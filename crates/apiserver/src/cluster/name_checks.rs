//! Checks that an object has the name that the request gives it, and is stored under its own key.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::ObjectRef;
use crate::ApiError;
use crate::kinds::json_access::text;
use crate::store::Draft;

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
