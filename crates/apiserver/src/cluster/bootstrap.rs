//! What every cluster has from the start.

use serde_json::{Value, json};

use super::{Cluster, Writer};

/// Where the API server is said to be: an address outside of every network it serves.
const ADVERTISED: &str = "10.255.255.1";

impl Cluster {
    /// Puts into an empty cluster what every cluster has: namespaces, the service of the API server, priority classes,
    /// and since when the use of old tokens is noted. What is there already stays.
    pub async fn bootstrap(&self) {
        let writer = Writer::server("kube-apiserver");
        let today = self.source.now().strftime("%Y-%m-%d").to_string();
        for object in objects(&today) {
            if let Err(refusal) = self.add(object, &writer).await
                && !refusal.0.is_already_exists()
            {
                tracing::error!(%refusal, "the cluster cannot be set up");
            }
        }
    }
}

fn objects(today: &str) -> Vec<Value> {
    let namespaces = ["kube-system", "kube-public", "kube-node-lease", "default"]
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
    let class = |name: &str, value: i64, description: &str| {
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority" })
    };
    let metadata = |labels: Value| json!({ "name": "kubernetes", "namespace": "default", "labels": labels });
    let ours = [
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": metadata(json!({ "component": "apiserver", "provider": "kubernetes" })),
            "spec": { "clusterIP": "10.96.0.1", "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }] } }),
        json!({ "apiVersion": "v1", "kind": "Endpoints",
            "metadata": metadata(json!({ "endpointslice.kubernetes.io/skip-mirror": "true" })),
            "subsets": [{ "addresses": [{ "ip": ADVERTISED }], "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }] }] }),
        json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": metadata(json!({ "kubernetes.io/service-name": "kubernetes" })), "addressType": "IPv4",
            "endpoints": [{ "addresses": [ADVERTISED], "conditions": { "ready": true } }],
            "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }] }),
        // Controllers that clean up old tokens look since when their use is noted.
        json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system" },
            "data": { "since": today } }),
    ];
    namespaces.into_iter().chain(ours).collect()
}
