//! The update verb: replaces an object, unless it has changed since the client read it.

use std::sync::Arc;

use serde_json::Value;

use super::address_claim::AddressClaim;
use super::admission_webhooks::AdmissionAttributes;
use super::decode::{AFTER_MUTATION, dedup_owner_references};
use super::pipeline::{Owning, metadata_mut};
use super::place::MODIFIED;
use super::preconditions::{check_key, check_name, check_stored, check_version};
use super::{Cluster, ObjectRef, ResponseObject, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::{at, items, number, text};
use crate::registry::Kind;
use crate::store::{Encoded, Expect};

/// The number of attempts to write without a resource version while other writes conflict.
pub(super) const ATTEMPTS: usize = 64;

/// The outcome of an attempt to store a change.
pub(super) enum Attempt {
    /// The change is stored, or nothing had to be stored.
    Done(WriteOutcome),
    /// Another write was first: retry on the new state.
    Again,
}

impl Cluster {
    /// Replaces an object, or a subresource such as `status`. Creates the object if its kind allows
    /// that.
    ///
    /// # Errors
    /// 404 if there is no such object, 409 if it has changed since the client read it, 422 if it is
    /// not valid.
    pub async fn update(
        &self,
        place: &ObjectRef<'_>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        check_name(place, &object)?;
        Self::settle_namespace(place, &mut object)?;
        if place.part == "scale" {
            return self.update_scale(place, &object, writer).await;
        }
        let wanted = text(&object, "/metadata/resourceVersion").to_owned();
        let uid = text(&object, "/metadata/uid").to_owned();
        let key = place.key()?;
        for _ in 0..ATTEMPTS {
            let current = self.get(place.kind, &key);
            let creates = place.kind.traits.allow_create_on_update && place.part.is_empty();
            if current.is_none() && !creates {
                return Err(place.kind.not_found(place.name));
            }
            check_stored(place.kind, &key, (&uid, ""), current.as_deref())?;
            let Some(current) = current else {
                let mut new = object.clone();
                metadata_mut(&mut new).remove("resourceVersion");
                match self.make(place, new, writer, Owning::Track).await {
                    // Created by another request meanwhile.
                    Err(refusal) if refusal.0.is_already_exists() && self.get(place.kind, &key).is_some() => {
                        continue;
                    }
                    made => return made,
                }
            };
            check_version(place, &wanted, &current, true)?;
            let old = self.show(place.kind, &current).await?;
            match self.attempt(place, &current, &old, object.clone(), writer, Owning::Track).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Again => {}
            }
        }
        Err(place.kind.conflict(place.name, MODIFIED))
    }

    /// Applies `change` to the current state of an object, and again after a conflict. `change`
    /// returns false if there is nothing to write. Returns the object after the change, or `None`
    /// if there is no such object. For components of the server itself.
    ///
    /// # Errors
    /// 422 if the changed object is not valid.
    pub async fn change(
        &self,
        place: &ObjectRef<'_>,
        writer: &Writer,
        mut change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<ResponseObject>, ApiError> {
        for _ in 0..ATTEMPTS {
            let Some(current) = self.get(place.kind, &place.key()?) else { return Ok(None) };
            let old = self.show(place.kind, &current).await?;
            let mut new = old.clone();
            if !change(&mut new) {
                return Ok(Some(ResponseObject::Stored(current)));
            }
            match self.attempt(place, &current, &old, new, writer, Owning::Track).await? {
                Attempt::Done(written) => return Ok(Some(written.object)),
                Attempt::Again => {}
            }
        }
        Err(place.kind.conflict(place.name, MODIFIED))
    }

    /// Makes one attempt to change an object: prepares the new state, and stores it unless the
    /// object has changed.
    pub(super) async fn attempt(
        &self,
        place: &ObjectRef<'_>,
        current: &Arc<Encoded>,
        old: &Value,
        mut new: Value,
        writer: &Writer,
        owning: Owning,
    ) -> Result<Attempt, ApiError> {
        let kind = place.kind;
        self.begin_change(place, old, &mut new, writer, owning).await;
        let asked = AdmissionAttributes::update(place, old, writer);
        // For these subresources the webhooks have been called before, with the subresource instead
        // of the whole object.
        let calls_webhooks = !matches!(place.part, "binding" | "eviction" | "scale");
        let mut warned = Vec::new();
        if calls_webhooks {
            let mut mutated = Some(new);
            warned = self.mutate(&asked, &mut mutated).await?;
            new = mutated.unwrap_or_default();
            warned.extend(dedup_owner_references(&mut new, AFTER_MUTATION));
            // A webhook must not move the object to another namespace: `BeforeUpdate` in
            // k8s.io/apiserver v0.36.4 pkg/registry/rest/update.go.
            Self::settle_namespace(place, &mut new)?;
        }
        let _claim = AddressClaim::of(self, kind, current.uid(), Some(current.key().clone()));
        self.ready_change(place, old, &mut new)?;
        if calls_webhooks {
            warned.extend(self.approve(&asked, Some(&new)).await?);
        }
        let _charge = self.admit(place, Some(old), &new, writer).await?;
        warned.extend(self.warnings(kind, &new, Some(old)));
        let warnings = warned;
        let done =
            |written: WriteOutcome| Ok(Attempt::Done(WriteOutcome { warnings: warnings.clone(), ..written }));
        let draft = self.draft(kind, &new).await?;
        self.check_defined(kind)?;
        check_key(&draft, current.key())?;
        if draft.says_what(current) && !is_to_be_removed(kind, &new) {
            return done(WriteOutcome::stored(Arc::clone(current), false));
        }
        if writer.dry_run {
            return done(WriteOutcome::value(new, false));
        }
        let (expect, key) = (Expect::At(current.version()), current.key());
        if is_to_be_removed(kind, &new) {
            // The last finalizer is gone, or the grace period is over.
            return match self.storage.commit(&kind.collection, key, expect, None).await {
                Ok(_) => {
                    self.definitions_changed(kind).await;
                    done(WriteOutcome::value(new, false))
                }
                Err(_) => Ok(Attempt::Again),
            };
        }
        match self.storage.commit(&kind.collection, key, expect, Some(draft)).await {
            Ok(stored) => {
                self.definitions_changed(kind).await;
                done(WriteOutcome::stored(stored, false))
            }
            Err(_) => Ok(Attempt::Again),
        }
    }
}

/// Returns true if a state of an object means that it is to be removed: it is being deleted and
/// nothing holds it any more.
pub(super) fn is_to_be_removed(kind: &Kind, object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some()
        && items(object, "/metadata/finalizers").is_empty()
        && number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0
        && (!kind.is(&NAMESPACE) || items(object, "/spec/finalizers").is_empty())
}
