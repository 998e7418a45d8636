//! Nodes that are always ready, and their leases.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use crate::ApiError;
use crate::cluster::{Cluster, ObjectRef, Writer};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{items, text};

/// The duration of a node lease in seconds: the default of `NodeLeaseDurationSeconds` in
/// k8s.io/kubernetes v1.36.4 pkg/kubelet/apis/config/v1beta1/defaults.go.
const LEASE_SECONDS: u32 = 40;

/// Registers the nodes and renews their leases. Never returns.
pub(super) async fn run(cluster: Arc<Cluster>, count: usize, heartbeat: Option<Duration>) {
    let writer = writer("kubelet", "kubelet");
    for index in 1..=count {
        if let Err(refusal) = register(&cluster, index, &writer).await {
            tracing::warn!(node = index, %refusal, "cannot register a node");
        }
    }
    let Some(period) = heartbeat else { return std::future::pending().await };
    loop {
        for index in 1..=count {
            if let Err(refusal) = renew(&cluster, &name(index), &writer).await {
                tracing::debug!(node = index, %refusal, "cannot renew a lease");
            }
        }
        tokio::time::sleep(period).await;
    }
}

fn name(index: usize) -> String {
    format!("node-{index}")
}

async fn register(cluster: &Cluster, index: usize, writer: &Writer) -> Result<(), ApiError> {
    let kind = builtin(cluster, "", "v1", "nodes");
    let name = name(index);
    let key = ObjectKey::cluster(&name);
    if cluster.get(&kind, &key).is_none() {
        cluster.add(node(index), writer).await?;
    }
    let status = status(index, &cluster.source().stamp());
    let report = |it: &mut Value| {
        let known = it["status"]["nodeInfo"]["kubeletVersion"].as_str().is_some_and(|it| !it.is_empty());
        if !known {
            it["status"] = status.clone();
        }
        !known
    };
    cluster.change(&ObjectRef::of(&kind, &key).part("status"), writer, report).await?;
    cluster.change(&ObjectRef::of(&kind, &key), writer, admit).await?;
    Ok(())
}

/// Removes the taint that keeps pods off a node that is not ready. Returns true if that changed
/// anything.
fn admit(node: &mut Value) -> bool {
    let mut taints = items(node, "/spec/taints").to_vec();
    let before = taints.len();
    taints.retain(|it| text(it, "/key") != "node.kubernetes.io/not-ready");
    let changed = taints.len() < before;
    match node.pointer_mut("/spec").and_then(Value::as_object_mut) {
        Some(spec) if taints.is_empty() => drop(spec.remove("taints")),
        Some(spec) => drop(spec.insert("taints".to_owned(), taints.into())),
        None => {}
    }
    changed
}

/// Returns the zone of a node, one of three.
fn zone(index: usize) -> String {
    format!("zone-{}", char::from(b'a' + u8::try_from((index - 1) % 3).unwrap_or(0)))
}

fn node(index: usize) -> Value {
    let name = name(index);
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": zone(index), "topology.kubernetes.io/region": "region-1" } },
        "spec": { "podCIDR": format!("10.244.{index}.0/24"), "podCIDRs": [format!("10.244.{index}.0/24")] } })
}

fn status(index: usize, now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now })
    };
    let resources = json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110" });
    json!({
        "capacity": resources, "allocatable": resources,
        "addresses": [
            { "type": "InternalIP", "address": address(index) },
            { "type": "Hostname", "address": name(index) },
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated",
            "kernelVersion": "6.0.0-simulated", "containerRuntimeVersion": "simulated://1.0.0",
            "kubeletVersion": "v1.36.4", "kubeProxyVersion": "", "machineID": format!("{index:032x}"),
            "systemUUID": format!("00000000-0000-4000-8000-{index:012x}"),
            "bootID": format!("00000000-0000-4000-8000-{index:012x}"),
        },
    })
}

/// Returns the address of a node, in a network that is not routed.
fn address(index: usize) -> String {
    format!("172.18.{}.{}", (index + 1) / 250, (index + 1) % 250)
}

async fn renew(cluster: &Cluster, node: &str, writer: &Writer) -> Result<(), ApiError> {
    let kind = builtin(cluster, "coordination.k8s.io", "v1", "leases");
    let key = ObjectKey::namespaced("kube-node-lease", node);
    let now = cluster.source().now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({ "holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now });
    let renewed = |it: &mut Value| {
        it["spec"] = spec.clone();
        true
    };
    if cluster.change(&ObjectRef::of(&kind, &key), writer, renewed).await?.is_some() {
        return Ok(());
    }
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": node, "namespace": "kube-node-lease" }, "spec": spec });
    cluster.add(lease, writer).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_node_loses_only_the_not_ready_taint() {
        let not_ready = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
        let mut node =
            json!({ "spec": { "taints": [not_ready, { "key": "mine", "effect": "NoSchedule" }] } });
        assert!(admit(&mut node) && !admit(&mut node));
        assert_eq!(node["spec"]["taints"][0]["key"], "mine");
        let mut node = json!({ "spec": { "taints": [not_ready] } });
        assert!(admit(&mut node));
        assert_eq!(node, json!({ "spec": {} }));
    }

    #[test]
    fn nodes_have_unique_names_and_addresses_and_a_zone() {
        let all: Vec<_> = (1..=4).map(|it| (name(it), zone(it), address(it))).collect();
        assert_eq!(all[0], ("node-1".to_owned(), "zone-a".to_owned(), "172.18.0.2".to_owned()));
        assert_eq!(all[3], ("node-4".to_owned(), "zone-a".to_owned(), "172.18.0.5".to_owned()));
        assert!(address(300) != address(50));
    }
}
