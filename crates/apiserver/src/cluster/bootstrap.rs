//! The objects that every cluster has from the start.

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::advertised::ADVERTISED;
use super::service_network::ServiceNetwork;
use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::authorization::AuthorizationMode;

impl Cluster {
    /// Creates the objects that every cluster has: namespaces, the service of the API server,
    /// priority classes, the ConfigMap that tracks legacy tokens, APIServices, flow schemas and
    /// priority levels, the lease of the server, and, if they are enforced, roles and bindings.
    /// Existing objects are not changed, but for the lease.
    pub async fn bootstrap(&self) {
        let writer = Writer::server("kube-apiserver");
        let today = self.source.now().strftime("%Y-%m-%d").to_string();
        let roles = match self.authorizer.mode() {
            AuthorizationMode::AlwaysAllow => Vec::new(),
            AuthorizationMode::Rbac => roles(),
        };
        for object in objects(&today, self.service_network()).into_iter().chain(roles) {
            if let Err(refusal) = self.add(object, &writer).await
                && !refusal.0.is_already_exists()
            {
                tracing::error!(%refusal, "cannot create a bootstrap object");
            }
        }
        // Each of these collects from the one before.
        for name in ["view", "edit", "admin"] {
            if let Err(refusal) = self.aggregate_role(&ObjectKey::cluster(name)).await {
                tracing::error!(%refusal, name, "cannot aggregate a ClusterRole");
            }
        }
        if let Err(refusal) = open_addresses(self, &writer).await {
            tracing::error!(%refusal, "cannot mark the default ServiceCIDR as ready");
        }
        if let Err(refusal) = self.register_builtin_services().await {
            tracing::error!(%refusal, "cannot create the APIServices of built-in groups");
        }
        if let Err(refusal) = self.create_flow_control().await {
            tracing::error!(%refusal, "cannot create flow schemas and priority levels");
        }
        if let Err(refusal) = self.take_identity_lease().await {
            tracing::error!(%refusal, "cannot take the lease of the server");
        }
    }
}

impl Cluster {
    /// Publishes the authority of client certificates, for API servers and other components that
    /// authenticate the same clients. `authority` is PEM; without one, the object is empty.
    ///
    /// # Errors
    /// The error of the write.
    pub async fn publish_client_authority(&self, authority: Option<&str>) -> Result<(), ApiError> {
        let data: serde_json::Map<String, Value> =
            authority.map(|it| ("client-ca-file".to_owned(), it.into())).into_iter().collect();
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" }, "data": data });
        match self.add(object, &Writer::server("kube-apiserver")).await {
            Err(refusal) if refusal.0.is_already_exists() => Ok(()),
            added => added.map(drop),
        }
    }
}

/// Sets the Ready condition of the default ServiceCIDR.
async fn open_addresses(cluster: &Cluster, writer: &Writer) -> Result<(), ApiError> {
    let Some(kind) = cluster.catalog().kind("networking.k8s.io", "v1", "servicecidrs") else {
        return Ok(());
    };
    let (key, now) = (ObjectKey::cluster("kubernetes"), cluster.source.stamp());
    let ready = |it: &mut Value| {
        let known = it["status"]["conditions"].is_array();
        if !known {
            it["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "",
                "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": now }] });
        }
        !known
    };
    cluster.change(&ObjectRef::of(&kind, &key).part("status"), writer, ready).await.map(drop)
}

fn objects(today: &str, network: ServiceNetwork) -> Vec<Value> {
    let namespaces = ["kube-system", "kube-public", "kube-node-lease", "default"]
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
    let class = |name: &str, value: i64, description: &str| {
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority" })
    };
    let classes = [
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
    ];
    let others = [
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": { "name": "kubernetes" },
            "spec": { "cidrs": [network.to_string()] } }),
        // Controllers that clean up legacy tokens read from this object since when token use is
        // tracked.
        json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system" },
            "data": { "since": today } }),
    ];
    namespaces.into_iter().chain(classes).chain(own_service(network)).chain(others).collect()
}

/// The roles and bindings of kube-apiserver 1.36.4, without what all of them have.
const ROLES: &str = include_str!("../../data/bootstrap-roles.jsonl");

fn roles() -> Vec<Value> {
    let complete = |line: &str| {
        let mut object: Value = serde_json::from_str(line).expect("a test reads every line");
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        object["metadata"]["labels"]["kubernetes.io/bootstrapping"] = "rbac-defaults".into();
        object["metadata"]["annotations"] = json!({ "rbac.authorization.kubernetes.io/autoupdate": "true" });
        object
    };
    ROLES.lines().map(complete).collect()
}

/// Returns the service through which clients inside the cluster reach the API server, with its
/// Endpoints and its EndpointSlice.
pub(crate) fn own_service(network: ServiceNetwork) -> [Value; 3] {
    let metadata = |labels: Value| json!({ "name": "kubernetes", "namespace": "default", "labels": labels });
    [
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": metadata(json!({ "component": "apiserver", "provider": "kubernetes" })),
            "spec": { "clusterIP": network.of_api_server().to_string(), "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }] } }),
        json!({ "apiVersion": "v1", "kind": "Endpoints",
            "metadata": metadata(json!({ "endpointslice.kubernetes.io/skip-mirror": "true" })),
            "subsets": [{ "addresses": [{ "ip": ADVERTISED }], "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }] }] }),
        json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": metadata(json!({ "kubernetes.io/service-name": "kubernetes" })), "addressType": "IPv4",
            "endpoints": [{ "addresses": [ADVERTISED], "conditions": { "ready": true } }],
            "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }] }),
    ]
}
