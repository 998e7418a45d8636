//! Subresources with behaviour of their own: binding, eviction, tokens; and reads of all
//! subresources. The messages about pods are those of k8s.io/kubernetes v1.36.4
//! pkg/registry/core/pod.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::{Value, json};

use super::commit::Attempt;
use super::delete::check_preconditions;
use super::object_fields::{metadata_mut, object_mut};
use super::place::MODIFIED;
use super::preconditions::check_stored;
use super::selector::selects;
use super::update::ATTEMPTS;
use super::write::{Owning, Write};
use super::{Cluster, DeleteOptions, ObjectRef, Propagation, ResponseObject, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::{POD, SERVICE};
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
    /// Returns an object, or a subresource such as its Scale.
    ///
    /// # Errors
    /// 404 if there is no such object; the error of reading the subresource.
    pub async fn read_part(&self, place: &ObjectRef<'_>) -> Result<ResponseObject, ApiError> {
        let current = self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
        match place.part {
            "scale" => self.read_scale(place, &current).await.map(ResponseObject::Value),
            "log" => Err(self.unreachable(place, &current)),
            _ => self.ready_to_respond(place.kind, ResponseObject::Stored(current)).await,
        }
    }

    /// Returns the error of a request that needs a connection to a pod, a service or a node:
    /// `exec`, `attach`, `portforward` or `proxy`. There always is one, since no kubelet runs
    /// containers for this server.
    pub fn refuse_connection(&self, place: &ObjectRef<'_>, container: Option<&str>) -> ApiError {
        let refuse = || {
            self.check_container(place, container)?;
            self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))
        };
        refuse().map_or_else(|refusal| refusal, |current| self.unreachable(place, &current))
    }

    /// Checks that the container of a request is one of the pod. Passes for subresources that are
    /// not about a container.
    ///
    /// # Errors
    /// 404 if there is no such pod; 400 if there is no such container, or none is named and the pod
    /// has several.
    pub fn check_container(&self, place: &ObjectRef<'_>, container: Option<&str>) -> Result<(), ApiError> {
        if !matches!(place.part, "log" | "exec" | "attach") {
            return Ok(());
        }
        let pod =
            self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?.to_value();
        let lists = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
        let names: Vec<&str> =
            lists.iter().flat_map(|it| items(&pod, it)).map(|it| text(it, "/name")).collect();
        match container.filter(|it| !it.is_empty()) {
            Some(name) if !names.contains(&name) => {
                Err(ApiError::bad_request(format!("container {name} is not valid for pod {}", place.name)))
            }
            // Init containers do not make the choice ambiguous: kube-apiserver takes the only
            // regular container.
            None if items(&pod, "/spec/containers").len() > 1 => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                place.name,
                names.join(" ")
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the error of reading from inside a pod, a node or a service: no kubelet runs here.
    fn unreachable(&self, place: &ObjectRef<'_>, current: &Arc<Encoded>) -> ApiError {
        let node = if place.kind.is(&POD) {
            current.field("spec.nodeName").unwrap_or_default()
        } else {
            current.key().name()
        };
        if place.kind.is(&SERVICE) {
            let message = format!("no endpoints available for service {:?}", place.name);
            return ApiError::new(Reason::ServiceUnavailable, message);
        }
        if node.is_empty() {
            return ApiError::bad_request(format!("pod {} does not have a host assigned", place.name));
        }
        let found = dogwatch_core::ObjectKey::from_parts(None, node).ok();
        match found.and_then(|key| self.store().get(&"/nodes".into(), &key)) {
            None => ApiError::not_found("", "nodes", node),
            Some(_) => ApiError::internal(format!(
                "error dialing backend: node {node:?} has no kubelet: this server runs no containers, so {} is not available",
                place.part
            )),
        }
    }

    /// Executes the creation of a subresource.
    pub(super) async fn create_part(
        &self,
        place: &ObjectRef<'_>,
        object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let misnamed = text(&object, "/metadata/name") != place.name;
        let about =
            |what: &str| ApiError::bad_request(format!("name in URL does not match name in {what} object"));
        match place.part {
            "binding" if misnamed => Err(about("Binding")),
            "binding" => self.bind(place, place.name, &object, writer).await,
            "eviction" if misnamed => Err(about("Eviction")),
            "eviction" => self.evict(place, &object, writer).await,
            "token" => self.request_token(&place.key()?, &object).map(|it| WriteOutcome::value(it, true)),
            _ => Err(self.unreachable(
                place,
                &self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?,
            )),
        }
    }

    /// Assigns a pod to a node. The uid and the version of the binding, if any, must be those of the
    /// pod.
    pub(super) async fn bind(
        &self,
        place: &ObjectRef<'_>,
        pod: &str,
        binding: &Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let pods =
            self.catalog().kind("", "v1", "pods").ok_or_else(|| ApiError::internal("there are no pods"))?;
        let key = place.key_of(pod)?;
        let pod_place = ObjectRef::of(&pods, &key).part("binding");
        let node = text(binding, "/target/name");
        check_target(text(binding, "/target/kind"), node)?;
        let wanted = (text(binding, "/metadata/uid"), text(binding, "/metadata/resourceVersion"));
        for _ in 0..ATTEMPTS {
            let current = self.get(&pods, &key).ok_or_else(|| pods.not_found(pod))?;
            check_stored(&pods, &key, wanted, Some(&current))?;
            let old = current.to_value();
            let refused = |why: String| ApiError::conflict("", "pods/binding", pod, &why);
            if at(&old, "/metadata/deletionTimestamp").is_some() {
                return Err(refused(format!("pod {pod} is being deleted, cannot be assigned to a host")));
            }
            if !text(&old, "/spec/nodeName").is_empty() {
                let assigned = text(&old, "/spec/nodeName");
                return Err(refused(format!("pod {pod} is already assigned to node {assigned:?}")));
            }
            if !items(&old, "/spec/schedulingGates").is_empty() {
                return Err(refused(format!("pod {pod} has non-empty .spec.schedulingGates")));
            }
            let mut new = old.clone();
            object_mut(&mut new, "spec").insert("nodeName".to_owned(), node.into());
            object_mut(&mut new, "status").remove("nominatedNodeName");
            for (pointer, field) in [("/metadata/annotations", "annotations"), ("/metadata/labels", "labels")]
            {
                for (name, value) in entries(binding, pointer) {
                    let metadata = metadata_mut(&mut new);
                    crate::kinds::json_access::object(metadata, field).insert(name.to_owned(), value.clone());
                }
            }
            set_condition(
                &mut new,
                json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": self.source.stamp() }),
            );
            let write = Write::change(self, &pod_place, (&current, &old), new, writer);
            match write.owning(Owning::Settled).attempt().await? {
                Attempt::Done(_) => return Ok(WriteOutcome::value(success(), true)),
                Attempt::Again => {}
            }
        }
        Err(pods.conflict(pod, MODIFIED))
    }

    /// Deletes a pod if its disruption budget allows it.
    ///
    /// Mirrors `EvictionREST.Create` in k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/pod/storage/eviction.go.
    async fn evict(
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
            check_preconditions(place, options, &current)?;
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

/// Checks the target of a binding: `ValidatePodBinding` in k8s.io/kubernetes v1.36.4
/// pkg/apis/core/validation/validation.go.
fn check_target(kind: &str, name: &str) -> Result<(), ApiError> {
    let kind = (!matches!(kind, "" | "Node"))
        .then(|| format!(r#"target.kind: Unsupported value: {kind:?}: supported values: "Node", "<empty>""#));
    let name = name.is_empty().then(|| "target.name: Required value".to_owned());
    let problems: Vec<String> = kind.into_iter().chain(name).collect();
    match problems.as_slice() {
        [] => Ok(()),
        [problem] => Err(ApiError::unexplained(problem.clone())),
        several => Err(ApiError::unexplained(format!("[{}]", several.join(", ")))),
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

/// Sets a condition in the place of the one of its type. The time of the transition is kept if the
/// status is the same.
fn set_condition(object: &mut Value, mut condition: Value) {
    let mut conditions = items(object, "/status/conditions").to_vec();
    match conditions.iter_mut().find(|it| text(it, "/type") == text(&condition, "/type")) {
        Some(known) => {
            if let Some(since) = at(known, "/lastTransitionTime")
                && text(known, "/status") == text(&condition, "/status")
            {
                condition["lastTransitionTime"] = since.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
    object_mut(object, "status").insert("conditions".to_owned(), conditions.into());
}

/// Returns the response to a request that succeeded and has no object to show.
fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
