//! Defaults of the kinds outside the core group that run no pods.

use serde_json::{Map, Value, json};

use super::workloads::status;
use crate::kinds::look::{drop_empty, each, fill, object, object_if_there};

type Object = Map<String, Value>;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Fills in the defaults of a kind.
pub(super) fn apply(group: &str, version: &str, kind: &str, map: &mut Object) {
    match (group, kind) {
        ("networking.k8s.io", "Ingress") => ingress(map),
        ("networking.k8s.io", "IngressClass") => ingress_class(map),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(map),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(map),
        ("coordination.k8s.io", "Lease") => {
            object(map, "spec");
        }
        ("policy", "PodDisruptionBudget") => {
            object(map, "spec");
            status(
                map,
                json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
            );
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(version, map),
        (RBAC, "Role" | "ClusterRole") => {
            for rule in each(map, "rules") {
                drop_empty(rule, &["apiGroups", "resources", "resourceNames", "nonResourceURLs"]);
            }
            null_where_empty(map, "rules");
        }
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => binding(map),
        ("storage.k8s.io", "StorageClass") => {
            drop_empty(map, &["parameters", "mountOptions", "allowedTopologies"]);
            fill(map, "reclaimPolicy", "Delete");
            fill(map, "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(map),
        ("storage.k8s.io", "CSINode") => null_where_empty(object(map, "spec"), "drivers"),
        ("storage.k8s.io", "VolumeAttachment") => {
            object(object(map, "spec"), "source");
            status(map, json!({"attached": false}));
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            drop_empty(map, &["globalDefault", "description"]);
            map.entry("value").or_insert(0.into());
            fill(map, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("node.k8s.io", "RuntimeClass") => {
            map.entry("handler").or_insert("".into());
        }
        _ => {}
    }
}

/// A list that is shown as null where it has no items.
fn null_where_empty(map: &mut Object, key: &str) {
    drop_empty(map, &[key]);
    map.entry(key).or_insert(Value::Null);
}

fn ingress(map: &mut Object) {
    let spec = object(map, "spec");
    drop_empty(spec, &["tls", "rules"]);
    if let Some(found) = object_if_there(spec, "defaultBackend") {
        backend(found);
    }
    for rule in each(spec, "rules") {
        drop_empty(rule, &["host"]);
        let Some(http) = object_if_there(rule, "http") else { continue };
        for path in each(http, "paths") {
            drop_empty(path, &["path"]);
            backend(object(path, "backend"));
        }
    }
    object(object(map, "status"), "loadBalancer");
}

fn backend(backend: &mut Object) {
    if let Some(service) = object_if_there(backend, "service") {
        drop_empty(object(service, "port"), &["name", "number"]);
    }
}

fn ingress_class(map: &mut Object) {
    if let Some(parameters) = object_if_there(object(map, "spec"), "parameters") {
        fill(parameters, "scope", "Cluster");
    }
}

fn network_policy(map: &mut Object) {
    let spec = object(map, "spec");
    drop_empty(object(spec, "podSelector"), &["matchLabels", "matchExpressions"]);
    drop_empty(spec, &["ingress", "egress", "policyTypes"]);
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
    for endpoint in each(map, "endpoints") {
        object(endpoint, "conditions");
    }
    for port in each(map, "ports") {
        port.entry("name").or_insert("".into());
        fill(port, "protocol", "TCP");
    }
    null_where_empty(map, "endpoints");
    null_where_empty(map, "ports");
    map.entry("addressType").or_insert("".into());
}

fn autoscaler(version: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "minReplicas", 1);
    if version == "v1" {
        status(map, json!({"currentReplicas": 0, "desiredReplicas": 0}));
        return;
    }
    drop_empty(spec, &["metrics"]);
    spec.entry("metrics").or_insert_with(|| {
        json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}])
    });
    if let Some(behavior) = object_if_there(spec, "behavior") {
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
    status(map, json!({"desiredReplicas": 0, "currentMetrics": null}));
}

fn binding(map: &mut Object) {
    drop_empty(map, &["subjects"]);
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
    drop_empty(spec, &["volumeLifecycleModes"]);
    spec.entry("volumeLifecycleModes").or_insert_with(|| json!(["Persistent"]));
}
