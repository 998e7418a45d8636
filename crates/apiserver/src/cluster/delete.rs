//! The delete verb: an object is removed at once, or when its finalizers are gone and its grace
//! period is over.

use std::collections::HashSet;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::admission_attributes::AdmissionAttributes;
use super::commit::is_to_be_removed;
use super::namespaces::refuse_protected;
use super::object_fields::{metadata_mut, object_mut};
use super::place::MODIFIED;
use super::service_addresses::ServiceAddresses;
use super::update::ATTEMPTS;
use super::{Cluster, ObjectRef, ResponseObject, Writer};
use crate::ApiError;
use crate::custom::{definition, names};
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::{DEFINITION, NAMESPACE, SERVICE};
use crate::registry::Kind;
use crate::store::{Encoded, Expect, Pending};
use crate::time;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The grace period in seconds. Ignored for kinds without graceful deletion.
    pub grace: Option<i64>,
    /// The treatment of the dependents.
    pub propagation: Option<Propagation>,
    /// The deprecated form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// Precondition: the object has this uid.
    pub uid: Option<String>,
    /// Precondition: the object has this resource version.
    pub version: Option<String>,
}

/// The treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Propagation {
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are kept, without this owner.
    Orphan,
}

impl DeleteOptions {
    /// Returns the fields of the options as an admission review carries them.
    fn to_value(&self) -> Value {
        let propagation = self.propagation.map(|it| match it {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        });
        let mut preconditions = json!({ "uid": self.uid, "resourceVersion": self.version });
        let mut said = json!({ "gracePeriodSeconds": self.grace, "propagationPolicy": propagation,
            "orphanDependents": self.orphan_dependents });
        for value in [&mut preconditions, &mut said] {
            if let Some(fields) = value.as_object_mut() {
                fields.retain(|_, it| !it.is_null());
            }
        }
        if preconditions != json!({}) {
            said["preconditions"] = preconditions;
        }
        said
    }
}

/// The part of admission webhooks in a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They review the deletion, as that of a client.
    Review,
    /// They are not called.
    Skip,
}

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

/// The next step of a deletion.
enum DeletionStep {
    /// Removes the object.
    Remove,
    /// Stores this state, and then removes the object if `then_remove` is set.
    Mark { object: Value, then_remove: bool },
    /// Changes nothing: the object is being deleted already.
    Wait,
}

