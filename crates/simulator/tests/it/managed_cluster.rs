//! A server with a controller manager, and the objects of its tests.

use std::ops::Deref;

use dogwatch_core::{DeleteParams, Propagation};
use dogwatch_simulator::ControllerManager;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestServer};

pub(crate) const MAPS: Kind = ("v1", "ConfigMap");
pub(crate) const NAMESPACES: Kind = ("v1", "Namespace");
pub(crate) const PODS: Kind = ("v1", "Pod");
pub(crate) const EVENTS: Kind = ("v1", "Event");
pub(crate) const DEFINITIONS: Kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
pub(crate) const WIDGETS: Kind = ("example.com/v1", "Widget");

/// A server and the controller manager that runs on it.
pub(crate) struct ManagedCluster {
    pub(crate) manager: ControllerManager,
    at: TestServer,
}

impl ManagedCluster {
    /// Starts a new server and a manager, and waits until its controllers work.
    pub(crate) async fn start() -> Self {
        let it = Self::on(TestServer::start().await);
        it.manager.ready().await;
        it
    }

    /// Starts a manager on a server.
    pub(crate) fn on(at: TestServer) -> Self {
        Self { manager: at.manager(), at }
    }

    /// Returns a server with a manager that runs on it.
    pub(crate) fn with(manager: ControllerManager, at: TestServer) -> Self {
        Self { manager, at }
    }

    pub(crate) async fn delete(&self, of: Kind, key: &str, propagation: Option<Propagation>) {
        let mut params = DeleteParams::default();
        params.propagation = propagation;
        self.at.delete(of, key, params).await;
    }
}

impl Deref for ManagedCluster {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.at
    }
}

/// Returns an owner reference to an object.
pub(crate) fn owner(object: &Value, blocks: bool) -> Value {
    json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": blocks })
}

/// Returns the config maps that the test created.
pub(crate) fn maps(it: &ManagedCluster) -> Vec<Value> {
    it.all(MAPS).into_iter().filter(|it| !is_system_object(it)).collect()
}

pub(crate) fn is_system_object(object: &Value) -> bool {
    object["metadata"]["namespace"] == "kube-system"
}

pub(crate) fn map(namespace: &str, name: &str, owners: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace, "ownerReferences": owners } })
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

pub(crate) fn pod(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 30 } })
}

pub(crate) fn definition(plural: &str, kind: &str) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

pub(crate) fn widget(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name, "namespace": namespace } })
}

pub(crate) fn finalized(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

pub(crate) fn release(object: &mut Value) {
    object["metadata"]["finalizers"] = json!([]);
}

/// Returns the configuration of a webhook that never responds. It is called for an operation on a
/// resource, given as group and plural, of a namespace, and on all cluster-scoped ones.
pub(crate) fn silent_webhook(
    listener: &std::net::TcpListener,
    operation: &str,
    resource: (&str, &str),
    namespace: &str,
) -> Value {
    // The kernel accepts connections, and nothing reads from them.
    let url = format!("https://{}/", listener.local_addr().unwrap());
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "timeoutSeconds": 30, "clientConfig": { "url": url },
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            "rules": [{ "operations": [operation], "apiGroups": [resource.0], "apiVersions": ["v1"],
                "resources": [resource.1] }] }] })
}

/// Returns a definition with the group and the plural of a built-in resource.
pub(crate) fn overlapping(group: &str, plural: &str, kind: &str, versions: &[&str]) -> Value {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let versions: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(at, name)| json!({ "name": name, "served": true, "storage": at == 0, "schema": schema }))
        .collect();
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}"),
            "annotations": { "api-approved.kubernetes.io": "unapproved, a test" } },
        "spec": { "group": group, "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": versions } })
}
