//! The delete verb: an object is removed at once, or when its finalizers are gone and its grace
//! period is over.
//!
//! `deletion_step.rs` decides what a deletion does next; this file performs it.

use std::sync::Arc;

use serde_json::Value;

use super::admission_attributes::AdmissionAttributes;
use super::after_removal::after_removal;
use super::commit::ATTEMPTS;
use super::delete_options::warning_of_deleting;
use super::deletion_step::{DeletionStep, next_step};
use super::namespaces::refuse_protected;
use super::place::MODIFIED;
use super::{Admission, Cluster, DeleteOptions, ObjectRef, ResponseObject, Writer};
use crate::ApiError;
use crate::registry::Kind;
use crate::store::{Draft, Encoded, Expect};

/// The outcome of a deletion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Deleted {
    /// The object was removed.
    Gone {
        /// The last state of the object.
        object: ResponseObject,
        /// The uid of the object.
        uid: String,
        /// True if the response is the object rather than a Status.
        shows_object: bool,
        /// Warnings for the client.
        warnings: Vec<String>,
    },
    /// The object is removed when its finalizers are gone and its grace period is over.
    Going {
        /// The current state of the object.
        object: ResponseObject,
        /// True if the response has status 202.
        accepted: bool,
        /// Warnings for the client.
        warnings: Vec<String>,
    },
}

/// The deletion of one object.
struct Deletion<'a> {
    cluster: &'a Cluster,
    place: &'a ObjectRef<'a>,
    options: &'a DeleteOptions,
    writer: &'a Writer,
    admission: Admission,
}

