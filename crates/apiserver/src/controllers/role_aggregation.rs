//! Aggregated ClusterRoles: collects their rules again when a ClusterRole that they select changes.
//!
//! In Kubernetes this is a part of kube-controller-manager. It is in the server here because
//! `admin`, `edit` and `view` are aggregated: without it, a server that enforces roles would have
//! three empty ones.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde_json::Value;
use tokio::time::Instant;

use super::background::builtin;
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::{Cluster, is_selected, selectors};
use crate::store::{CollectionName, Encoded};

/// The time between two writes of a ClusterRole. Some that aggregate each other in a circle never
/// come to rest: each takes the rules that the next one just had.
const PAUSE: Duration = Duration::from_secs(1);

/// Collects the rules of aggregated ClusterRoles.
#[derive(Debug, Default)]
pub(super) struct RoleAggregation {
    /// The selectors of the aggregated ClusterRoles.
    selectors: BTreeMap<ObjectKey, Vec<Value>>,
    /// The time at which each ClusterRole was last written, if that was less than a pause ago.
    written: BTreeMap<ObjectKey, Instant>,
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
        let selectors = after.map(|it| selectors(&it.to_value())).unwrap_or_default();
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
        let now = Instant::now();
        self.written.retain(|_, written| now.duration_since(*written) < PAUSE);
        if let Some(written) = self.written.get(key) {
            return Ok(Next::after(PAUSE.saturating_sub(now.duration_since(*written))));
        }
        if cluster.aggregate_role(key).await? {
            self.written.insert(key.clone(), now);
        }
        Ok(Next::touch())
    }
}
