//! Aggregated ClusterRoles: their rules are those of all ClusterRoles that they select by labels.

use std::collections::HashSet;

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::selector::selects;
use super::{Cluster, ObjectRef, PatchBody, Writer};
use crate::ApiError;
use crate::kinds::json_access::items;
use crate::registry::Kind;
use crate::store::Encoded;

/// The field manager of aggregated rules in Kubernetes.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// The number of selectors that are matched before other tasks run.
const SELECTORS_PER_TURN: usize = 64;

impl Cluster {
    /// Collects the rules of an aggregated ClusterRole. Does nothing for other ClusterRoles. Returns
    /// true if the rules have changed.
    ///
    /// # Errors
    /// Those of [`Cluster::patch`], for instance 422 if the rules are too large for one object.
    pub async fn aggregate_role(&self, key: &ObjectKey) -> Result<bool, ApiError> {
        let Some(kind) = self.catalog().kind("rbac.authorization.k8s.io", "v1", "clusterroles") else {
            return Ok(false);
        };
        let Some(role) = self.get(&kind, key).map(|it| it.to_value()) else { return Ok(false) };
        if role.get("aggregationRule").is_none_or(Value::is_null) {
            return Ok(false);
        }
        let rules = collected(self, &kind, key, &role).await;
        if rules.iter().eq(items(&role, "/rules")) {
            return Ok(false);
        }
        let mut applied = json!({ "apiVersion": kind.def.api_version(), "kind": kind.def.kind,
            "metadata": { "name": key.name() } });
        if !rules.is_empty() {
            applied["rules"] = rules.into();
        }
        let body = PatchBody::Apply { body: applied.to_string().into(), force: true };
        let writer = Writer { manager: MANAGER.to_owned(), ..Writer::server(MANAGER) };
        self.patch(&ObjectRef::of(&kind, key), &body, &writer).await.map(|_| true)
    }
}

/// Returns the rules of all ClusterRoles that an aggregated one selects, each once: those of its first
/// selector first, and then by the names of the ClusterRoles.
async fn collected(cluster: &Cluster, kind: &Kind, key: &ObjectKey, role: &Value) -> Vec<Value> {
    let (mut rules, mut seen) = (Vec::new(), HashSet::new());
    let mut others: Vec<_> = cluster.list(kind, None);
    others.retain(|it| it.key() != key);
    for (number, selector) in selectors(role).into_iter().enumerate() {
        let (selected, rest): (Vec<_>, _) = others.into_iter().partition(|it| is_selected(&selector, it));
        others = rest;
        for other in selected {
            for rule in items(&other.to_value(), "/rules") {
                if seen.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
        if others.is_empty() {
            break;
        }
        if number % SELECTORS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    rules
}

/// Returns the selectors of an aggregated ClusterRole, each once.
pub(crate) fn selectors(role: &Value) -> Vec<Value> {
    let mut seen = HashSet::new();
    let all = items(role, "/aggregationRule/clusterRoleSelectors").iter();
    all.filter(|it| seen.insert(it.to_string())).cloned().collect()
}

/// Returns true if a selector of an aggregated ClusterRole selects another.
pub(crate) fn is_selected(selector: &Value, role: &Encoded) -> bool {
    selects(selector, |key| role.labels().iter().find(|(it, _)| *it == key).map(|(_, value)| value))
}
