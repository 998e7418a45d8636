//! Aggregated ClusterRoles: their rules are those of all ClusterRoles that they select by labels.

use std::collections::HashSet;

use dogwatch_core::{ObjectKey, Reason};
use serde_json::{Value, json};

use super::commit::LARGEST_OBJECT;
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

/// The rules that are collected, each once.
#[derive(Debug, Default)]
struct CollectedRules {
    rules: Vec<Value>,
    /// The rules as text.
    seen: HashSet<String>,
    /// The bytes of all texts.
    bytes: usize,
}

impl Cluster {
    /// Collects the rules of an aggregated ClusterRole. Does nothing for other ClusterRoles.
    /// Returns true if the rules have changed.
    ///
    /// # Errors
    /// 413 if the rules are too large for one object; those of [`Cluster::patch`].
    pub async fn aggregate_role(&self, key: &ObjectKey) -> Result<bool, ApiError> {
        let Some(kind) = self.catalog().kind("rbac.authorization.k8s.io", "v1", "clusterroles") else {
            return Ok(false);
        };
        let Some(role) = self.get(&kind, key).map(|it| it.to_value()) else { return Ok(false) };
        if role.get("aggregationRule").is_none_or(Value::is_null) {
            return Ok(false);
        }
        let rules = collected(self, &kind, key, &role).await?;
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

/// Returns the rules of all ClusterRoles that an aggregated one selects, each once: those of its
/// first selector first, and then by the names of the ClusterRoles.
///
/// # Errors
/// 413 if the rules are too large for one object.
async fn collected(
    cluster: &Cluster,
    kind: &Kind,
    key: &ObjectKey,
    role: &Value,
) -> Result<Vec<Value>, ApiError> {
    let mut collected = CollectedRules::default();
    let mut others: Vec<_> = cluster.list(kind, None);
    others.retain(|it| it.key() != key);
    for (number, selector) in selectors(role).into_iter().enumerate() {
        let (selected, rest): (Vec<_>, _) = others.into_iter().partition(|it| is_selected(&selector, it));
        others = rest;
        for other in selected {
            collected.add(items(&other.to_value(), "/rules"))?;
            tokio::task::yield_now().await;
        }
        if others.is_empty() {
            break;
        }
        if number % SELECTORS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(collected.rules)
}

impl CollectedRules {
    /// Adds the rules of a ClusterRole that are not there yet.
    ///
    /// # Errors
    /// 413 if the rules are too large for one object.
    fn add(&mut self, rules: &[Value]) -> Result<(), ApiError> {
        for rule in rules {
            let text = rule.to_string();
            let bytes = self.bytes.saturating_add(text.len());
            if self.seen.contains(&text) {
                continue;
            }
            if bytes > LARGEST_OBJECT {
                let message = format!(
                    "Request entity too large: the aggregated rules have more bytes than the limit of {LARGEST_OBJECT}"
                );
                return Err(ApiError::new(Reason::RequestEntityTooLarge, message));
            }
            self.bytes = bytes;
            self.seen.insert(text);
            self.rules.push(rule.clone());
        }
        Ok(())
    }
}

/// Returns the selectors of an aggregated ClusterRole, each once.
pub(crate) fn selectors(role: &Value) -> Vec<Value> {
    let mut seen = HashSet::new();
    let all = items(role, "/aggregationRule/clusterRoleSelectors").iter();
    all.filter(|it| seen.insert(it.to_string())).cloned().collect()
}

/// Returns true if a selector of an aggregated ClusterRole selects another.
pub(crate) fn is_selected(selector: &Value, role: &Encoded) -> bool {
    selects(selector, |key| role.labels().get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the rules of all selected ClusterRoles were kept before any limit was
    /// checked.
    #[test]
    fn no_more_rules_are_collected_than_an_object_can_have() {
        let rule =
            |it: usize| json!({ "verbs": [it.to_string()], "resourceNames": ["x".repeat(1024 * 1024)] });
        let mut collected = CollectedRules::default();
        for _ in 0..100 {
            collected.add(&[rule(0)]).expect("one rule, many times");
        }
        assert_eq!(collected.rules.len(), 1);
        let refusal = (1..100).find_map(|it| collected.add(&[rule(it)]).err()).expect("too large");
        assert_eq!(refusal.0.code, 413);
        assert!(collected.bytes <= LARGEST_OBJECT && collected.rules.len() < 10);
    }
}
