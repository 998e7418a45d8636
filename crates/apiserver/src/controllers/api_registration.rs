//! The APIServices of custom resources, which come and go with their definitions.
//!
//! Mirrors k8s.io/kubernetes v1.36.4
//! pkg/controlplane/controller/crdregistration/crdregistration_controller.go.

use dogwatch_core::ObjectKey;

use super::background::builtin;
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::Cluster;
use crate::kinds::json_access::{items, text};
use crate::store::{CollectionName, Encoded};

/// Keeps one APIService for each group and version of custom resources.
#[derive(Debug)]
pub(super) struct ApiRegistration;

impl Reconciler for ApiRegistration {
    fn name(&self) -> &'static str {
        "crd-registration-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        let definitions = builtin(cluster, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let services = builtin(cluster, "apiregistration.k8s.io", "v1", "apiservices");
        vec![definitions.collection.clone(), services.collection.clone()]
    }

    /// Returns the APIServices of all versions that a definition has or had. One that was deleted
    /// is created again.
    fn touched(
        &mut self,
        _: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        if *collection == "apiregistration.k8s.io/apiservices".into() {
            return before.filter(|_| after.is_none()).map(|it| it.key().clone()).into_iter().collect();
        }
        let definitions = [before, after].into_iter().flatten().map(Encoded::to_value);
        let services = definitions.flat_map(|it| {
            let group = text(&it, "/spec/group");
            let versions = items(&it, "/spec/versions").iter().map(|version| text(version, "/name"));
            versions
                .filter_map(|it| ObjectKey::from_parts(None, &format!("{it}.{group}")).ok())
                .collect::<Vec<_>>()
        });
        services.collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        cluster.settle_custom_service(key).await?;
        Ok(Next::touch())
    }
}
