//! PersistentVolumeClaims, on their own or as templates in a StatefulSet.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, entries, fill, items, object, text};
use crate::kinds::names;
use crate::kinds::quantity::Quantity;
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{
    FieldErrors, forbidden, immutable, invalid, invalid_string, one_of, required,
};
use crate::kinds::validate::volume::access_modes;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind PersistentVolumeClaim.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    traits: KindTraits { returns_deleted_object: true, has_status: true, ..KindTraits::COMMON },
    default: |_, map| defaults(map),
    prepare_create: |claim, _, _| {
        claim["status"]["phase"] = "Pending".into();
        drop_unsupported_source(claim);
        normalize_sources(claim);
        Ok(())
    },
    prepare_update: |claim, _, _| {
        normalize_sources(claim);
        Ok(())
    },
    validate_create: claim,
    validate_update: Some(validate_update),
    warnings: |claim, old| {
        // Not for writes to the status.
        let is_whole = old.is_none_or(|old| old["status"] == claim["status"]);
        if is_whole { warnings(claim) } else { Vec::new() }
    },
    cells,
    accounting: Accounting::Claim,
    ..COMMON
};

/// Sets the defaults of a claim, on its own or as a template in a StatefulSet.
pub(in crate::kinds) fn defaults(map: &mut Object) {
    spec_defaults(object(map, "spec"));
    fill(object(map, "status"), "phase", "Pending");
}

/// Sets the defaults of the spec of a claim.
pub(in crate::kinds) fn spec_defaults(spec: &mut Object) {
    fill(spec, "volumeMode", "Filesystem");
}

/// Drops a `dataSource` of an unsupported kind, and a `dataSourceRef` to another namespace, which
/// needs a feature gate that is off by default (k8s.io/kubernetes v1.36.4
/// pkg/api/persistentvolumeclaim/util.go).
fn drop_unsupported_source(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let supported = |source: &Value| {
        matches!(
            (text(source, "/apiGroup"), text(source, "/kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if spec.get("dataSource").is_some_and(|it| !supported(it)) {
        spec.remove("dataSource");
    }
    if spec.get("dataSourceRef").is_some_and(|it| !text(it, "/namespace").is_empty()) {
        spec.remove("dataSourceRef");
    }
}

/// Copies the source of a claim from one field to the other, because provisioners read either
/// (`NormalizeDataSources`).
fn normalize_sources(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (set, unset) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        if let Some(source) = spec.get(set).filter(|it| text(it, "/namespace").is_empty()).cloned()
            && !spec.contains_key(unset)
        {
            spec.insert(unset.to_owned(), source);
        }
    }
}

/// Validates a claim.
pub(in crate::kinds) fn claim(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    if items(spec, "/accessModes").is_empty() {
        required(out, "spec.accessModes", "at least 1 access mode is required");
    }
    access_modes(out, spec);
    let modes = items(spec, "/accessModes");
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        forbidden(out, "spec.accessModes", "may not use ReadWriteOncePod with other access modes");
    }
    let class = text(spec, "/storageClassName");
    if !class.is_empty() {
        invalid_string(out, "spec.storageClassName", class, names::subdomain(class));
    }
    let amount = at(spec, "/resources/requests/storage");
    match amount.and_then(Quantity::read) {
        None => required(out, "spec.resources[storage]", ""),
        Some(amount) if amount.is_negative() || amount.is_zero() => {
            let shown = Value::from(amount.canonical());
            invalid(out, "spec.resources[storage]", &shown, "must be greater than zero");
        }
        Some(_) => {}
    }
    if at(spec, "/volumeMode").is_some() {
        one_of(out, spec, "/volumeMode", "spec.volumeMode", &["Block", "Filesystem"]);
    }
    if let (Some(one), Some(two)) = (at(spec, "/dataSource"), at(spec, "/dataSourceRef"))
        && one != two
    {
        out.push(FieldError::with_value("spec", FieldErrorKind::Invalid, "{}", "must match dataSourceRef"));
    }
    for source in ["dataSource", "dataSourceRef"] {
        let Some(from) = at(spec, &format!("/{source}")) else { continue };
        for key in ["name", "kind"] {
            if text(from, &format!("/{key}")).is_empty() {
                required(out, &format!("spec.{source}.{key}"), "");
            }
        }
    }
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    claim(out, new);
    let fixed = |object: &Value| -> Vec<(String, Value)> {
        entries(object, "/spec")
            .filter(|(key, _)| match *key {
                "resources" => text(old, "/status/phase") != "Bound",
                "volumeName" => !text(old, "/spec/volumeName").is_empty(),
                // kube-controller-manager sets the default class of a claim that was created
                // without one (`validateStorageClassUpgradeFromNil` in k8s.io/kubernetes v1.36.4
                // pkg/apis/core/validation/validation.go).
                "storageClassName" => at(old, "/spec/storageClassName").is_some_and(|it| !it.is_null()),
                key => key != "volumeAttributesClassName",
            })
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    };
    if fixed(new) != fixed(old) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        forbidden(out, "spec", detail);
    }
    immutable(out, new, old, "/spec/volumeMode", "volumeMode");
}

/// Returns the warnings about a claim: `GetWarningsForPersistentVolumeClaim` in k8s.io/kubernetes
/// v1.36.4 pkg/api/persistentvolumeclaim/util.go.
fn warnings(claim: &Value) -> Vec<String> {
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let mut warnings = Vec::new();
    if at(claim, "/metadata/annotations").is_some_and(|it| it.get(annotation).is_some()) {
        warnings.push(format!(
            "metadata.annotations[{annotation}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    let amount = at(claim, "/spec/resources/requests/storage").and_then(Quantity::read);
    if let Some(amount) = amount.filter(|it| !it.is_whole()) {
        warnings.push(format!(
            "spec.resources.requests[storage]: fractional byte value \"{}\" is invalid, must be an integer",
            amount.canonical()
        ));
    }
    warnings
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
    let volume = text(object, "/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        let capacity = cells::non_empty_or(text(object, "/status/capacity/storage"), "0").to_owned();
        (capacity, cells::access_modes(object, "/status/accessModes"))
    };
    vec![
        cells::name(object),
        cells::phase(object),
        volume.into(),
        capacity.into(),
        modes.into(),
        cells::storage_class(object),
        cells::unset(object, "/spec/volumeAttributesClassName"),
        age,
        cells::unset(object, "/spec/volumeMode"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_of_a_claim_is_set_once() {
        let claim = |class: Value| {
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"storageClassName": class,
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        };
        for (old, new, is_valid) in [
            (Value::Null, json!("fast"), true),
            (json!("fast"), json!("slow"), false),
            (json!(""), json!("fast"), false),
        ] {
            let mut out = FieldErrors::new();
            validate_update(&mut out, &claim(new.clone()), &claim(old.clone()));
            assert_eq!(out.iter().count() == 0, is_valid, "{old} to {new}");
        }
    }
}
