//! The defaults of built-in kinds, for fields that an object leaves unset.
//!
//! Applied to every object that is decoded, so it must be idempotent. Besides defaults it gives an
//! object the wire format of its type: fields that are always serialized are added with their zero
//! value, and empty fields that never are, are removed.

use serde_json::Value;

use crate::kinds::index;
use crate::kinds::shape;

/// Sets the defaults of an object of a built-in kind. Kinds without defaults only get the wire
/// format of their type.
pub fn apply(group: &str, version: &str, kind: &str, value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    shape::apply(group, version, kind, map);
    (index::of_kind(group, kind).default)(version, map);
}
