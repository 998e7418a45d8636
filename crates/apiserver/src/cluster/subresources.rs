//! Subresources with behaviour of their own: binding, eviction, tokens; and reads of all
//! subresources. The messages about pods are those of k8s.io/kubernetes v1.36.4
//! pkg/registry/core/pod.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::{Value, json};

use super::pipeline::{Owning, metadata_mut, object_mut};
use super::place::MODIFIED;
use super::selector::selects;
use super::update::{ATTEMPTS, Attempt};
use super::{Cluster, DeleteOptions, ObjectRef, Propagation, ResponseObject, WriteOutcome, Writer};
use crate::api_error::ApiError;
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::{POD, SERVICE};
use crate::store::Encoded;

/// The seconds after which the eviction of a pod may be retried if its budget has not been observed
/// yet.
const RETRY_AFTER_SECONDS: u32 = 10;

impl Cluster {
    /// Returns an object, or a subresource such as its Scale.
    ///
    /// # Errors
    /// 404 if there is no such object; the error of reading the subresource.
    pub fn read_part(&self, place: &ObjectRef<'_>) -> Result<ResponseObject, ApiError> {
        let current = self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
        match place.part {
            "scale" => Self::read_scale(place, &current).map(ResponseObject::Value),
            "log" => Err(self.unreachable(place, &current)),
            _ => Ok(ResponseObject::Stored(current)),
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

    /// Assigns a pod to a node.
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
        if node.is_empty() {
            return Err(ApiError::unexplained("target.name: Required value"));
        }
        for _ in 0..ATTEMPTS {
            let current = self.get(&pods, &key).ok_or_else(|| pods.not_found(pod))?;
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
            match self.attempt(&pod_place, &current, &old, new, writer, Owning::Settled).await? {
                Attempt::Done(_) => return Ok(WriteOutcome::value(success(), true)),
                Attempt::Again => {}
            }
        }
        Err(pods.conflict(pod, MODIFIED))
    }

    /// Deletes a pod if its disruption budget allows it.
    async fn evict(
        &self,
        place: &ObjectRef<'_>,
        eviction: &Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let key = place.key()?;
        let current = self.get(place.kind, &key).ok_or_else(|| place.kind.not_found(place.name))?;
        let pod = current.to_value();
        let done = matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed" | "Pending")
            || at(&pod, "/metadata/deletionTimestamp").is_some();
        if !done && !writer.dry_run {
            self.spend_budget(&pod, place.namespace, writer).await?;
        }
        let chosen = |pointer: &str| Some(text(eviction, pointer).to_owned()).filter(|it| !it.is_empty());
        let options = DeleteOptions {
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
        };
        let dry_run = writer.dry_run || !items(eviction, "/deleteOptions/dryRun").is_empty();
        let writer = Writer { dry_run, ..writer.clone() };
        if !dry_run && options.uid.as_deref().is_none_or(|it| it == current.uid()) {
            self.mark_evicted(place, &writer).await?;
        }
        self.delete(&ObjectRef { part: "", ..*place }, &options, &writer).await?;
        Ok(WriteOutcome::value(success(), true))
    }

    /// Sets the condition that says why a pod is deleted.
    async fn mark_evicted(&self, place: &ObjectRef<'_>, writer: &Writer) -> Result<(), ApiError> {
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.source.stamp() });
        let place = ObjectRef { part: "status", ..*place };
        self.change(&place, writer, |pod| {
            set_condition(pod, condition.clone());
            true
        })
        .await?;
        Ok(())
    }

    /// Takes one disruption out of the budget of a pod.
    ///
    /// # Errors
    /// 429 if the budget allows none; 500 if several budgets cover the pod.
    async fn spend_budget(
        &self,
        pod: &Value,
        namespace: Option<&str>,
        writer: &Writer,
    ) -> Result<(), ApiError> {
        let Some(budgets) = self.catalog().kind("policy", "v1", "poddisruptionbudgets") else {
            return Ok(());
        };
        let labels = at(pod, "/metadata/labels").cloned().unwrap_or_default();
        let covers = |budget: &Arc<Encoded>| {
            let budget = budget.to_value();
            let selector = at(&budget, "/spec/selector").cloned();
            selector.is_some_and(|it| selects(&it, &labels))
        };
        let mut matching = self.list(&budgets, namespace).into_iter().filter(covers);
        let Some(budget) = matching.next() else { return Ok(()) };
        if matching.next().is_some() {
            return Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let pod_name = text(pod, "/metadata/name").to_owned();
        let (name, now) = (budget.key().name().to_owned(), self.source.stamp());
        let mut refusal = None;
        let place = ObjectRef::of(&budgets, budget.key()).part("status");
        self.change(&place, writer, |budget| {
            let allowed = number(budget, "/status/disruptionsAllowed").unwrap_or(0);
            let stale = number(budget, "/status/observedGeneration").unwrap_or(0)
                < number(budget, "/metadata/generation").unwrap_or(0);
            refusal = (allowed <= 0 || stale).then(|| violates(budget, &name, stale));
            if refusal.is_some() {
                return false;
            }
            budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
            budget["status"]["disruptedPods"][&pod_name] = now.as_str().into();
            true
        })
        .await?;
        refusal.map_or(Ok(()), Err)
    }
}

/// Returns the 429 for a budget that is exhausted, or `stale`: its controller has not observed it
/// yet.
fn violates(budget: &Value, name: &str, stale: bool) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut refusal = ApiError::new(Reason::TooManyRequests, message);
    if stale {
        refusal.0.details.get_or_insert_default().retry_after_seconds = RETRY_AFTER_SECONDS;
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return refusal.cause("DisruptionBudget", &cause, "");
    }
    let healthy = number(budget, "/status/currentHealthy").unwrap_or(0);
    let desired = number(budget, "/status/desiredHealthy").unwrap_or(0);
    let cause =
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
    refusal.cause("DisruptionBudget", &cause, "")
}

/// Sets a condition, replacing the one of its type.
fn set_condition(pod: &mut Value, condition: Value) {
    let mut conditions = items(pod, "/status/conditions").to_vec();
    conditions.retain(|it| text(it, "/type") != text(&condition, "/type"));
    conditions.push(condition);
    object_mut(pod, "status").insert("conditions".to_owned(), conditions.into());
}

/// Returns the response to a request that succeeded and has no object to show.
fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
