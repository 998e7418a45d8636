//! The status of a PodDisruptionBudget, as in k8s.io/kubernetes v1.36.4
//! pkg/controller/disruption/disruption.go. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json_access::{entries, items, number, text};
use crate::object::Pod;

/// The seconds for which an evicted pod is expected to be deleted: `DeletionTimeout` in the same
/// file.
const DELETION_TIMEOUT: i64 = 120;

/// The numbers of pods that a budget expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) pods: i64,
    pub(super) healthy: i64,
}

/// Returns the status, and the time after which an evicted pod that still exists counts again.
pub(super) fn status(
    budget: &Value,
    expected: Expected,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> (Value, Option<Duration>) {
    let (mut disrupted, mut again) = (json!({}), None);
    let left = |since: &Value| {
        let since: Timestamp = since.as_str()?.parse().ok()?;
        let rest = since.as_second().saturating_add(DELETION_TIMEOUT).saturating_sub(now.as_second());
        u64::try_from(rest).ok().filter(|it| *it > 0).map(Duration::from_secs)
    };
    let living = || pods.iter().filter(|it| !it.is_deleting);
    let known: std::collections::HashMap<&str, &Value> = entries(budget, "/status/disruptedPods").collect();
    let mut healthy = 0_i64;
    for pod in living() {
        let name = text(pod, "/metadata/name");
        match known.get(name).and_then(|it| Some((it, left(it)?))) {
            Some((since, rest)) => {
                disrupted[name] = (*since).clone();
                again = again.into_iter().chain([rest]).min();
            }
            None => healthy += i64::from(pod.ready.is_some()),
        }
    }
    let allowed = if expected.pods <= 0 { 0 } else { healthy.saturating_sub(expected.healthy).max(0) };
    let mut status = json!({ "currentHealthy": healthy, "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods, "disruptionsAllowed": allowed });
    if disrupted.as_object().is_some_and(|it| !it.is_empty()) {
        status["disruptedPods"] = disrupted;
    }
    let generation = number(budget, "/metadata/generation").unwrap_or(0);
    if generation != 0 {
        status["observedGeneration"] = generation.into();
    }
    let (value, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    status["conditions"] = conditions(budget, value, reason, "", generation, now);
    (status, again)
}

/// Returns the status if the number of expected pods is not known: no disruptions are allowed.
pub(super) fn unknown(budget: &Value, message: &str, now: Timestamp) -> Value {
    let mut status = budget.get("status").filter(|it| it.is_object()).cloned().unwrap_or_else(|| json!({}));
    for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if status.get(field).is_none() {
            status[field] = 0.into();
        }
    }
    status["disruptionsAllowed"] = 0.into();
    let observed = number(budget, "/status/observedGeneration").unwrap_or(0);
    status["conditions"] = conditions(budget, "False", "SyncFailed", message, observed, now);
    status
}

/// Returns the conditions of a budget with a new state of `DisruptionAllowed`.
fn conditions(
    budget: &Value,
    status: &str,
    reason: &str,
    message: &str,
    generation: i64,
    now: Timestamp,
) -> Value {
    let mut list = items(budget, "/status/conditions").to_vec();
    let known = list.iter().position(|it| text(it, "/type") == "DisruptionAllowed");
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let since = known.map(|at| &list[at]).filter(|it| text(it, "/status") == status);
    let since = since.map_or(now.as_str(), |it| text(it, "/lastTransitionTime"));
    let mut new = json!({ "type": "DisruptionAllowed", "status": status, "reason": reason,
        "message": message, "lastTransitionTime": since });
    if generation != 0 {
        new["observedGeneration"] = generation.into();
    }
    match known {
        Some(at) => list[at] = new,
        None => list.push(new),
    }
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, is_ready: bool) -> Arc<Pod> {
        let status = if is_ready { "True" } else { "False" };
        Arc::new(Pod::from(json!({ "metadata": { "name": name },
            "status": { "conditions": [{ "type": "Ready", "status": status }] } })))
    }

    #[test]
    fn an_evicted_pod_does_not_count_until_its_time_is_over() {
        let pods = [pod("a", true), pod("b", true), pod("c", false)];
        let budget = json!({ "metadata": { "generation": 1 }, "status": {
            "disruptedPods": { "a": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z" } } });
        let expected = Expected { pods: 3, healthy: 1 };
        let at = |time: &str| status(&budget, expected, &pods, time.parse().unwrap());
        let (early, again) = at("2026-01-01T00:01:00Z");
        assert_eq!((&early["currentHealthy"], &early["disruptionsAllowed"]), (&json!(1), &json!(0)));
        assert_eq!(early["disruptedPods"], json!({ "a": "2026-01-01T00:00:00Z" }));
        assert_eq!(
            (again, &early["conditions"][0]["reason"]),
            (Some(Duration::from_secs(60)), &json!("InsufficientPods"))
        );
        let (late, again) = at("2026-01-01T00:02:00Z");
        assert_eq!((&late["currentHealthy"], &late["disruptionsAllowed"]), (&json!(2), &json!(1)));
        assert_eq!((again, late.get("disruptedPods")), (None, None));
        assert_eq!(late["conditions"][0]["reason"], "SufficientPods");
        let (none, _) =
            status(&budget, Expected { pods: 0, healthy: 0 }, &pods, "2026-01-01T00:02:00Z".parse().unwrap());
        assert_eq!(none["disruptionsAllowed"], 0);
    }

    #[test]
    fn nothing_is_allowed_if_the_expected_pods_are_not_known() {
        let budget = json!({ "status": { "currentHealthy": 3, "disruptionsAllowed": 2 } });
        let unknown = unknown(&budget, "no", "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!((&unknown["currentHealthy"], &unknown["disruptionsAllowed"]), (&json!(3), &json!(0)));
        assert_eq!(unknown["conditions"][0]["message"], "no");
    }
}
