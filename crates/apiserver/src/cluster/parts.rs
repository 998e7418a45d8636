//! Parts of objects that are more than a view: binding, eviction, tokens; and reading all of them.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::{Value, json};

use super::pipeline::{Owning, metadata_mut, object_mut};
use super::update::{ATTEMPTS, Attempt, MODIFIED};
use super::{Cluster, DeleteOptions, Place, Propagation, Shown, Writer, Written};
use crate::kinds::look::{at, entries, items, number, text};
use crate::refusal::Refusal;
use crate::store::Encoded;

impl Cluster {
    /// An object, or a part of it such as its Scale.
    ///
    /// # Errors
    /// 404 when there is none; whatever keeps the part from being read.
    pub fn read_part(&self, place: &Place<'_>) -> Result<Shown, Refusal> {
        let current = self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
        match place.part {
            "scale" => Self::read_scale(place, &current).map(Shown::Value),
            "log" | "exec" | "attach" | "portforward" | "proxy" => Err(self.unreachable(place, &current)),
            _ => Ok(Shown::Stored(current)),
        }
    }

    /// Why nothing can be had from inside a pod, a node or a service: no kubelet runs here.
    fn unreachable(&self, place: &Place<'_>, current: &Arc<Encoded>) -> Refusal {
        let node = match place.kind.def.plural.as_str() {
            "pods" => current.field("spec.nodeName").unwrap_or_default(),
            _ => current.key().name(),
        };
        if place.kind.is("", "services") {
            let message = format!("no endpoints available for service {:?}", place.name);
            return Refusal::new(Reason::ServiceUnavailable, message);
        }
        if node.is_empty() {
            return Refusal::bad_request(format!("pod {} does not have a host assigned", place.name));
        }
        let found = dogwatch_core::ObjectKey::from_parts(None, node).ok();
        match found.and_then(|key| self.store().get(&"/nodes".into(), &key)) {
            None => Refusal::not_found("", "nodes", node),
            Some(_) => Refusal::internal(format!("no kubelet answers on node {node:?}")),
        }
    }

    /// Asks for what a part of an object does.
    pub(super) async fn create_part(
        &self,
        place: &Place<'_>,
        object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        match place.part {
            "binding" => self.bind(place, place.name, &object, writer).await,
            "eviction" => self.evict(place, &object, writer).await,
            "token" => self.request_token(&place.key()?, &object).map(|it| Written::value(it, true)),
            _ => Err(self.unreachable(
                place,
                &self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?,
            )),
        }
    }

    /// Assigns a pod to a node.
    pub(super) async fn bind(
        &self,
        place: &Place<'_>,
        pod: &str,
        binding: &Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        let pods =
            self.catalog().kind("", "v1", "pods").ok_or_else(|| Refusal::internal("there are no pods"))?;
        let key = place.key_of(pod)?;
        let pod_place = Place::of(&pods, &key).part("binding");
        let node = text(binding, "/target/name");
        if node.is_empty() {
            let problem = crate::Problem::new("target.name", crate::ProblemKind::Required, "");
            return Err(Refusal::invalid("", "Binding", pod, &[problem]));
        }
        for _ in 0..ATTEMPTS {
            let current = self.get(&pods, &key).ok_or_else(|| pods.not_found(pod))?;
            let old = current.to_value();
            let refused = |why: String| Refusal::conflict("", "pods/binding", pod, &why);
            if at(&old, "/metadata/deletionTimestamp").is_some() {
                return Err(refused(format!("pod {pod} is being deleted, cannot be assigned to a host")));
            }
            if !text(&old, "/spec/nodeName").is_empty() {
                let assigned = text(&old, "/spec/nodeName");
                return Err(refused(format!("pod {pod} is already assigned to node {assigned:?}")));
            }
            let mut new = old.clone();
            object_mut(&mut new, "spec").insert("nodeName".to_owned(), node.into());
            for (name, value) in entries(binding, "/metadata/annotations") {
                let metadata = metadata_mut(&mut new);
                let annotations = crate::kinds::look::object(metadata, "annotations");
                annotations.insert(name.to_owned(), value.clone());
            }
            set_condition(&mut new, "PodScheduled", &self.source.stamp());
            match self.attempt(&pod_place, &current, &old, new, writer, Owning::Settled).await? {
                Attempt::Done(_) => return Ok(Written::value(success(), true)),
                Attempt::Again => {}
            }
        }
        Err(pods.conflict(pod, MODIFIED))
    }

    /// Deletes a pod, if its budget allows.
    async fn evict(&self, place: &Place<'_>, eviction: &Value, writer: &Writer) -> Result<Written, Refusal> {
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
        self.delete(&Place { part: "", ..*place }, &options, &writer).await?;
        Ok(Written::value(success(), true))
    }

    /// Takes one disruption out of the budget of a pod, or refuses.
    async fn spend_budget(
        &self,
        pod: &Value,
        namespace: Option<&str>,
        writer: &Writer,
    ) -> Result<(), Refusal> {
        let Some(budgets) = self.catalog().kind("policy", "v1", "poddisruptionbudgets") else {
            return Ok(());
        };
        let labels: std::collections::BTreeMap<String, String> = entries(pod, "/metadata/labels")
            .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let covers = |budget: &Arc<Encoded>| {
            let budget = budget.to_value();
            let selector = at(&budget, "/spec/selector").cloned();
            selector.is_some_and(|it| selects(&it, &labels))
        };
        let mut matching = self.list(&budgets, namespace).into_iter().filter(covers);
        let Some(budget) = matching.next() else { return Ok(()) };
        if matching.next().is_some() {
            return Err(Refusal::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let pod_name = text(pod, "/metadata/name").to_owned();
        let (name, now) = (budget.key().name().to_owned(), self.source.stamp());
        let mut refusal = None;
        let place = Place::of(&budgets, budget.key()).part("status");
        self.change(&place, writer, |budget| {
            let allowed = number(budget, "/status/disruptionsAllowed").unwrap_or(0);
            let stale = number(budget, "/status/observedGeneration").unwrap_or(0)
                < number(budget, "/metadata/generation").unwrap_or(0);
            refusal = (allowed <= 0 || stale).then(|| violates(budget, &name));
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

fn violates(budget: &Value, name: &str) -> Refusal {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let refusal = Refusal::new(Reason::TooManyRequests, message);
    let healthy = number(budget, "/status/currentHealthy").unwrap_or(0);
    let desired = number(budget, "/status/desiredHealthy").unwrap_or(0);
    let cause =
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
    refusal.cause("DisruptionBudget", &cause, "")
}

/// Whether a selector as objects hold it selects these labels.
fn selects(selector: &Value, labels: &std::collections::BTreeMap<String, String>) -> bool {
    let equal = entries(selector, "/matchLabels")
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    let expressed = items(selector, "/matchExpressions").iter().all(|it| {
        let has = labels.get(text(it, "/key"));
        let listed =
            has.is_some_and(|label| items(it, "/values").iter().any(|value| value == label.as_str()));
        match text(it, "/operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => has.is_some(),
            _ => has.is_none(),
        }
    });
    equal && expressed
}

fn set_condition(pod: &mut Value, kind: &str, now: &str) {
    let mut conditions = items(pod, "/status/conditions").to_vec();
    conditions.retain(|it| text(it, "/type") != kind);
    conditions
        .push(json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now }));
    object_mut(pod, "status").insert("conditions".to_owned(), conditions.into());
}

/// The answer of what is done and leaves nothing to show.
fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
