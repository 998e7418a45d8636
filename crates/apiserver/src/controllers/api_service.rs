//! The service of the API server itself, `default/kubernetes`, which is created again with its
//! endpoints if it is deleted.
//!
//! kube-apiserver checks every 10 seconds whether it exists (k8s.io/kubernetes v1.36.4
//! pkg/controlplane/controller/kubernetesservice/controller.go). Clients in the cluster find the
//! API server by it, and `kubectl delete all --all` deletes it.

use std::time::Duration;

use dogwatch_core::ObjectKey;
use tokio::time::Instant;

use super::background::{builtin, writer};
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::{Cluster, own_service};
use crate::kinds::{ENDPOINT_SLICE, ENDPOINTS, NAMESPACE, SERVICE};
use crate::store::{CollectionName, Encoded};

/// The time until the service is created again: the mean for kube-apiserver, which checks every 10
/// seconds.
const PAUSE: Duration = Duration::from_secs(5);

/// Creates the service of the API server, its Endpoints and its EndpointSlice if they are missing.
#[derive(Debug, Default)]
pub(super) struct ApiService {
    /// The time since when something is missing; `None` if nothing is.
    missing_since: Option<Instant>,
}

impl Reconciler for ApiService {
    fn name(&self) -> &'static str {
        "kubernetes-service-controller"
    }

    /// Follows the three kinds, and namespaces: the namespace `default` always exists, so the first
    /// check happens even if all three objects are missing from the start.
    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        [&SERVICE, &ENDPOINTS, &ENDPOINT_SLICE, &NAMESPACE]
            .map(|it| builtin(cluster, it.group, "v1", it.plural).collection.clone())
            .to_vec()
    }

    fn touched(
        &mut self,
        _: &Cluster,
        _: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let own = ObjectKey::namespaced("default", "kubernetes");
        let changed = after.or(before).map(Encoded::key);
        let is_about = changed.is_some_and(|it| *it == own || *it == ObjectKey::cluster("default"));
        is_about.then_some(own).into_iter().collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let is_missing = |api_version: &str, kind: &str| {
            let kind = cluster.catalog().kind_of(api_version, kind);
            kind.is_some_and(|it| cluster.get(&it, key).is_none())
        };
        let says =
            |object: &serde_json::Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let missing: Vec<_> = own_service(cluster.service_network())
            .into_iter()
            .filter(|it| is_missing(&says(it, "apiVersion"), &says(it, "kind")))
            .collect();
        if missing.is_empty() {
            self.missing_since = None;
            return Ok(Next::touch());
        }
        let pause = PAUSE.saturating_sub(self.missing_since.get_or_insert_with(Instant::now).elapsed());
        if !pause.is_zero() {
            return Ok(Next::after(pause));
        }
        let writer = writer("kubernetes-service-controller", "kube-apiserver");
        for object in missing {
            match cluster.add(object, &writer).await {
                Err(refusal) if !refusal.0.is_already_exists() => return Err(refusal),
                _ => {}
            }
        }
        self.missing_since = None;
        Ok(Next::touch())
    }
}
