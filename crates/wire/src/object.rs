//! Single objects: a body that is one object, and the way back to bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bad_item::BadItem;
use crate::fields::Fields;
use crate::json;

/// Decodes a JSON body that is one object.
///
/// As in lists and watches, what `T` does not ask for is passed over unread, and managed fields are cut out unless
/// `fields` says to keep them.
///
/// # Errors
/// When the body is empty, torn, no JSON or more than one value, or does not fit the type.
pub fn from_slice<T: DeserializeOwned>(body: &[u8], fields: Fields) -> Result<T, BadItem> {
    json::from_slice(body, fields)
}

/// Encodes an object as JSON.
///
/// # Errors
/// When the type refuses to be serialized, or has a map whose keys are no strings.
pub fn to_vec<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(object)
}
