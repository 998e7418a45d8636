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

impl Cluster {
    /// Collects the rules of an aggregated ClusterRole. Does nothing for other ClusterRoles.
    ///
    /// # Errors
    /// Those of [`Cluster::patch`], for instance 422 if the rules are too large for one object.
    pub async fn aggregate_role(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let Some(kind) = self.catalog().kind("rbac.authorization.k8s.io", "v1", "clusterroles") else {
            return Ok(());
        };
        let Some(role) = self.get(&kind, key).map(|it| it.to_value()) else { return Ok(()) };
        if role.get("aggregationRule").is_none_or(Value::is_null) {
            return Ok(());
        }
        let rules = collected(self, &kind, key, &role);
        if rules.iter().eq(items(&role, "/rules")) {
            return Ok(());
        }
        let mut applied = json!({ "apiVersion": kind.def.api_version(), "kind": kind.def.kind,
            "metadata": { "name": key.name() } });
        if !rules.is_empty() {
            applied["rules"] = rules.into();
        }
        let body = PatchBody::Apply { body: applied.to_string().into(), force: true };
        let writer = Writer { manager: MANAGER.to_owned(), ..Writer::server(MANAGER) };
        self.patch(&ObjectRef::of(&kind, key), &body, &writer).await.map(drop)
    }
}

/// Returns the rules of all ClusterRoles that an aggregated one selects, each once.
fn collected(cluster: &Cluster, kind: &Kind, key: &ObjectKey, role: &Value) -> Vec<Value> {
    let (mut rules, mut seen) = (Vec::new(), HashSet::new());
    let all = cluster.list(kind, None);
    for selector in items(role, "/aggregationRule/clusterRoleSelectors") {
        for other in all.iter().filter(|it| it.key() != key && is_selected(selector, it)) {
            for rule in items(&other.to_value(), "/rules") {
                if seen.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

/// Returns true if a selector of an aggregated ClusterRole selects another.
pub(crate) fn is_selected(selector: &Value, role: &Encoded) -> bool {
    selects(selector, |key| role.labels().iter().find(|(it, _)| *it == key).map(|(_, value)| value))
}
