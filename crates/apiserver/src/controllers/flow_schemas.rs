//! The status of flow schemas: each says whether its priority level exists.
//!
//! Mirrors `syncOne` in k8s.io/apiserver v0.36.4 pkg/util/flowcontrol/apf_controller.go.

use dogwatch_core::ObjectKey;

use super::background::builtin;
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::Cluster;
use crate::store::{CollectionName, Encoded};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Sets the condition of flow schemas.
#[derive(Debug)]
pub(super) struct FlowSchemas;

impl Reconciler for FlowSchemas {
    fn name(&self) -> &'static str {
        "priority-and-fairness-config-consumer"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        ["flowschemas", "prioritylevelconfigurations"]
            .map(|it| builtin(cluster, GROUP, "v1", it).collection.clone())
            .to_vec()
    }

    /// Returns a flow schema that has changed, or all if a priority level has come or gone.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let schemas = builtin(cluster, GROUP, "v1", "flowschemas");
        if *collection == schemas.collection {
            return after.map(|it| it.key().clone()).into_iter().collect();
        }
        if before.is_some() && after.is_some() {
            return Vec::new();
        }
        cluster.list(&schemas, None).iter().map(|it| it.key().clone()).collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        cluster.settle_flow_schema(key).await?;
        Ok(Next::touch())
    }
}
