//! The objects of every namespace: the service account `default`, and the root certificate of the
//! API server.

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use crate::ApiError;
use crate::cluster::Cluster;
use crate::controllers::reconcile::{Next, Reconciler};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{at, text};
use crate::store::{CollectionName, Encoded};

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";

/// Creates these objects in each namespace, and creates them again if they are deleted.
#[derive(Debug)]
pub(super) struct Accounts {
    pub(super) certificate: Option<String>,
}

impl Reconciler for Accounts {
    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        let of = |plural| builtin(cluster, "", "v1", plural).collection.clone();
        let mut all = vec![of("namespaces"), of("serviceaccounts")];
        all.extend(self.certificate.is_some().then(|| of("configmaps")));
        all
    }

    /// Returns a changed namespace, or the namespace of a deleted object.
    fn touched(
        &mut self,
        _: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        if &**collection == "/namespaces" {
            return after.map(|it| it.key().clone()).into_iter().collect();
        }
        let gone = before.filter(|it| after.is_none() && [ACCOUNT, CERTIFICATE].contains(&it.key().name()));
        gone.and_then(|it| it.key().namespace()).map(ObjectKey::cluster).into_iter().collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let kind = builtin(cluster, "", "v1", "namespaces");
        let Some(namespace) = cluster.get(&kind, key).map(|it| it.to_value()) else {
            return Ok(Next::touch());
        };
        if at(&namespace, "/metadata/deletionTimestamp").is_some() {
            return Ok(Next::touch());
        }
        let writer = writer("serviceaccount-controller", "kube-controller-manager");
        for object in wanted(key.name(), self.certificate.as_deref()) {
            let plural = if text(&object, "/kind") == "ConfigMap" { "configmaps" } else { "serviceaccounts" };
            let kind = builtin(cluster, "", "v1", plural);
            let place = ObjectKey::from_parts(Some(key.name()), text(&object, "/metadata/name"));
            if place.is_ok_and(|it| cluster.get(&kind, &it).is_some()) {
                continue;
            }
            match cluster.add(object, &writer).await {
                // Another client has created it, or the namespace is being deleted.
                Err(refusal) if !matches!(refusal.0.code, 403 | 404 | 409) => return Err(refusal),
                _ => {}
            }
        }
        Ok(Next::touch())
    }
}

/// Returns the objects that a namespace should have.
fn wanted(namespace: &str, certificate: Option<&str>) -> Vec<Value> {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": ACCOUNT, "namespace": namespace } });
    let certificate = certificate.map(|it| {
        let words = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
            such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
            distributions of Kubernetes clusters.";
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "ca.crt": it },
            "metadata": { "name": CERTIFICATE, "namespace": namespace,
                "annotations": { "kubernetes.io/description": words } } })
    });
    [account].into_iter().chain(certificate).collect()
}