/// Returns the warning for a client that deletes objects of a kind with these options.
pub(crate) fn warning_of_deleting(kind: &Kind, options: &DeleteOptions) -> Option<&'static str> {
    let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
    kind.rules.deletion_warning.filter(|_| unsaid)
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
        refuse_protected(place)?;
        let kind = place.kind;
        // The state that this deletion has stored before it removes the object.
        let mut own: Option<Arc<Encoded>> = None;
        let warnings: Vec<String> =
            warning_of_deleting(kind, options).map(str::to_owned).into_iter().collect();
        for _ in 0..ATTEMPTS {
            let current = self.get(kind, &place.key()?);
            // Another request was faster to remove the object, as the kubelet often is. That is no
            // error: `ignoreNotFound` in k8s.io/apiserver v0.36.4
            // pkg/registry/generic/registry/store.go.
            if let Some(own) = own.take_if(|it| current.as_ref().is_none_or(|now| now.uid() != it.uid())) {
                let shown = ResponseObject::Stored(Arc::clone(&own));
                return Ok(self.gone(kind, &own, shown, &warnings));
            }
            let current = current.ok_or_else(|| kind.not_found(place.name))?;
            check_preconditions(place, options, &current)?;
            let mut warnings = warnings.clone();
            // For an eviction, the webhooks have been called with the Eviction.
            if admission == Admission::Review && self.webhooks().are_configured() && place.part != "eviction"
            {
                let old = self.conversion().show(kind, &current).await?;
                let asked = AdmissionAttributes::delete(place, &old, writer, options.to_value());
                warnings.extend(self.webhooks().mutate(&asked, &mut None).await?);
                warnings.extend(self.webhooks().approve(&asked, None).await?);
            }
            let going = |object: ResponseObject| Deleted::Going {
                object,
                accepted: options.orphan_dependents == Some(false),
                warnings: warnings.clone(),
            };
            let next = self.next_step(kind, &current.to_value(), options);
            let (current, removed) = match next {
                DeletionStep::Wait => return Ok(going(ResponseObject::Stored(current))),
                DeletionStep::Remove => (current, true),
                DeletionStep::Mark { object, then_remove } if writer.dry_run => {
                    let shown = ResponseObject::Value(self.conversion().show_value(kind, object).await?);
                    return Ok(if then_remove {
                        self.gone(kind, &current, shown, &warnings)
                    } else {
                        going(shown)
                    });
                }
                DeletionStep::Mark { object, then_remove } => {
                    let Some(marked) = self.mark(kind, &current, object).await? else { continue };
                    own = then_remove.then(|| Arc::clone(&marked));
                    (marked, then_remove)
                }
            };
            if !removed {
                return Ok(going(ResponseObject::Stored(current)));
            }
            if writer.dry_run {
                let shown = ResponseObject::Stored(Arc::clone(&current));
                return Ok(self.gone(kind, &current, shown, &warnings));
            }
            let expect = Expect::At(current.version());
            if let Ok(last) = self.storage.commit(&kind.collection, current.key(), expect, None).await {
                self.removed(kind, &current).await;
                return Ok(self.gone(kind, &current, ResponseObject::Stored(last), &warnings));
            }
        }
        Err(kind.conflict(place.name, MODIFIED))
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

    /// Does what the removal of an object entails: releases the addresses of a service and deletes
    /// its Endpoints, and updates the served kinds.
    pub(super) async fn removed(&self, kind: &Kind, last: &Encoded) {
        if kind.is(&SERVICE) {
            ServiceAddresses::of(self).settle(last.uid(), Some(last.key()));
            self.delete_endpoints(last.key()).await;
        }
        self.definitions_changed(kind).await;
    }

    /// Deletes the Endpoints of a service, so that a new service of its name does not begin with the
    /// old addresses (`afterDelete` in k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/service/storage/storage.go).
    fn delete_endpoints<'a>(&'a self, service: &'a ObjectKey) -> Pending<'a, ()> {
        Box::pin(async move {
            let Some(kind) = self.catalog().kind("", "v1", "endpoints") else { return };
            let (place, options) = (ObjectRef::of(&kind, service), DeleteOptions::default());
            let writer = Writer::server("kube-apiserver");
            match self.delete_as(&place, &options, &writer, Admission::Skip).await {
                Err(refusal) if !refusal.0.is_not_found() => {
                    tracing::warn!(%service, %refusal, "cannot delete the Endpoints of a service");
                }
                _ => {}
            }
        })
    }

    /// Stores a state that marks the object as being deleted. Returns `None` on a conflict with
    /// another write.
    async fn mark(
        &self,
        kind: &Kind,
        current: &Arc<Encoded>,
        object: Value,
    ) -> Result<Option<Arc<Encoded>>, ApiError> {
        let draft = self.stored_draft(kind, object)?;
        if draft.says_what(current) {
            return Ok(Some(Arc::clone(current)));
        }
        let expect = Expect::At(current.version());
        let marked = self.storage.commit(&kind.collection, current.key(), expect, Some(draft)).await.ok();
        if marked.is_some() {
            self.definitions_changed(kind).await;
        }
        Ok(marked)
    }

    /// Encodes a value that is in its stored form.
    fn stored_draft(&self, kind: &Kind, object: Value) -> Result<crate::store::Draft, ApiError> {
        match kind.converted_by_webhook() {
            Some(_) => kind.stored_draft(&object),
            None => kind.draft(&kind.shown(object)?),
        }
    }

    fn gone(&self, kind: &Kind, current: &Encoded, object: ResponseObject, warnings: &[String]) -> Deleted {
        Deleted::Gone {
            object,
            uid: current.uid().to_owned(),
            shows_object: kind.traits.returns_deleted_object,
            warnings: warnings.to_vec(),
        }
    }

    /// Decides the next step of the deletion of an object. Works on the stored form.
    fn next_step(&self, kind: &Kind, stored: &Value, options: &DeleteOptions) -> DeletionStep {
        if kind.is(&NAMESPACE)
            && let Some(step) = self.step_of_namespace(stored, options)
        {
            return step;
        }
        if kind.is(&DEFINITION) && at(stored, "/metadata/deletionTimestamp").is_none() {
            let mut object = stored.clone();
            self.mark_deleting(&mut object, 0);
            add_finalizer(&mut object, definition::CLEANUP);
            names::mark_terminating(&mut object, &self.source.stamp());
            return DeletionStep::Mark { object, then_remove: false };
        }
        let mut object = stored.clone();
        let finalizers = finalizers_after(kind, stored, options);
        let refinalized = finalizers != items(stored, "/metadata/finalizers");
        set_finalizers(&mut object, &finalizers);
        let held = !finalizers.is_empty();
        match (at(stored, "/metadata/deletionTimestamp").is_some(), grace_of(kind, stored, options)) {
            (false, Some(grace)) => {
                self.mark_deleting(&mut object, grace);
                DeletionStep::Mark { object, then_remove: grace == 0 && !held }
            }
            (false, None) if held => {
                self.mark_deleting(&mut object, 0);
                DeletionStep::Mark { object, then_remove: false }
            }
            (false, None) => DeletionStep::Remove,
            (true, grace) => {
                let before = number(stored, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
                let shorter = grace.filter(|it| options.grace.is_some() && *it < before);
                if let Some(grace) = shorter {
                    self.shorten(&mut object, before, grace);
                    return DeletionStep::Mark { object, then_remove: grace == 0 && !held };
                }
                match (refinalized, held) {
                    (true, true) => DeletionStep::Mark { object, then_remove: false },
                    // A webhook may have given a grace period to a new object of a kind that has
                    // none.
                    (_, false) if grace.is_none() || is_to_be_removed(kind, &object) => DeletionStep::Remove,
                    _ => DeletionStep::Wait,
                }
            }
        }
    }

    /// Decides the next step of the deletion of a namespace. Returns `None` if it is deleted like any
    /// other object, since it is empty.
    ///
    /// Mirrors `REST.Delete` in k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/namespace/storage/storage.go.
    fn step_of_namespace(&self, stored: &Value, options: &DeleteOptions) -> Option<DeletionStep> {
        if at(stored, "/metadata/deletionTimestamp").is_some() {
            let is_empty = items(stored, "/spec/finalizers").is_empty();
            return (!is_empty).then_some(DeletionStep::Wait);
        }
        let mut object = stored.clone();
        let before = items(stored, "/metadata/finalizers");
        let wanted = |name: &str, orphans: bool, policy: Propagation| match options.orphan_dependents {
            Some(orphan) => orphan == orphans,
            None => options.propagation.map_or_else(|| before.iter().any(|it| it == name), |it| it == policy),
        };
        let added = [(ORPHAN, true, Propagation::Orphan), (FOREGROUND, false, Propagation::Foreground)];
        let added = added.into_iter().filter(|(name, orphans, policy)| wanted(name, *orphans, *policy));
        let others = before.iter().filter(|it| *it != FOREGROUND && *it != ORPHAN).cloned();
        let finalizers: Vec<Value> = others.chain(added.map(|(name, ..)| name.into())).collect();
        set_finalizers(&mut object, &finalizers);
        metadata_mut(&mut object).insert("deletionTimestamp".to_owned(), self.source.stamp().into());
        object_mut(&mut object, "status").insert("phase".to_owned(), "Terminating".into());
        Some(DeletionStep::Mark { object, then_remove: false })
    }

    /// Sets the deletion timestamp of an object to `grace` seconds from now.
    fn mark_deleting(&self, object: &mut Value, grace: i64) {
        let end = time::seconds_after(self.source.now(), grace);
        let generation = number(object, "/metadata/generation").unwrap_or(0);
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), time::stamp(end).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        if generation > 0 {
            metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
        }
    }

    /// Moves the deletion timestamp of an object to an earlier time: `grace` seconds after the
    /// deletion began.
    fn shorten(&self, object: &mut Value, before: i64, grace: i64) {
        let end = text(object, "/metadata/deletionTimestamp").parse::<jiff::Timestamp>();
        let earlier = grace.saturating_sub(before);
        let end = end.map_or_else(|_| self.source.now(), |it| time::seconds_after(it, earlier));
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), time::stamp(end).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
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

