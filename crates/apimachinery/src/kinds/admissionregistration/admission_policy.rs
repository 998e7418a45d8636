//! Admission policies and their bindings, validating and mutating.
//!
//! Their validation compiles expressions, so it is in `admission_policy/check.rs`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::policy_status;
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, each, fill, items, object, object_if_present, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

/// The rules of the kind ValidatingAdmissionPolicy.
pub static VALIDATING_POLICY: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| default_policy(map),
    validate_status: |out, policy, _| policy_status::validate(out, policy),
    cells: |object, now| policy(object, "/spec/validations", now),
    ..COMMON
};

/// The rules of the kind ValidatingAdmissionPolicyBinding.
pub static VALIDATING_BINDING: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| default_binding(map),
    cells: binding,
    ..COMMON
};

/// The rules of the kind MutatingAdmissionPolicy.
pub static MUTATING_POLICY: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "MutatingAdmissionPolicy",
    plural: "mutatingadmissionpolicies",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| default_policy(map),
    cells: |object, now| policy(object, "/spec/mutations", now),
    storage_version: Some("v1beta1"),
    ..COMMON
};

/// The rules of the kind MutatingAdmissionPolicyBinding.
pub static MUTATING_BINDING: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "MutatingAdmissionPolicyBinding",
    plural: "mutatingadmissionpolicybindings",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| default_binding(map),
    cells: binding,
    storage_version: Some("v1beta1"),
    ..COMMON
};

fn default_policy(policy: &mut Object) {
    let spec = object(policy, "spec");
    fill(spec, "failurePolicy", "Fail");
    if let Some(resources) = object_if_present(spec, "matchConstraints") {
        default_resources(resources);
    }
}

fn default_binding(binding: &mut Object) {
    if let Some(resources) = object_if_present(object(binding, "spec"), "matchResources") {
        default_resources(resources);
    }
}

fn default_resources(resources: &mut Object) {
    fill(resources, "matchPolicy", "Equivalent");
    fill(resources, "namespaceSelector", json!({}));
    fill(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list).for_each(|it| fill(it, "scope", "*"));
    }
}

fn policy(object: &Value, list: &str, now: Timestamp) -> Vec<Value> {
    let kind = match at(object, "/spec/paramKind") {
        None => "<unset>".to_owned(),
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
    };
    let count = items(object, list).len().into();
    vec![cells::name(object), count, kind.into(), age::since_creation(object, now)]
}

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let reference = match at(object, "/spec/paramRef") {
        None => "<unset>".to_owned(),
        Some(of) if text(of, "/namespace").is_empty() => format!("*/{}", text(of, "/name")),
        Some(of) => format!("{}/{}", text(of, "/namespace"), text(of, "/name")),
    };
    let policy = text(object, "/spec/policyName").into();
    vec![cells::name(object), policy, reference.into(), age::since_creation(object, now)]
}
