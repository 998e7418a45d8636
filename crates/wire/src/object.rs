//! Single objects: decoding a body that is one object, and encoding.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bad_item::UndecodableItem;
use crate::fields::Fields;
use crate::json;

/// Decodes a JSON body that is one object.
///
/// As in lists and watches, fields that `T` does not ask for are skipped, and managed fields are
/// skipped unless `fields` says to keep them.
///
/// # Errors
/// Returns an error if the body is empty, truncated, not JSON or more than one value, or does not
/// match the type.
pub fn from_slice<T: DeserializeOwned>(body: &[u8], fields: Fields) -> Result<T, UndecodableItem> {
    json::from_slice(body, fields)
}

/// Encodes an object as JSON.
///
/// # Errors
/// Returns an error if serializing the type fails, or if it has a map whose keys are not strings.
pub fn to_vec<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(object)
}
