//! Defaults of the kinds of the core group other than pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::pod::template;
use super::storage::{claim, source};
use crate::kinds::json_access::{each, fill, object, object_if_present};

type Object = Map<String, Value>;

/// Sets the defaults of a kind of the core group.
pub(super) fn apply(kind: &str, map: &mut Object) {
    match kind {
        "Secret" => secret(map),
        "Namespace" => namespace(map),
        "Service" => service(map),
        "Endpoints" => endpoints(map),
        "Node" => node(map),
        "PersistentVolume" => volume(map),
        "PersistentVolumeClaim" => claim(map),
        "ReplicationController" => replication_controller(map),
        "LimitRange" => limit_range(map),
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
    fill(map, "type", "Opaque");
}

fn namespace(map: &mut Object) {
    let meta = object(map, "metadata");
    if let Some(name) = meta.get("name").cloned() {
        object(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
    fill(object(map, "status"), "phase", "Active");
}

fn service(map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            fill(object(object(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
        }
        _ => {}
    }
    fill(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
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

fn endpoints(map: &mut Object) {
    for subset in each(map, "subsets") {
        each(subset, "ports").for_each(|port| fill(port, "protocol", "TCP"));
    }
}

fn node(map: &mut Object) {
    let spec = object(map, "spec");
    if let Some(range) = spec.get("podCIDR").cloned()
        && spec.get("podCIDRs").and_then(|all| all.get(0)) != Some(&range)
    {
        spec.insert("podCIDRs".to_owned(), json!([range]));
    }
    let node_status = object(map, "status");
    if let Some(capacity) = node_status.get("capacity").cloned() {
        node_status.entry("allocatable").or_insert(capacity);
    }
}

fn volume(map: &mut Object) {
    let spec = object(map, "spec");
    source(spec);
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    fill(object(map, "status"), "phase", "Pending");
}

fn replication_controller(map: &mut Object) {
    let labels = map.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())) {
        object(map, "metadata").entry("labels").or_insert(labels.clone());
        let spec = object(map, "spec");
        spec.entry("selector").or_insert(labels);
    }
    let spec = object(map, "spec");
    fill(spec, "replicas", 1);
    if let Some(found) = object_if_present(spec, "template") {
        template(found);
    }
}

fn limit_range(map: &mut Object) {
    let spec = object(map, "spec");
    for limit in each(spec, "limits") {
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
