//! Aggregated ClusterRoles: collects their rules again when a ClusterRole that they select changes.
//!
//! In Kubernetes this is a part of kube-controller-manager. It is in the server here because `admin`,
//! `edit` and `view` are aggregated: without it, a server that enforces roles would have three empty
//! ones.

use std::collections::BTreeMap;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::background::builtin;
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::{Cluster, is_selected};
use crate::kinds::json_access::items;
use crate::store::{CollectionName, Encoded};

/// Collects the rules of aggregated ClusterRoles.
#[derive(Debug, Default)]
pub(super) struct RoleAggregation {
    /// The selectors of the aggregated ClusterRoles.
    selectors: BTreeMap<ObjectKey, Vec<Value>>,
}

impl Reconciler for RoleAggregation {
    fn name(&self) -> &'static str {
        "clusterrole-aggregation-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        vec![builtin(cluster, "rbac.authorization.k8s.io", "v1", "clusterroles").collection.clone()]
    }

    fn touched(
        &mut self,
        _: &Cluster,
        _: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let Some(key) = after.or(before).map(Encoded::key) else { return Vec::new() };
        let rule = after.map(|it| it.to_value()).unwrap_or_default();
        let selectors = items(&rule, "/aggregationRule/clusterRoleSelectors").to_vec();
        if selectors.is_empty() {
            self.selectors.remove(key);
        } else {
            self.selectors.insert(key.clone(), selectors);
        }
        let changed = [before, after].into_iter().flatten();
        let selects = |selectors: &[Value]| {
            changed.clone().any(|it| selectors.iter().any(|selector| is_selected(selector, it)))
        };
        let concerned = self.selectors.iter().filter(|(it, selectors)| *it == key || selects(selectors));
        concerned.map(|(it, _)| it.clone()).collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        cluster.aggregate_role(key).await?;
        Ok(Next::touch())
    }
}
