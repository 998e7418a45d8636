//! Validation of the status of workloads: negative numbers, and counts that exceed the number of
//! replicas.

use serde_json::Value;

use super::check::{FieldErrors, forbidden, immutable};
use crate::kinds::json_access::{at, items, number, text};
use crate::{FieldError, FieldErrorKind};

/// Returns the numbers in the status of a kind, and those of them that count a part of the
/// replicas.
fn numbers(group: &str, kind: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match (group, kind) {
        ("apps", "Deployment") => (
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => (
            &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        ("apps", "StatefulSet") => (
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        ),
        ("apps", "DaemonSet") => (
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            &[],
        ),
        ("autoscaling", "HorizontalPodAutoscaler") => (&["currentReplicas", "desiredReplicas"], &[]),
        ("batch", "Job") => (&["active", "succeeded", "failed"], &[]),
        _ => return None,
    })
}

/// Validates a changed status.
pub(super) fn update(out: &mut FieldErrors, group: &str, kind: &str, object: &Value, old: &Value) {
    if (group, kind) == ("", "Service")
        && text(object, "/spec/type") != "LoadBalancer"
        && !items(object, "/status/loadBalancer/ingress").is_empty()
    {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        forbidden(out, "status.loadBalancer.ingress", detail);
    }
    match (group, kind) {
        ("", "Namespace") => return namespace(out, object),
        ("", "Pod") => return immutable(out, object, old, "/status/qosClass", "status.qosClass"),
        _ => {}
    }
    let Some((all, parts)) = numbers(group, kind) else { return };
    let value = |name: &str| number(object, &format!("/status/{name}")).unwrap_or(0);
    let mut report = |name: &str, why: &str| {
        out.push(FieldError::with_value(format!("status.{name}"), FieldErrorKind::Invalid, value(name), why));
    };
    for name in all.iter().filter(|name| value(name) < 0) {
        report(name, "must be greater than or equal to 0");
    }
    for name in parts.iter().filter(|name| value(name) > value("replicas")) {
        report(name, "cannot be greater than status.replicas");
    }
    if parts.contains(&"availableReplicas") && value("availableReplicas") > value("readyReplicas") {
        report("availableReplicas", "cannot be greater than readyReplicas");
    }
}

/// Checks the phase of a namespace: active until it is deleted, terminating from then on.
fn namespace(out: &mut FieldErrors, object: &Value) {
    let (wanted, held) = match at(object, "/metadata/deletionTimestamp") {
        None => ("Active", "empty"),
        Some(_) => ("Terminating", "not empty"),
    };
    let phase = text(object, "/status/phase");
    if phase != wanted {
        let why = format!("may only be '{wanted}' if `deletionTimestamp` is {held}");
        // The capital letter is that of k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go.
        out.push(FieldError::with_value(
            "status.Phase",
            FieldErrorKind::Invalid,
            format_args!("{phase:?}"),
            &why,
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_not_negative_and_parts_do_not_exceed_the_whole() {
        let found = |status: Value| {
            let mut out = FieldErrors::default();
            update(&mut out, "apps", "Deployment", &json!({ "status": status }), &json!({}));
            out.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found(json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 1 })).is_empty());
        assert_eq!(
            found(json!({ "replicas": -1, "readyReplicas": 1 })),
            [
                "status.replicas: Invalid value: -1: must be greater than or equal to 0",
                "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
                "status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
            ]
        );
    }
}
