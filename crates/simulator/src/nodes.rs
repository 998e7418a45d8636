//! Nodes that are always ready, and their leases.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{BoxError, Context};
use dogwatch_core::ObjectKey;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::environment::Environment;
use crate::json_access::{items, text};
use crate::object::JsonObject;
use crate::supervise::Startup;

/// The name of the component.
pub(crate) const NAME: &str = "nodes";

/// The duration of a node lease in seconds: the default of `NodeLeaseDurationSeconds` in
/// k8s.io/kubernetes v1.36.4 pkg/kubelet/apis/config/v1beta1/defaults.go.
const LEASE_SECONDS: u32 = 40;

/// Registers nodes and renews their leases.
#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: Collection<JsonObject>,
    leases: Collection<JsonObject>,
    environment: Arc<Environment>,
    /// The port of the server with the kubelet's API on this machine, if there is one.
    kubelet_port: Option<u16>,
}

impl Nodes {
    pub(crate) fn new(caches: &Caches, environment: &Arc<Environment>, kubelet_port: Option<u16>) -> Self {
        Self {
            nodes: caches.nodes.get(),
            leases: caches.leases.get(),
            environment: Arc::clone(environment),
            kubelet_port,
        }
    }

    /// Registers the nodes and renews their leases. Sets `registered` after the first attempt to
    /// register each of them. Returns only if a node cannot be registered.
    pub(crate) async fn run(
        self,
        count: usize,
        heartbeat: Option<Duration>,
        registered: watch::Sender<bool>,
        startup: Startup,
    ) -> Result<(), BoxError> {
        let (mut failed, mut present) = (None, Vec::new());
        for index in 1..=count {
            match self.register(index).await {
                Ok(()) => present.push(index),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        registered.send_replace(true);
        if failed.is_none() {
            startup.complete();
        }
        loop {
            if heartbeat.is_some() {
                self.renew_all(&present).await;
            }
            // The restart after the error tries again, and its delay is shorter than a lease.
            match (failed, heartbeat) {
                (Some(error), _) => return Err(error.into()),
                (None, Some(period)) => tokio::time::sleep(period).await,
                (None, None) => return std::future::pending().await,
            }
            failed = None;
        }
    }

    async fn renew_all(&self, nodes: &[usize]) {
        for index in nodes {
            if let Err(error) = self.beat(*index).await {
                tracing::debug!(node = index, %error, "cannot report a heartbeat");
            }
        }
    }

    async fn register(&self, index: usize) -> Result<(), Error> {
        let (context, key) = (Context::detached(), ObjectKey::cluster(&name(index)));
        let writer = Writer { manager: "kubelet", context: &context };
        if self.nodes.live(&key).await?.is_none() {
            self.nodes.create(node(index), writer).await?;
        }
        let status = status(index, &self.environment.stamp(), self.kubelet_port);
        let report = |it: &mut Value| {
            let known = it["status"]["nodeInfo"]["kubeletVersion"].as_str().is_some_and(|it| !it.is_empty());
            if known {
                let is_moved = self.kubelet_port.is_some() && move_endpoint(it, &status);
                return restore(it, &status) || is_moved;
            }
            it["status"] = status.clone();
            true
        };
        self.nodes.change_live(&key, "status", writer, report).await?;
        self.nodes.change_live(&key, "", writer, admit).await?;
        Ok(())
    }

    /// Renews the lease of a node, and then reports the node as ready again if its lease had
    /// expired.
    async fn beat(&self, index: usize) -> Result<(), Error> {
        self.renew(&name(index)).await?;
        let (context, key) = (Context::detached(), ObjectKey::cluster(&name(index)));
        let writer = Writer { manager: "kubelet", context: &context };
        let status = status(index, &self.environment.stamp(), self.kubelet_port);
        self.nodes.change(&key, "status", writer, |it| restore(it, &status)).await?;
        Ok(())
    }

    async fn renew(&self, node: &str) -> Result<(), Error> {
        let (context, key) = (Context::detached(), ObjectKey::namespaced("kube-node-lease", node));
        let writer = Writer { manager: "kubelet", context: &context };
        let now = self.environment.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let spec = json!({ "holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now });
        let renewed = |it: &mut Value| {
            it["spec"] = spec.clone();
            true
        };
        if self.leases.change_live(&key, "", writer, renewed).await?.is_some() {
            return Ok(());
        }
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": node, "namespace": "kube-node-lease" }, "spec": spec });
        self.leases.create(lease, writer).await?;
        Ok(())
    }
}

fn name(index: usize) -> String {
    format!("node-{index}")
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

/// Sets the conditions of a node back that the node lifecycle controller has set to `Unknown`
/// because no heartbeat had come in time (`tryUpdateNodeHealth` in k8s.io/kubernetes v1.36.4
/// pkg/controller/nodelifecycle/node_lifecycle_controller.go). `status` is the one that the kubelet
/// reports; conditions of other clients stay. Returns true if that changed anything.
fn restore(node: &mut Value, status: &Value) -> bool {
    let conditions = node.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let mut changed = false;
    for condition in conditions.into_iter().flatten() {
        let is_lost = text(condition, "/status") == "Unknown"
            && matches!(text(condition, "/reason"), "NodeStatusUnknown" | "NodeStatusNeverUpdated");
        let mut reported = items(status, "/conditions").iter();
        let reported = reported.find(|it| text(it, "/type") == text(condition, "/type"));
        if let Some(reported) = reported.filter(|_| is_lost) {
            condition.clone_from(reported);
            changed = true;
        }
    }
    changed
}

/// Sets the addresses and the port of the kubelet, which an earlier simulator on the same API
/// server had elsewhere. Returns true if that changed anything.
fn move_endpoint(node: &mut Value, status: &Value) -> bool {
    let mut changed = false;
    for field in ["addresses", "daemonEndpoints"] {
        if node["status"][field] != status[field] {
            node["status"][field] = status[field].clone();
            changed = true;
        }
    }
    changed
}

/// Returns the zone of a node, one of three.
fn zone(index: usize) -> String {
    format!("zone-{}", char::from(b'a' + u8::try_from((index - 1) % 3).unwrap_or(0)))
}

/// Returns the range of addresses for the pods of a node. The first 255 nodes have those of a
/// cluster that kubeadm sets up; from 16,384 nodes on, nodes share ranges.
fn pod_range(index: usize) -> String {
    let [high, low] = u16::try_from(index).unwrap_or(u16::MAX).to_be_bytes();
    if high == 0 { format!("10.244.{low}.0/24") } else { format!("10.{}.{low}.0/24", high % 64) }
}

fn node(index: usize) -> Value {
    let name = name(index);
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": zone(index), "topology.kubernetes.io/region": "region-1" } },
        "spec": { "podCIDR": pod_range(index), "podCIDRs": [pod_range(index)] } })
}

/// Returns the status of a node. `kubelet_port` is that of a server on this machine: then the host
/// name is its address, because kube-apiserver tries addresses of this type first
/// (`--kubelet-preferred-address-types`, k8s.io/kubernetes v1.36.4
/// pkg/controlplane/apiserver/options/options.go), and the internal address stays that of the pods'
/// hosts.
fn status(index: usize, now: &str, kubelet_port: Option<u16>) -> Value {
    let host = if kubelet_port.is_some() { "127.0.0.1".to_owned() } else { name(index) };
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now })
    };
    let resources = json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110" });
    json!({
        "capacity": resources, "allocatable": resources,
        "addresses": [
            { "type": "InternalIP", "address": address(index) },
            { "type": "Hostname", "address": host },
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": kubelet_port.unwrap_or(10250) } },
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
    fn conditions_of_a_lost_node_are_set_back_and_others_stay() {
        let lost = |kind: &str, reason: &str| json!({ "type": kind, "status": "Unknown", "reason": reason });
        let mut node = json!({ "status": { "conditions": [
            lost("Ready", "NodeStatusUnknown"), lost("PIDPressure", "NodeStatusNeverUpdated"),
            lost("MemoryPressure", "Mine"), lost("Mine", "NodeStatusUnknown"),
            { "type": "DiskPressure", "status": "True", "reason": "NodeStatusUnknown" }] } });
        let status = status(1, "t2", None);
        assert!(restore(&mut node, &status) && !restore(&mut node, &status));
        let found =
            items(&node, "/status/conditions").iter().map(|it| (text(it, "/type"), text(it, "/status")));
        let expected = [
            ("Ready", "True"),
            ("PIDPressure", "False"),
            ("MemoryPressure", "Unknown"),
            ("Mine", "Unknown"),
            ("DiskPressure", "True"),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(node["status"]["conditions"][0]["lastHeartbeatTime"], "t2");
        assert!(!restore(&mut json!({}), &status));
    }

    #[test]
    fn a_node_leads_to_the_kubelet_server_of_this_machine() {
        let mut node = json!({ "status": status(1, "t1", None) });
        assert_eq!(node["status"]["addresses"][1]["address"], "node-1");
        let moved = status(1, "t2", Some(4321));
        assert!(move_endpoint(&mut node, &moved) && !move_endpoint(&mut node, &moved));
        assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 4321);
        let addresses: Vec<_> =
            items(&node, "/status/addresses").iter().map(|it| text(it, "/address")).collect();
        assert_eq!(addresses, ["172.18.0.2", "127.0.0.1"], "hosts of pods stay");
    }

    #[test]
    fn nodes_have_unique_names_and_addresses_and_a_zone() {
        let all: Vec<_> = (1..=4).map(|it| (name(it), zone(it), address(it))).collect();
        assert_eq!(all[0], ("node-1".to_owned(), "zone-a".to_owned(), "172.18.0.2".to_owned()));
        assert_eq!(all[3], ("node-4".to_owned(), "zone-a".to_owned(), "172.18.0.5".to_owned()));
        assert!(address(300) != address(50));
    }
}
