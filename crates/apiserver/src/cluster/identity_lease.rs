//! The lease by which the server says that it is alive, `kube-system/apiserver-…`.

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::advertised::ADVERTISED;
use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;

/// The name of the lease: a digest of the host name, as in k8s.io/apiserver v0.36.4
/// pkg/server/config.go. The one here is `dogwatch`, since that of the machine is of no use to
/// clients.
const NAME: &str = "apiserver-z6moemrxpf7eewsbmtiy7v6xdy";
const NAMESPACE: &str = "kube-system";
/// The lifetime of the lease in seconds.
const SECONDS: i64 = 3_600;

impl Cluster {
    /// Creates the lease, or takes over that of an earlier server.
    ///
    /// # Errors
    /// The error of the write.
    pub(super) async fn take_identity_lease(&self) -> Result<(), ApiError> {
        let holder = format!("{NAME}_{}", self.source.request_id());
        let labels = json!({ "apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "dogwatch" });
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels,
                "annotations": { "kubernetes.io/peer-advertise-address": format!("{ADVERTISED}:6443") } },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": SECONDS, "renewTime": self.micro_time() } });
        match self.add(lease, &Writer::server("kube-apiserver")).await {
            Err(refusal) if refusal.0.is_already_exists() => self.renew_identity_lease().await,
            added => added.map(drop),
        }
    }

    /// Renews the lease. Does nothing if a client has deleted it.
    ///
    /// # Errors
    /// The error of the write.
    pub(crate) async fn renew_identity_lease(&self) -> Result<(), ApiError> {
        let Some(kind) = self.catalog().kind("coordination.k8s.io", "v1", "leases") else { return Ok(()) };
        let (key, now) = (ObjectKey::namespaced(NAMESPACE, NAME), self.micro_time());
        let renew = |lease: &mut Value| {
            lease["spec"]["renewTime"] = now.as_str().into();
            true
        };
        let writer = Writer::server("kube-apiserver");
        self.change(&ObjectRef::of(&kind, &key), &writer, renew).await.map(drop)
    }

    fn micro_time(&self) -> String {
        format!("{:.6}", self.source.now())
    }
}
