//! The eviction of a pod: a deletion that the disruption budget of the pod must allow. Mirrors
//! k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/storage/eviction.go.

use serde_json::{Value, json};

use super::commit::{ATTEMPTS, Attempt};
use super::disruption_budget::{BudgetDecision, spend_budget, unprocessed};
use super::object_fields::{set_condition, success};
use super::write::{Owning, Write};
use super::{Cluster, DeleteOptions, ObjectRef, Propagation, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::{at, items, number, text};
use crate::store::Encoded;

/// The eviction of one pod.
#[derive(Debug)]
pub(super) struct Eviction<'a> {
    cluster: &'a Cluster,
    place: &'a ObjectRef<'a>,
    /// The options of the deletion.
    options: DeleteOptions,
    /// The client. A dry run if the request or the options of the deletion ask for one.
    writer: Writer,
}

impl<'a> Eviction<'a> {
    /// Returns the eviction that an Eviction object asks for.
    pub(super) fn of(
        cluster: &'a Cluster,
        place: &'a ObjectRef<'a>,
        eviction: &Value,
        writer: &Writer,
    ) -> Self {
        let dry_run = writer.dry_run || !items(eviction, "/deleteOptions/dryRun").is_empty();
        let writer = Writer { dry_run, ..writer.clone() };
        Self { cluster, place, options: options_of(eviction), writer }
    }
}

impl Eviction<'_> {
    /// Deletes the pod if its disruption budget allows it.
    ///
    /// Mirrors `EvictionREST.Create` in k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/pod/storage/eviction.go.
    pub(super) async fn run(&self) -> Result<WriteOutcome, ApiError> {
        let (cluster, place) = (self.cluster, self.place);
        let evicted = || WriteOutcome::value(success(), true);
        for _ in 0..ATTEMPTS {
            let current =
                cluster.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
            let pod = current.to_value();
            let pinned =
                DeleteOptions { version: Some(current.version().to_string()), ..self.options.clone() };
            let terminating = at(&pod, "/metadata/deletionTimestamp").is_some();
            match text(&pod, "/status/phase") {
                "Succeeded" | "Failed" => {}
                _ if terminating => {}
                // It may become ready at any moment, so it is deleted in this state only.
                "Pending" if self.options.version.is_none() => match self.delete(&pinned).await {
                    Err(refusal) if refusal.0.is_conflict() && has_uid(&self.options, &current) => continue,
                    deleted => return deleted.map(|()| evicted()),
                },
                "Pending" => {}
                _ => match spend_budget(cluster, &pod, place.namespace, self.writer.dry_run).await? {
                    BudgetDecision::Allowed => {}
                    BudgetDecision::Unhealthy(_) if self.options.version.is_some() => {}
                    BudgetDecision::Unhealthy(budget) => {
                        return match self.delete(&pinned).await {
                            Err(refusal) if refusal.0.is_conflict() => Err(unprocessed(&budget)),
                            deleted => deleted.map(|()| evicted()),
                        };
                    }
                },
            }
            self.delete(&self.options).await?;
            return Ok(evicted());
        }
        Err(place.kind.modified(place.name))
    }

    /// Deletes the pod after setting the condition that says why. Calls no webhooks: they have
    /// reviewed the Eviction.
    async fn delete(&self, options: &DeleteOptions) -> Result<(), ApiError> {
        let mut options = options.clone();
        if !self.writer.dry_run {
            let marked = self.mark(&options).await?;
            // The precondition has been checked, and the version is a new one since then.
            options.version = options.version.map(|_| marked);
        }
        self.cluster.delete(self.place, &options, &self.writer).await?;
        Ok(())
    }

    /// Sets the condition that says why the pod is deleted. Returns the version of the pod after
    /// that.
    async fn mark(&self, options: &DeleteOptions) -> Result<String, ApiError> {
        let (cluster, place) = (self.cluster, self.place);
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": cluster.source.stamp() });
        for _ in 0..ATTEMPTS {
            let current =
                cluster.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
            options.check_preconditions(place, &current)?;
            let old = place.kind.show(&current);
            let mut new = old.clone();
            set_condition(&mut new, condition.clone());
            let write = Write::change(cluster, place, (&current, &old), new, &self.writer);
            match write.owning(Owning::Settled).attempt().await? {
                Attempt::Done(written) => {
                    let object = written.object.to_value(place.kind);
                    return Ok(text(&object, "/metadata/resourceVersion").to_owned());
                }
                Attempt::Again => {}
            }
        }
        Err(place.kind.modified(place.name))
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
