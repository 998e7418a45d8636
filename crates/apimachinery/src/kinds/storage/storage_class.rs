//! StorageClasses.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::json_access::{fill, flag, items, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{FieldErrors, forbidden, immutable, invalid_string, one_of, required};

/// The rules of the kind StorageClass.
pub(crate) static RULES: KindRules = KindRules {
    group: "storage.k8s.io",
    kind: "StorageClass",
    plural: "storageclasses",
    traits: KindTraits { returns_deleted_object: true, ..KindTraits::COMMON },
    default: |_, map| {
        fill(map, "reclaimPolicy", "Delete");
        fill(map, "volumeBindingMode", "Immediate");
    },
    validate_create: storage_class,
    validate_update: Some(validate_update),
    cells,
    ..COMMON
};

fn storage_class(out: &mut FieldErrors, object: &Value) {
    match text(object, "/provisioner").to_lowercase().as_str() {
        "" => required(out, "provisioner", ""),
        provisioner => invalid_string(out, "provisioner", provisioner, names::qualified(provisioner)),
    }
    for (index, term) in items(object, "/allowedTopologies").iter().enumerate() {
        for (at, expression) in items(term, "/matchLabelExpressions").iter().enumerate() {
            let path = format!("allowedTopologies[{index}].matchLabelExpressions[{at}]");
            if items(expression, "/values").is_empty() {
                required(out, &format!("{path}.values"), "");
            }
            let key = text(expression, "/key");
            invalid_string(out, &format!("{path}.key"), key, names::qualified(key));
        }
    }
    one_of(out, object, "/reclaimPolicy", "reclaimPolicy", &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    one_of(out, object, "/volumeBindingMode", "volumeBindingMode", &modes);
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    storage_class(out, new);
    for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(out, new, old, &format!("/{key}"), key);
    }
    if new.get("parameters").is_none() {
        immutable(out, new, old, "/parameters", "parameters");
    } else if new.get("parameters") != old.get("parameters") {
        forbidden(out, "parameters", "updates to parameters are forbidden.");
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let plain = |pointer: &str| Value::from(text(object, pointer));
    let mut first = text(object, "/metadata/name").to_owned();
    let annotation = |version: &str| {
        let key = format!("/metadata/annotations/{version}~1is-default-class");
        text(object, &key) == "true"
    };
    if annotation("storageclass.kubernetes.io") || annotation("storageclass.beta.kubernetes.io") {
        first.push_str(" (default)");
    }
    vec![
        first.into(),
        plain("/provisioner"),
        plain("/reclaimPolicy"),
        plain("/volumeBindingMode"),
        flag(object, "/allowVolumeExpansion").into(),
        age::since_creation(object, now),
    ]
}
