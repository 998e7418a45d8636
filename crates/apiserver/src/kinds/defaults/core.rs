//! Defaults of the kinds of the core group that are not pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::pod::template;
use super::storage::{claim, source};
use super::workloads::status;
use crate::kinds::look::{drop_empty, each, fill, object, object_if_there};
use crate::kinds::quantity::rewrite_all;

type Object = Map<String, Value>;

/// The fields of what a node says about itself; they are always shown.
const NODE_INFO: &[&str] = &[
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

/// Fills in the defaults of a kind of the core group.
pub(super) fn apply(kind: &str, map: &mut Object) {
    match kind {
        "ConfigMap" => drop_empty(map, &["data", "binaryData"]),
        "Secret" => secret(map),
        "Namespace" => namespace(map),
        "Service" => service(map),
        "Endpoints" => endpoints(map),
        "Node" => node(map),
        "PersistentVolume" => volume(map),
        "PersistentVolumeClaim" => claim(map),
        "ServiceAccount" => drop_empty(map, &["secrets", "imagePullSecrets"]),
        "ReplicationController" => replication_controller(map),
        "LimitRange" => limit_range(map),
        "ResourceQuota" => {
            rewrite_all(object(map, "spec"), &["hard"]);
            rewrite_all(object(map, "status"), &["hard", "used"]);
        }
        "Event" => event(map),
        _ => {}
    }
}

fn secret(map: &mut Object) {
    if let Some(Value::Object(plain)) = map.remove("stringData") {
        let data = object(map, "data");
        for (key, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
    drop_empty(map, &["data"]);
    fill(map, "type", "Opaque");
}

fn namespace(map: &mut Object) {
    let meta = object(map, "metadata");
    if let Some(name) = meta.get("name").cloned() {
        object(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
    drop_empty(object(map, "spec"), &["finalizers"]);
    let status = object(map, "status");
    fill(status, "phase", "Active");
    for condition in each(status, "conditions") {
        condition.entry("lastTransitionTime").or_insert(Value::Null);
    }
}

fn service(map: &mut Object) {
    let spec = object(map, "spec");
    drop_empty(
        spec,
        &[
            "ports",
            "selector",
            "externalIPs",
            "loadBalancerIP",
            "loadBalancerSourceRanges",
            "externalName",
            "healthCheckNodePort",
            "publishNotReadyAddresses",
            "clusterIP",
            "clusterIPs",
        ],
    );
    fill(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => drop_key(spec, "sessionAffinityConfig"),
        Some("ClientIP") => {
            fill(object(object(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
        }
        _ => {}
    }
    fill(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        drop_empty(port, &["name", "nodePort"]);
        fill(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|target| target.as_i64() == Some(0) || target.as_str() == Some("")) {
            let own = port.get("port").cloned().unwrap_or(0.into());
            port.insert("targetPort".to_owned(), own);
        }
    }
    let service_type = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let balanced = service_type == "LoadBalancer";
    let reachable = balanced
        || service_type == "NodePort"
        || (service_type == "ClusterIP" && spec.contains_key("externalIPs"));
    if reachable {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(service_type.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    let ingress = object(object(map, "status"), "loadBalancer");
    for point in each(ingress, "ingress").filter(|point| balanced && point.contains_key("ip")) {
        fill(point, "ipMode", "VIP");
    }
}

fn drop_key(map: &mut Object, key: &str) {
    map.remove(key);
}

fn endpoints(map: &mut Object) {
    drop_empty(map, &["subsets"]);
    for subset in each(map, "subsets") {
        drop_empty(subset, &["addresses", "notReadyAddresses", "ports"]);
        each(subset, "ports").for_each(|port| fill(port, "protocol", "TCP"));
    }
}

fn node(map: &mut Object) {
    let spec = object(map, "spec");
    drop_empty(spec, &["podCIDR", "podCIDRs", "providerID", "unschedulable", "taints"]);
    if let Some(range) = spec.get("podCIDR").cloned() {
        spec.entry("podCIDRs").or_insert_with(|| json!([range]));
    }
    let node_status = object(map, "status");
    rewrite_all(node_status, &["capacity", "allocatable"]);
    if let Some(capacity) = node_status.get("capacity").cloned() {
        node_status.entry("allocatable").or_insert(capacity);
    }
    object(object(node_status, "daemonEndpoints"), "kubeletEndpoint").entry("Port").or_insert(0.into());
    for condition in each(node_status, "conditions") {
        for key in ["lastHeartbeatTime", "lastTransitionTime"] {
            condition.entry(key).or_insert(Value::Null);
        }
    }
    let info = object(node_status, "nodeInfo");
    for key in NODE_INFO {
        info.entry(*key).or_insert("".into());
    }
}

fn volume(map: &mut Object) {
    let spec = object(map, "spec");
    source(spec);
    drop_empty(spec, &["storageClassName", "mountOptions", "accessModes"]);
    rewrite_all(spec, &["capacity"]);
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    fill(object(map, "status"), "phase", "Pending");
}

fn replication_controller(map: &mut Object) {
    let labels = map.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())) {
        object(map, "metadata").entry("labels").or_insert(labels.clone());
        let spec = object(map, "spec");
        drop_empty(spec, &["selector"]);
        spec.entry("selector").or_insert(labels);
    }
    let spec = object(map, "spec");
    drop_empty(spec, &["minReadySeconds"]);
    fill(spec, "replicas", 1);
    if let Some(found) = object_if_there(spec, "template") {
        template(found);
    }
    status(map, json!({"replicas": 0}));
}

fn limit_range(map: &mut Object) {
    let spec = object(map, "spec");
    spec.entry("limits").or_insert(Value::Null);
    for limit in each(spec, "limits") {
        rewrite_all(limit, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
        if limit.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(known) = limit.get(from).and_then(Value::as_object).cloned() else { continue };
            let filled = object(limit, to);
            for (name, value) in known {
                filled.entry(name).or_insert(value);
            }
        }
    }
}

fn event(map: &mut Object) {
    drop_empty(map, &["reason", "message", "type", "count", "action"]);
    object(map, "involvedObject");
    drop_empty(object(map, "source"), &["component", "host"]);
    for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        map.entry(key).or_insert(Value::Null);
    }
    for key in ["reportingComponent", "reportingInstance"] {
        map.entry(key).or_insert("".into());
    }
}

/// An event of the newer group, before it is translated.
pub(super) fn new_event(map: &mut Object) {
    map.entry("eventTime").or_insert(Value::Null);
}
