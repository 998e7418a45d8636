//! Admission policies and their bindings, validating and mutating. They are stored but not
//! enforced.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, items, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

/// The rules of the kind ValidatingAdmissionPolicy.
pub(crate) static VALIDATING_POLICY: KindRules = KindRules {
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
    cells: |object, now| policy(object, "/spec/validations", now),
    counterpart: Some("validatingadmissionpolicybindings"),
    ..COMMON
};

/// The rules of the kind ValidatingAdmissionPolicyBinding.
pub(crate) static VALIDATING_BINDING: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    cells: binding,
    counterpart: Some("validatingadmissionpolicies"),
    ..COMMON
};

/// The rules of the kind MutatingAdmissionPolicy.
pub(crate) static MUTATING_POLICY: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "MutatingAdmissionPolicy",
    plural: "mutatingadmissionpolicies",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    cells: |object, now| policy(object, "/spec/mutations", now),
    storage_version: Some("v1beta1"),
    counterpart: Some("mutatingadmissionpolicybindings"),
    ..COMMON
};

/// The rules of the kind MutatingAdmissionPolicyBinding.
pub(crate) static MUTATING_BINDING: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "MutatingAdmissionPolicyBinding",
    plural: "mutatingadmissionpolicybindings",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    cells: binding,
    storage_version: Some("v1beta1"),
    counterpart: Some("mutatingadmissionpolicies"),
    ..COMMON
};

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
