//! ConfigMaps.

use jiff::Timestamp;
use serde_json::Value;

use super::data::{DATA_LIMIT, decoded_size, unchanged};
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::entries;
use crate::kinds::names;
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::validate::check::{FieldErrors, invalid, invalid_string};
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind ConfigMap.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "ConfigMap",
    plural: "configmaps",
    validate_create: config_map,
    validate_update: Some(|out, new, old| {
        unchanged(out, new, old);
        config_map(out, new);
    }),
    cells,
    accounting: Accounting::CountedByName,
    ..COMMON
};

fn config_map(out: &mut FieldErrors, object: &Value) {
    let mut size = 0;
    for (key, value) in entries(object, "/data") {
        invalid_string(out, &format!("data[{key}]"), key, names::config_key(key));
        if object["binaryData"].get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            invalid(out, &format!("data[{key}]"), &key.into(), detail);
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(object, "/binaryData") {
        invalid_string(out, &format!("binaryData[{key}]"), key, names::config_key(key));
        size += decoded_size(value);
    }
    if size > DATA_LIMIT {
        let detail = format!("may not be more than {DATA_LIMIT} bytes");
        out.push(FieldError::new("", FieldErrorKind::TooLong, &detail));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |pointer: &str| entries(object, pointer).count();
    let age = age::since_creation(object, now);
    vec![cells::name(object), (count("/data") + count("/binaryData")).into(), age]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_limited_to_one_mebibyte() {
        let problems = |size: usize| {
            let mut out = FieldErrors::new();
            config_map(&mut out, &json!({"data": {"k": "v".repeat(size)}}));
            out
        };
        assert!(problems(DATA_LIMIT).is_empty());
        assert_eq!(problems(DATA_LIMIT + 1)[0].message, "Too long: may not be more than 1048576 bytes");
    }
}
