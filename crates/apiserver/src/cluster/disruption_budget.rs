//! The disruption budget of a pod, which an eviction spends. Mirrors k8s.io/kubernetes v1.36.4
//! pkg/registry/core/pod/storage/eviction.go.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::{Value, json};

use super::object_fields::set_condition;
use super::selector::selects;
use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::store::Encoded;

/// The largest number of evicted pods that the controller of a budget has not confirmed:
/// `MaxDisruptedPodSize` in k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/storage/eviction.go.
const MOST_DISRUPTED_PODS: usize = 2000;
/// The seconds after which the eviction of a pod may be retried if its budget has not been observed
/// yet.
const RETRY_AFTER_SECONDS: u32 = 10;

/// The decision of a disruption budget about the eviction of a pod.
#[derive(Debug)]
pub(super) enum BudgetDecision {
    /// The pod may be evicted: it has no budget, or has taken one disruption out of it.
    Allowed,
    /// The pod may be evicted in the state it was looked at: it is not ready, so it does not count.
    /// Holds the name of the budget.
    Unhealthy(String),
}

/// Takes one disruption out of the budget of a pod; a dry run only checks that there is one.
///
/// # Errors
/// 429 if the budget allows none; 500 if several budgets cover the pod.
pub(super) async fn spend_budget(
    cluster: &Cluster,
    pod: &Value,
    namespace: Option<&str>,
    dry_run: bool,
) -> Result<BudgetDecision, ApiError> {
    let Some(budgets) = cluster.catalog().kind("policy", "v1", "poddisruptionbudgets") else {
        return Ok(BudgetDecision::Allowed);
    };
    let label = |key: &str| at(pod, "/metadata/labels")?.get(key)?.as_str();
    let covers =
        |budget: &Arc<Encoded>| at(&budget.to_value(), "/spec/selector").is_some_and(|it| selects(it, label));
    let mut matching = cluster.list(&budgets, namespace).into_iter().filter(covers);
    let Some(budget) = matching.next() else { return Ok(BudgetDecision::Allowed) };
    if matching.next().is_some() {
        return Err(ApiError::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let name = budget.key().name().to_owned();
    if !is_ready(pod) && spares_unhealthy(&budget.to_value()) {
        return Ok(BudgetDecision::Unhealthy(name));
    }
    let pod_name = text(pod, "/metadata/name").to_owned();
    let now = cluster.source.stamp();
    let mut refusal = None;
    let place = ObjectRef::of(&budgets, budget.key()).part("status");
    cluster.change(&place, &Writer::server("kube-apiserver"), |budget| {
        refusal = exhausted(budget, &name);
        if refusal.is_some() || dry_run {
            return false;
        }
        let allowed = number(budget, "/status/disruptionsAllowed").unwrap_or(0).saturating_sub(1);
        budget["status"]["disruptionsAllowed"] = allowed.into();
        budget["status"]["disruptedPods"][&pod_name] = now.as_str().into();
        if allowed == 0 {
            let observed = number(budget, "/status/observedGeneration").unwrap_or(0);
            let condition = json!({ "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                "message": "", "observedGeneration": observed, "lastTransitionTime": now });
            set_condition(budget, condition);
        }
        true
    })
    .await?;
    refusal.map_or(Ok(BudgetDecision::Allowed), Err)
}

/// Returns true if a pod is ready, which is what counts as healthy for its budget.
fn is_ready(pod: &Value) -> bool {
    let ready = |it: &Value| text(it, "/type") == "Ready" && text(it, "/status") == "True";
    items(pod, "/status/conditions").iter().any(ready)
}

/// Returns true if pods that are not healthy may be evicted without spending the budget.
fn spares_unhealthy(budget: &Value) -> bool {
    let healthy = number(budget, "/status/currentHealthy").unwrap_or(0);
    let desired = number(budget, "/status/desiredHealthy").unwrap_or(0);
    text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

/// Returns the error of an eviction that a budget does not allow now, as `checkAndDecrement` in
/// eviction.go does.
fn exhausted(budget: &Value, name: &str) -> Option<ApiError> {
    let observed = number(budget, "/status/observedGeneration").unwrap_or(0);
    if observed < number(budget, "/metadata/generation").unwrap_or(0) {
        return Some(unprocessed(name));
    }
    let forbidden = |why: &str| Some(ApiError::forbidden("policy", "poddisruptionbudget", name, why));
    let disrupted = entries(budget, "/status/disruptedPods").count();
    match number(budget, "/status/disruptionsAllowed").unwrap_or(0) {
        ..0 => forbidden("pdb disruptions allowed is negative"),
        _ if disrupted > MOST_DISRUPTED_PODS => {
            forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
        }
        0 => Some(violated().cause("DisruptionBudget", &reason_of(budget, name), "")),
        1.. => None,
    }
}

/// Returns the reason why a budget allows no disruption.
fn reason_of(budget: &Value, name: &str) -> String {
    let healthy = number(budget, "/status/currentHealthy").unwrap_or(0);
    let desired = number(budget, "/status/desiredHealthy").unwrap_or(0);
    let condition = items(budget, "/status/conditions").iter().find(|it| {
        text(it, "/type") == "DisruptionAllowed"
            && text(it, "/status") == "False"
            && !text(it, "/message").is_empty()
    });
    let said = condition.map(|it| (text(it, "/reason"), text(it, "/message")));
    let not_now = format!("The disruption budget {name} does not allow evicting pods currently");
    match said {
        Some(("SyncFailed", why)) => format!("{not_now} because it failed sync: {why}"),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, why)) => format!("{not_now} ({reason}): {why}"),
        None => not_now,
    }
}

/// Returns the 429 for a budget whose controller has not observed its newest state yet.
pub(super) fn unprocessed(name: &str) -> ApiError {
    let mut refusal = violated();
    refusal.0.details.get_or_insert_default().retry_after_seconds = RETRY_AFTER_SECONDS;
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    refusal.cause("DisruptionBudget", &cause, "")
}

fn violated() -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(Reason::TooManyRequests, message)
}
