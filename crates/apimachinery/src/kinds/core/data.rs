//! The data of ConfigMaps and Secrets: its maximum size, and the flag that makes it immutable.

use serde_json::Value;

use crate::kinds::validate::check::{FieldErrors, forbidden};

/// The number of bytes that all keys of a ConfigMap or Secret may hold together, `MaxSecretSize` of
/// k8s.io/kubernetes v1.36.4 pkg/apis/core/types.go.
pub(in crate::kinds) const DATA_LIMIT: usize = 1024 * 1024;

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// Returns the number of bytes that a base64 string decodes to.
pub(in crate::kinds) fn decoded_size(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4)
}

/// Checks that the data of an object that is immutable has not changed.
pub(in crate::kinds) fn unchanged(out: &mut FieldErrors, new: &Value, old: &Value) {
    if old["immutable"] == true {
        if new["immutable"] != true {
            forbidden(out, "immutable", IMMUTABLE);
        }
        for key in ["data", "binaryData"] {
            if new.get(key) != old.get(key) {
                forbidden(out, key, IMMUTABLE);
            }
        }
    }
}
