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
use super::{Admission, Cluster, DeleteOptions, ObjectRef, ResponseObject, Writer};
use crate::ApiError;
use crate::kinds::rules::Undeletable;
use crate::registry::Kind;
use crate::store::{Draft, Encoded, Expect};

/// The number of objects of a collection that are deleted before other tasks run.
const OBJECTS_PER_TURN: usize = 64;

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
    follow: FollowDefinitions,
}

/// The time at which the served kinds follow a deleted definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowDefinitions {
    /// After each change.
    AtOnce,
    /// When the caller decides, which deletes many.
    Later,
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
        refuse_undeletable(place, |_| true)?;
        self.delete_as(place, options, writer, Admission::Review).await
    }

    /// Deletes an object like [`Self::delete`], with or without admission webhooks. Deletes
    /// priority classes of the system too, as a deletion of all classes does in kube-apiserver.
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
        let follow = FollowDefinitions::AtOnce;
        Deletion { cluster: self, place, options, writer, admission, follow }.run().await
    }

    /// Deletes listed objects one after the other. Objects that are gone already are skipped. Other
    /// tasks run in between.
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
        // Following a definition costs as much as there are definitions, so it is done for many
        // deletions at a time.
        let definitions = self.definitions().refresh_on_drop(kind);
        let (admission, follow) = (Admission::Review, FollowDefinitions::Later);
        let mut outcome = Ok(());
        for (at, object) in listed.iter().enumerate() {
            if at > 0 && at % OBJECTS_PER_TURN == 0 {
                definitions.iter().for_each(|it| it.refresh());
                // Deletions often complete without waiting.
                tokio::task::yield_now().await;
            }
            let place = &ObjectRef::of(kind, object.key());
            let deletion = Deletion { cluster: self, place, options, writer, admission, follow };
            match deletion.run().await {
                Err(refusal) if !refusal.0.is_not_found() => {
                    outcome = Err(refusal);
                    break;
                }
                _ => {}
            }
        }
        self.definitions().changed(kind).await;
        outcome
    }
}

impl Deletion<'_> {
    /// Performs one step after the other until the object is removed, or is being deleted. Another
    /// write in between repeats the last step on the new state.
    async fn run(self) -> Result<Deleted, ApiError> {
        let (cluster, place, kind) = (self.cluster, self.place, self.place.kind);
        refuse_undeletable(place, |it| it.in_collections)?;
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
        Err(kind.modified(place.name))
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
            self.follow_definitions().await;
        }
        Ok(marked)
    }

    /// Removes the object, unless this is a dry run. Returns its last state, or `None` on a
    /// conflict with another write.
    async fn remove(&self, current: &Arc<Encoded>) -> Option<Arc<Encoded>> {
        let (cluster, kind) = (self.cluster, self.place.kind);
        if self.writer.dry_run {
            return Some(Arc::clone(current));
        }
        let expect = Expect::At(current.version());
        let last = cluster.storage.commit(&kind.collection, current.key(), expect, None).await.ok()?;
        after_removal(cluster, kind, current).await;
        self.follow_definitions().await;
        Some(last)
    }

    async fn follow_definitions(&self) {
        if self.follow == FollowDefinitions::AtOnce {
            self.cluster.definitions().changed(self.place.kind).await;
        }
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

/// Rejects the deletion of an object that the cluster needs, if its kind has such objects and
/// `applies` to them.
fn refuse_undeletable(place: &ObjectRef<'_>, applies: impl Fn(&Undeletable) -> bool) -> Result<(), ApiError> {
    let (def, kind) = (&place.kind.def, place.kind);
    let kept = kind.rules.undeletable.filter(|it| applies(it) && it.names.contains(&place.name));
    match kept {
        Some(kept) => Err(ApiError::forbidden(&def.group, &def.plural, place.name, kept.why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use serde_json::json;

    use super::*;
    use crate::cluster::Source;

    /// Regression test: all deletions are ready at once, and no other task ran until the last was
    /// done.
    #[tokio::test]
    async fn other_tasks_run_while_a_collection_is_deleted() {
        let cluster = Cluster::new(Source::real());
        cluster.bootstrap().await;
        let writer = Writer::server("test");
        for at in 0..200 {
            let map =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("a{at}") } });
            cluster.add(map, &writer).await.expect("created");
        }
        let kind = cluster.catalog().kind("", "v1", "configmaps").expect("built in");
        let (listed, options) = (cluster.list(&kind, None), DeleteOptions::default());
        let mut deletion = pin!(cluster.delete_listed(&kind, &listed, &options, &writer));
        let mut left = Vec::new();
        poll_fn(|context| {
            let polled = deletion.as_mut().poll(context);
            left.push(cluster.list(&kind, None).len());
            if polled.is_pending() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        let all = listed.len();
        assert_eq!(left, [all - 64, all - 128, all - 192, 0]);
    }

    /// The kinds follow all definitions that were deleted, also if the request is cancelled.
    #[tokio::test]
    async fn a_cancelled_deletion_of_definitions_is_followed_by_the_served_kinds() {
        let cluster = Cluster::new(Source::real());
        cluster.bootstrap().await;
        let writer = Writer::server("test");
        for at in 0..70 {
            let plural = format!("p{at}");
            let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": { "name": format!("{plural}.ex.io") },
                "spec": { "group": "ex.io", "scope": "Cluster", "names": { "plural": plural, "kind": format!("K{at}") },
                    "versions": [{ "name": "v1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": { "type": "object" } } }] } });
            cluster.add(definition, &writer).await.expect("created");
        }
        let group = "apiextensions.k8s.io";
        let kind = cluster.catalog().kind(group, "v1", "customresourcedefinitions").expect("built in");
        let versions = || {
            let catalog = cluster.catalog();
            let known: Vec<u64> = catalog.definitions().map(|it| it.version()).collect();
            let stored: Vec<u64> = cluster.list(&kind, None).iter().map(|it| it.version()).collect();
            (known, stored)
        };
        let (listed, options) = (cluster.list(&kind, None), DeleteOptions::default());
        let before = versions();
        {
            let mut deletion = pin!(cluster.delete_listed(&kind, &listed, &options, &writer));
            let polled = poll_fn(|context| Poll::Ready(deletion.as_mut().poll(context).is_pending())).await;
            assert!(polled, "it lets other tasks run");
        }
        let (known, stored) = versions();
        assert!(known == stored && before.1 != stored, "{known:?} {stored:?}");
        cluster.delete_listed(&kind, &listed, &options, &writer).await.expect("deleted");
        let (known, stored) = versions();
        assert_eq!(known, stored);
    }
}