impl Cluster {
    /// Deletes an object, or marks it as being deleted.
    ///
    /// # Errors
    /// 404 if there is no such object, 409 if a precondition fails, 403 if it must not be deleted.
    pub async fn delete(
        &self,
        place: &ObjectRef<'_>,
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<Deleted, ApiError> {
        refuse_system_class(place)?;
        self.delete_as(place, options, writer, Admission::Review).await
    }

    /// Deletes an object like [`Self::delete`], with or without admission webhooks. Deletes priority
    /// classes of the system too, as a deletion of all classes does in kube-apiserver.
    ///
    /// # Errors
    /// Those of [`Self::delete`].
    pub(crate) async fn delete_as(
        &self,
        place: &ObjectRef<'_>,
        options: &DeleteOptions,
        writer: &Writer,
        admission: Admission,
    ) -> Result<Deleted, ApiError> {
        Deletion { cluster: self, place, options, writer, admission }.run().await
    }

    /// Deletes listed objects one after the other. Objects that are gone already are skipped.
    ///
    /// # Errors
    /// The error of the first object that cannot be deleted; the objects after it are kept.
    pub async fn delete_listed(
        &self,
        kind: &Kind,
        listed: &[Arc<Encoded>],
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<(), ApiError> {
        for object in listed {
            let place = ObjectRef::of(kind, object.key());
            match self.delete_as(&place, options, writer, Admission::Review).await {
                Err(refusal) if !refusal.0.is_not_found() => return Err(refusal),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Deletion<'_> {
    /// Performs one step after the other until the object is removed, or is being deleted. Another
    /// write in between repeats the last step on the new state.
    async fn run(self) -> Result<Deleted, ApiError> {
        let (cluster, place, kind) = (self.cluster, self.place, self.place.kind);
        refuse_protected(place)?;
        // The state that this deletion has stored before it removes the object.
        let mut own: Option<Arc<Encoded>> = None;
        let said: Vec<String> =
            warning_of_deleting(kind, self.options).map(str::to_owned).into_iter().collect();
        for _ in 0..ATTEMPTS {
            let current = cluster.get(kind, &place.key()?);
            // Another request was faster to remove the object, as the kubelet often is. That is no
            // error: `ignoreNotFound` in k8s.io/apiserver v0.36.4
            // pkg/registry/generic/registry/store.go.
            if let Some(own) = own.take_if(|it| current.as_ref().is_none_or(|now| now.uid() != it.uid())) {
                return Ok(self.gone(&own, ResponseObject::Stored(Arc::clone(&own)), said));
            }
            let current = current.ok_or_else(|| kind.not_found(place.name))?;
            self.options.check_preconditions(place, &current)?;
            let mut warnings = said.clone();
            warnings.extend(self.review(&current).await?);
            match next_step(kind, &current.to_value(), self.options, cluster.source.now()) {
                DeletionStep::Wait => return Ok(self.going(ResponseObject::Stored(current), warnings)),
                DeletionStep::Remove => {
                    if let Some(last) = self.remove(&current).await {
                        return Ok(self.gone(&current, ResponseObject::Stored(last), warnings));
                    }
                }
                DeletionStep::Mark { object, then_remove } if self.writer.dry_run => {
                    let shown = cluster.conversion().show_value(kind, object).await?;
                    let shown = ResponseObject::Value(shown);
                    return Ok(match then_remove {
                        true => self.gone(&current, shown, warnings),
                        false => self.going(shown, warnings),
                    });
                }
                DeletionStep::Mark { object, then_remove } => {
                    let Some(marked) = self.mark(&current, object).await? else { continue };
                    if !then_remove {
                        return Ok(self.going(ResponseObject::Stored(marked), warnings));
                    }
                    own = Some(Arc::clone(&marked));
                    if let Some(last) = self.remove(&marked).await {
                        return Ok(self.gone(&marked, ResponseObject::Stored(last), warnings));
                    }
                }
            }
        }
        Err(kind.conflict(place.name, MODIFIED))
    }

    /// Calls the admission webhooks. Returns their warnings.
    async fn review(&self, current: &Encoded) -> Result<Vec<String>, ApiError> {
        let (place, webhooks) = (self.place, self.cluster.webhooks());
        // For an eviction, the webhooks have been called with the Eviction.
        let is_reviewed = self.admission == Admission::Review && place.part != "eviction";
        if !is_reviewed || !webhooks.are_configured() {
            return Ok(Vec::new());
        }
        let old = self.cluster.conversion().show(place.kind, current).await?;
        let asked = AdmissionAttributes::delete(place, &old, self.writer, self.options.to_value());
        let mut warnings = webhooks.mutate(&asked, &mut None).await?;
        warnings.extend(webhooks.approve(&asked, None).await?);
        Ok(warnings)
    }

    /// Stores a state that marks the object as being deleted. Returns `None` on a conflict with
    /// another write.
    async fn mark(&self, current: &Arc<Encoded>, object: Value) -> Result<Option<Arc<Encoded>>, ApiError> {
        let (cluster, kind) = (self.cluster, self.place.kind);
        let draft = stored_draft(kind, object)?;
        if draft.says_what(current) {
            return Ok(Some(Arc::clone(current)));
        }
        let expect = Expect::At(current.version());
        let marked = cluster.storage.commit(&kind.collection, current.key(), expect, Some(draft)).await.ok();
        if marked.is_some() {
            cluster.definitions().changed(kind).await;
        }
        Ok(marked)
    }

    /// Removes the object, unless this is a dry run. Returns its last state, or `None` on a conflict
    /// with another write.
    async fn remove(&self, current: &Arc<Encoded>) -> Option<Arc<Encoded>> {
        let (cluster, kind) = (self.cluster, self.place.kind);
        if self.writer.dry_run {
            return Some(Arc::clone(current));
        }
        let expect = Expect::At(current.version());
        let last = cluster.storage.commit(&kind.collection, current.key(), expect, None).await.ok()?;
        after_removal(cluster, kind, current).await;
        Some(last)
    }

    fn gone(&self, current: &Encoded, object: ResponseObject, warnings: Vec<String>) -> Deleted {
        Deleted::Gone {
            object,
            uid: current.uid().to_owned(),
            shows_object: self.place.kind.traits.returns_deleted_object,
            warnings,
        }
    }

    fn going(&self, object: ResponseObject, warnings: Vec<String>) -> Deleted {
        Deleted::Going { object, accepted: self.options.orphan_dependents == Some(false), warnings }
    }
}

/// Encodes a value that is in its stored form.
fn stored_draft(kind: &Kind, object: Value) -> Result<Draft, ApiError> {
    match kind.converted_by_webhook() {
        Some(_) => kind.stored_draft(&object),
        None => kind.draft(&kind.shown(object)?),
    }
}

/// Rejects the deletion of a priority class that pods of the system need.
fn refuse_system_class(place: &ObjectRef<'_>) -> Result<(), ApiError> {
    let def = &place.kind.def;
    let is_class = (def.group.as_str(), def.plural.as_str()) == ("scheduling.k8s.io", "priorityclasses");
    if is_class && matches!(place.name, "system-node-critical" | "system-cluster-critical") {
        let why = "this is a system priority class and cannot be deleted";
        return Err(ApiError::forbidden(&def.group, &def.plural, place.name, why));
    }
    Ok(())
}
