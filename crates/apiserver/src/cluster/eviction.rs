//! The eviction of a pod: a deletion that the disruption budget of the pod must allow. Mirrors
//! k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/storage/eviction.go.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::{Value, json};

use super::commit::{ATTEMPTS, Attempt};
use super::object_fields::{set_condition, success};
use super::place::MODIFIED;
use super::selector::selects;
use super::write::{Owning, Write};
use super::{Cluster, DeleteOptions, ObjectRef, Propagation, WriteOutcome, Writer};
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
enum BudgetDecision {
    /// The pod may be evicted: it has no budget, or has taken one disruption out of it.
    Allowed,
    /// The pod may be evicted in the state it was looked at: it is not ready, so it does not count.
    /// Holds the name of the budget.
    Unhealthy(String),
}

impl Cluster {
    /// Deletes a pod if its disruption budget allows it.
    ///
    /// Mirrors `EvictionREST.Create` in k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/pod/storage/eviction.go.
    pub(super) async fn evict(
        &self,
        place: &ObjectRef<'_>,
        eviction: &Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let options = options_of(eviction);
        let dry_run = writer.dry_run || !items(eviction, "/deleteOptions/dryRun").is_empty();
        let writer = &Writer { dry_run, ..writer.clone() };
        let evicted = || WriteOutcome::value(success(), true);
        for _ in 0..ATTEMPTS {
            let current =
                self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
            let pod = current.to_value();
            let pinned = DeleteOptions { version: Some(current.version().to_string()), ..options.clone() };
            let terminating = at(&pod, "/metadata/deletionTimestamp").is_some();
            match text(&pod, "/status/phase") {
                "Succeeded" | "Failed" => {}
                _ if terminating => {}
                // It may become ready at any moment, so it is deleted in this state only.
                "Pending" if options.version.is_none() => {
                    match self.delete_evicted(place, &pinned, writer).await {
                        Err(refusal) if refusal.0.is_conflict() && has_uid(&options, &current) => continue,
                        deleted => return deleted.map(|()| evicted()),
                    }
                }
                "Pending" => {}
                _ => match self.spend_budget(&pod, place.namespace, dry_run).await? {
                    BudgetDecision::Allowed => {}
                    BudgetDecision::Unhealthy(_) if options.version.is_some() => {}
                    BudgetDecision::Unhealthy(budget) => {
                        return match self.delete_evicted(place, &pinned, writer).await {
                            Err(refusal) if refusal.0.is_conflict() => Err(unprocessed(&budget)),
                            deleted => deleted.map(|()| evicted()),
                        };
                    }
                },
            }
            self.delete_evicted(place, &options, writer).await?;
            return Ok(evicted());
        }
        Err(place.kind.conflict(place.name, MODIFIED))
    }

    /// Deletes a pod after setting the condition that says why. Calls no webhooks: they have
    /// reviewed the Eviction.
    async fn delete_evicted(
        &self,
        place: &ObjectRef<'_>,
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<(), ApiError> {
        let mut options = options.clone();
        if !writer.dry_run {
            let marked = self.mark_evicted(place, &options, writer).await?;
            // The precondition has been checked, and the version is a new one since then.
            options.version = options.version.map(|_| marked);
        }
        self.delete(place, &options, writer).await?;
        Ok(())
    }

    /// Sets the condition that says why a pod is deleted. Returns the version of the pod after
    /// that.
    async fn mark_evicted(
        &self,
        place: &ObjectRef<'_>,
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<String, ApiError> {
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.source.stamp() });
        for _ in 0..ATTEMPTS {
            let current =
                self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
            options.check_preconditions(place, &current)?;
            let old = place.kind.show(&current);
            let mut new = old.clone();
            set_condition(&mut new, condition.clone());
            let write = Write::change(self, place, (&current, &old), new, writer);
            match write.owning(Owning::Settled).attempt().await? {
                Attempt::Done(written) => {
                    let object = written.object.to_value(place.kind);
                    return Ok(text(&object, "/metadata/resourceVersion").to_owned());
                }
                Attempt::Again => {}
            }
        }
        Err(place.kind.conflict(place.name, MODIFIED))
    }

    /// Takes one disruption out of the budget of a pod; a dry run only checks that there is one.
    ///
    /// # Errors
    /// 429 if the budget allows none; 500 if several budgets cover the pod.
    async fn spend_budget(
        &self,
        pod: &Value,
        namespace: Option<&str>,
        dry_run: bool,
    ) -> Result<BudgetDecision, ApiError> {
        let Some(budgets) = self.catalog().kind("policy", "v1", "poddisruptionbudgets") else {
            return Ok(BudgetDecision::Allowed);
        };
        let labels = at(pod, "/metadata/labels").cloned().unwrap_or_default();
        let covers = |budget: &Arc<Encoded>| {
            let budget = budget.to_value();
            let selector = at(&budget, "/spec/selector").cloned();
            selector.is_some_and(|it| selects(&it, &labels))
        };
        let mut matching = self.list(&budgets, namespace).into_iter().filter(covers);
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
        let now = self.source.stamp();
        let mut refusal = None;
        let place = ObjectRef::of(&budgets, budget.key()).part("status");
        self.change(&place, &Writer::server("kube-apiserver"), |budget| {
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
}

/// Returns the options of the deletion that an eviction asks for.
fn options_of(eviction: &Value) -> DeleteOptions {
    let chosen = |pointer: &str| Some(text(eviction, pointer).to_owned()).filter(|it| !it.is_empty());
    DeleteOptions {
        grace: number(eviction, "/deleteOptions/gracePeriodSeconds"),
        propagation: match text(eviction, "/deleteOptions/propagationPolicy") {
            "Foreground" => Some(Propagation::Foreground),
            "Background" => Some(Propagation::Background),
            "Orphan" => Some(Propagation::Orphan),
            _ => None,
        },
        uid: chosen("/deleteOptions/preconditions/uid"),
        version: chosen("/deleteOptions/preconditions/resourceVersion"),
        ..DeleteOptions::default()
    }
}

/// Returns true if an object has the uid that the options require, if they require one.
fn has_uid(options: &DeleteOptions, object: &Encoded) -> bool {
    options.uid.as_deref().is_none_or(|it| it == object.uid())
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
fn unprocessed(name: &str) -> ApiError {
    let mut refusal = violated();
    refusal.0.details.get_or_insert_default().retry_after_seconds = RETRY_AFTER_SECONDS;
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    refusal.cause("DisruptionBudget", &cause, "")
}

fn violated() -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(Reason::TooManyRequests, message)
}
