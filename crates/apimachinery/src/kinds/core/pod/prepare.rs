//! The fields of a pod that the server sets: its status and the QoS class in it.

use serde_json::{Value, json};

use super::app_armor;
use crate::kinds::json_access::{at, items, object, text};
use crate::kinds::prepare::copy;
use crate::kinds::quantity::Quantity;

/// Prepares a new pod.
pub(super) fn new_pod(pod: &mut Value, now: &str) {
    app_armor::fill(pod);
    let qos = qos_class(pod);
    let Some(map) = pod.as_object_mut() else { return };
    let spec = object(map, "spec");
    // As in k8s.io/kubernetes v1.36.4 pkg/apis/core/v1/conversion.go, a negative grace period means
    // one second.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|it| it < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    let gated = spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let status = object(map, "status");
    status.insert("phase".to_owned(), "Pending".into());
    status.insert("qosClass".to_owned(), qos.into());
    if gated {
        let condition = json!({"type": "PodScheduled", "status": "False",
            "lastProbeTime": null, "lastTransitionTime": now, "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"});
        status.insert("conditions".to_owned(), json!([condition]));
    }
}

/// Keeps the QoS class of a pod if a write to its status leaves it out.
pub(super) fn keep_qos_class(stored: &mut Value, old: &Value) {
    if text(stored, "/status/qosClass").is_empty() {
        let class = at(old, "/status/qosClass").cloned();
        if let (Some(class), Some(map)) = (class, stored.as_object_mut()) {
            object(map, "status").insert("qosClass".to_owned(), class);
        }
    }
}

/// Reduces a write to the subresource `ephemeralcontainers` or `resize` of a pod to the fields of
/// that subresource; all other fields keep their old values.
pub fn only_part(part: &str, new: &mut Value, old: &Value) {
    let mut spec = old["spec"].clone();
    let names = |pod: &Value| {
        ["containers", "initContainers"].map(|list| {
            let containers = items(pod, &format!("/spec/{list}")).iter();
            containers.map(|it| text(it, "/name").to_owned()).collect::<Vec<_>>()
        })
    };
    match part {
        "ephemeralcontainers" => match new.pointer("/spec/ephemeralContainers") {
            Some(containers) => spec["ephemeralContainers"] = containers.clone(),
            None => drop(spec.as_object_mut().map(|it| it.remove("ephemeralContainers"))),
        },
        // Validation rejects containers that were added, removed, renamed or moved.
        "resize" if names(new) != names(old) => return,
        "resize" => {
            for list in ["containers", "initContainers"] {
                // Both have the same containers in the same order.
                let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
                for (container, wanted) in containers.zip(items(new, &format!("/spec/{list}"))) {
                    for field in ["resources", "resizePolicy"] {
                        copy(container, wanted, field);
                    }
                }
            }
            copy(&mut spec, &new["spec"], "resources");
        }
        _ => return,
    }
    new["spec"] = spec;
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        copy(&mut new["metadata"], &old["metadata"], field);
    }
}

/// Returns the QoS class of a pod, computed from its own requests and limits if it has any, and
/// from those of its containers otherwise (`ComputePodQOS` in k8s.io/kubernetes v1.36.4
/// pkg/apis/core/helper/qos/qos.go).
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let spec = at(pod, "/spec").filter(|it| at(it, "/resources").is_some());
    let containers = || items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"));
    let amount = |holder: &Value, list: &str, name: &str| {
        let pointer = format!("/resources/{list}/{name}");
        at(holder, &pointer).and_then(Quantity::read).filter(|amount| !amount.is_zero())
    };
    let mut any = false;
    let mut all = true;
    for holder in spec.into_iter().chain(containers().filter(|_| spec.is_none())) {
        for name in ["cpu", "memory"] {
            let limit = amount(holder, "limits", name);
            let request = amount(holder, "requests", name);
            any |= limit.is_some() || request.is_some();
            // A request of zero counts as none, so it is not the limit.
            all &= limit.zip(request).is_some_and(|(limit, request)| request.equals(limit));
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
