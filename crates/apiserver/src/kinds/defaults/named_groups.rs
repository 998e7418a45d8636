//! Defaults of the kinds outside the core group that run no pods.

use serde_json::{Map, Value, json};

use crate::kinds::json_access::{each, fill, fill_zero, object, object_if_present};

type Object = Map<String, Value>;

/// Annotations in which autoscalers of version 1 keep what version 2 has fields for.
const OF_OLD_AUTOSCALERS: [&str; 4] = [
    "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/conditions",
];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Sets the defaults of a kind.
pub(super) fn apply(group: &str, version: &str, kind: &str, map: &mut Object) {
    match (group, kind) {
        ("networking.k8s.io", "IngressClass") => ingress_class(map),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(map),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(map),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(version, map),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => binding(map),
        ("storage.k8s.io", "StorageClass") => {
            fill(map, "reclaimPolicy", "Delete");
            fill(map, "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(map),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            fill_zero(object(map, "spec"), "matchingPrecedence", 1000)
        }
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => priority_level(object(map, "spec")),
        ("resource.k8s.io", "ResourceClaim") => requested_devices(object(map, "spec")),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            requested_devices(object(object(map, "spec"), "spec"));
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            fill(map, "preemptionPolicy", "PreemptLowerPriority");
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => {
            each(map, "webhooks").for_each(|it| webhook(it, kind.starts_with("Mutating")));
        }
        _ => {}
    }
}

fn requested_devices(spec: &mut Object) {
    let fill_request = |request: &mut Object| {
        fill(request, "allocationMode", "ExactCount");
        if request.get("allocationMode").is_some_and(|it| it == "ExactCount") {
            fill_zero(request, "count", 1);
        }
    };
    let Some(devices) = object_if_present(spec, "devices") else { return };
    for request in each(devices, "requests") {
        if let Some(exact) = object_if_present(request, "exactly") {
            fill_request(exact);
        }
        each(request, "firstAvailable").for_each(fill_request);
    }
}

fn priority_level(spec: &mut Object) {
    if let Some(exempt) = object_if_present(spec, "exempt") {
        fill(exempt, "nominalConcurrencyShares", 0);
        fill(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = object_if_present(spec, "limited") {
        fill(limited, "nominalConcurrencyShares", 30);
        fill(limited, "lendablePercent", 0);
        let queuing =
            object_if_present(limited, "limitResponse").and_then(|it| object_if_present(it, "queuing"));
        if let Some(queuing) = queuing {
            fill_zero(queuing, "handSize", 8);
            fill_zero(queuing, "queues", 64);
            fill_zero(queuing, "queueLengthLimit", 50);
        }
    }
}

fn webhook(webhook: &mut Object, mutating: bool) {
    fill(webhook, "failurePolicy", "Fail");
    fill(webhook, "matchPolicy", "Equivalent");
    fill(webhook, "namespaceSelector", json!({}));
    fill(webhook, "objectSelector", json!({}));
    fill(webhook, "timeoutSeconds", 10);
    if mutating {
        fill(webhook, "reinvocationPolicy", "Never");
    }
    each(webhook, "rules").for_each(|it| fill(it, "scope", "*"));
    if let Some(service) = object_if_present(object(webhook, "clientConfig"), "service") {
        fill(service, "port", 443);
    }
}

fn ingress_class(map: &mut Object) {
    if let Some(parameters) = object_if_present(object(map, "spec"), "parameters") {
        fill(parameters, "scope", "Cluster");
    }
}

fn network_policy(map: &mut Object) {
    let spec = object(map, "spec");
    for list in ["ingress", "egress"] {
        for rule in each(spec, list) {
            each(rule, "ports").for_each(|port| fill(port, "protocol", "TCP"));
        }
    }
    if !spec.contains_key("policyTypes") {
        let types =
            if spec.contains_key("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}

fn endpoint_slice(map: &mut Object) {
    for port in each(map, "ports") {
        port.entry("name").or_insert("".into());
        fill(port, "protocol", "TCP");
    }
}

fn autoscaler(version: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "minReplicas", 1);
    if version == "v1" {
        return;
    }
    // In version 2 these annotations have no meaning, because it has fields for what they hold, and
    // are never kept.
    let metadata = object(map, "metadata");
    if let Some(annotations) = object_if_present(metadata, "annotations") {
        let before = annotations.len();
        annotations.retain(|name, _| !OF_OLD_AUTOSCALERS.contains(&name.as_str()));
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
    }
    let spec = object(map, "spec");
    spec.entry("metrics").or_insert_with(|| {
        json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}])
    });
    if let Some(behavior) = object_if_present(spec, "behavior") {
        let up = object(behavior, "scaleUp");
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        up.entry("policies").or_insert_with(|| {
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                   {"type": "Percent", "value": 100, "periodSeconds": 15}])
        });
        let down = object(behavior, "scaleDown");
        fill(down, "selectPolicy", "Max");
        down.entry("policies")
            .or_insert_with(|| json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

fn binding(map: &mut Object) {
    fill(object(map, "roleRef"), "apiGroup", RBAC);
    for subject in each(map, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill(subject, "apiGroup", RBAC);
        }
    }
}

fn csi_driver(map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "attachRequired", true);
    for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, key, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    spec.entry("volumeLifecycleModes").or_insert_with(|| json!(["Persistent"]));
}