/// Returns the grace period of a deletion; `None` for kinds without graceful deletion.
fn grace_of(kind: &Kind, object: &Value, options: &DeleteOptions) -> Option<i64> {
    if !kind.traits.graceful_deletion {
        return None;
    }
    let wanted = options.grace.or_else(|| number(object, "/spec/terminationGracePeriodSeconds")).unwrap_or(0);
    // k8s.io/apiserver v0.36.4 pkg/registry/rest/delete.go turns a negative grace period into one
    // second.
    let wanted = if wanted < 0 { 1 } else { wanted };
    let ended = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    Some(if ended || text(object, "/spec/nodeName").is_empty() { 0 } else { wanted })
}

/// Returns the finalizers of an object after a deletion with these options.
fn finalizers_after(kind: &Kind, object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let before = items(object, "/metadata/finalizers");
    let has = |name: &str| before.iter().any(|it| it == name);
    let collected = kind.rules.is_collected;
    let orphan = collected
        && match (options.orphan_dependents, options.propagation) {
            (Some(orphan), _) => orphan,
            (None, Some(policy)) => policy == Propagation::Orphan,
            (None, None) => has(ORPHAN) || (!has(FOREGROUND) && kind.traits.orphans_by_default),
        };
    let foreground = collected
        && match (options.orphan_dependents, options.propagation) {
            (Some(_), _) => false,
            (None, Some(policy)) => policy == Propagation::Foreground,
            (None, None) => has(FOREGROUND),
        };
    let others = before.iter().filter(|it| *it != FOREGROUND && *it != ORPHAN).cloned();
    let added = [(orphan, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(wanted, _)| *wanted);
    let after: Vec<Value> = others.chain(added.map(|(_, name)| Value::from(name))).collect();
    // The same finalizers in another order, or more often, are no change
    // (`deletionFinalizersForGarbageCollection` in k8s.io/apiserver v0.36.4
    // pkg/registry/generic/registry/store.go).
    let is_same = before.iter().collect::<HashSet<_>>() == after.iter().collect();
    if is_same { before.to_vec() } else { after }
}

fn set_finalizers(object: &mut Value, finalizers: &[Value]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

fn add_finalizer(object: &mut Value, name: &str) {
    let mut finalizers = items(object, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|it| it == name) {
        finalizers.push(name.into());
    }
    set_finalizers(object, &finalizers);
}

/// Checks that the object is the one that the preconditions name.
pub(super) fn check_preconditions(
    place: &ObjectRef<'_>,
    options: &DeleteOptions,
    current: &Encoded,
) -> Result<(), ApiError> {
    let refused =
        |why: String| ApiError::conflict(&place.kind.def.group, &place.kind.def.kind, place.name, &why);
    if let Some(uid) = options.uid.as_deref().filter(|it| *it != current.uid()) {
        // kube-apiserver checks namespaces with another message (k8s.io/kubernetes v1.36.4
        // pkg/registry/core/namespace/storage/storage.go).
        if place.kind.is(&NAMESPACE) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            );
            return Err(place.kind.conflict(place.name, &why));
        }
        return Err(refused(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid()
        )));
    }
    if let Some(version) = options.version.as_deref().filter(|it| *it != current.version().to_string()) {
        return Err(refused(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            current.version()
        )));
    }
    Ok(())
}
