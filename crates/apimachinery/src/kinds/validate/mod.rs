//! Validation of objects, with the messages of k8s.io/kubernetes v1.36.4
//! pkg/apis/core/validation/validation.go: the parts that several kinds share.
//!
//! Metadata is validated for every kind, the rest for the most common kinds, in the files of these
//! kinds. All problems of an object are reported. Objects must have been defaulted and prepared
//! before. Resource versions and preconditions are not checked here, but before.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod check;
pub mod field_manager;
pub mod metadata;
pub(crate) mod selector;
pub(super) mod volume;
pub(super) mod status;
pub(super) mod limits;

use serde_json::Value;

use crate::FieldErrors;
use crate::kinds::rules::KindRules;

/// Validates a new object.
pub fn create(rules: &KindRules, namespaced: bool, object: &Value) -> FieldErrors {
    let mut out = metadata::create(rules, namespaced, object);
    (rules.validate_create)(&mut out, object);
    out
}

/// Validates an object whose status has changed.
pub fn update_status(rules: &KindRules, new: &Value, old: &Value) -> FieldErrors {
    let mut out = metadata::update(rules, new, old);
    (rules.validate_status)(&mut out, new, old);
    out
}

/// Validates the new state of an object. A problem may occur more than once, as in the causes of
/// kube-apiserver.
pub fn update(rules: &KindRules, new: &Value, old: &Value) -> FieldErrors {
    let mut out = metadata::update(rules, new, old);
    match rules.validate_update {
        Some(validate) => validate(&mut out, new, old),
        None => (rules.validate_create)(&mut out, new),
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::index::of_kind;

    fn found((group, kind): (&str, &str), new: &Value, old: Option<&Value>) -> Vec<String> {
        let (rules, mut out) = (of_kind(group, kind), FieldErrors::new());
        match old {
            None => (rules.validate_create)(&mut out, new),
            Some(old) => (rules.validate_update.expect("updates have rules"))(&mut out, new, old),
        }
        out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn problems_have_the_messages_of_kube_apiserver() {
        for (kind, object, problem) in [
            (
                ("networking.k8s.io", "IngressClass"),
                json!({"spec": {"controller": "noslash"}}),
                "spec.controller: Invalid value: \"noslash\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ),
            (
                ("storage.k8s.io", "CSINode"),
                json!({"spec": {"drivers": [{"name": "d", "nodeID": ""}]}}),
                "spec.drivers[0].nodeID: Required value",
            ),
            (
                ("", "Node"),
                json!({"spec": {"taints": [{"key": "a", "effect": "X"}]}}),
                "metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
            ),
            (
                ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
                json!({"spec": {"type": "Limited", "limited": {}}}),
                "spec.limited.limitResponse.type: Required value",
            ),
        ] {
            assert_eq!(found(kind, &object, None), [problem]);
        }
    }

    #[test]
    fn immutable_fields_cannot_change() {
        let node = |range: &str| json!({"spec": {"podCIDRs": [range]}});
        assert!(found(("", "Node"), &node("10.0.0.0/24"), Some(&json!({"spec": {}}))).is_empty());
        assert_eq!(
            found(("", "Node"), &node("10.2.0.0/24"), Some(&node("10.1.0.0/24"))),
            ["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"]
        );
        let attached = |node: &str| json!({"spec": {"attacher": "a", "nodeName": node, "source": {"persistentVolumeName": "p"}}});
        assert_eq!(
            found(("storage.k8s.io", "VolumeAttachment"), &attached("m"), Some(&attached("n"))),
            ["spec: Invalid value: {\"Attacher\":\"a\",\"Source\":{\"PersistentVolumeName\":\"p\",\
              \"InlineVolumeSpec\":null},\"NodeName\":\"m\"}: field is immutable"]
        );
    }
}
