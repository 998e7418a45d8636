//! The update verb: replaces an object, unless it has changed since the client read it.

use std::sync::Arc;

use serde_json::Value;

use super::address_claim::AddressClaim;
use super::admission_webhooks::AdmissionAttributes;
use super::pipeline::{Owning, metadata_mut};
use super::place::MODIFIED;
use super::{Cluster, ObjectRef, ResponseObject, WriteOutcome, Writer};
use crate::api_error::{ApiError, FieldError, FieldErrorKind};
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::{at, items, number, text};
use crate::registry::Kind;
use crate::store::{Encoded, Expect};
use crate::strconv;

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
        for _ in 0..ATTEMPTS {
            let Some(current) = self.get(place.kind, &place.key()?) else {
                if !place.kind.traits.allow_create_on_update || !place.part.is_empty() {
                    return Err(place.kind.not_found(place.name));
                }
                metadata_mut(&mut object).remove("resourceVersion");
                return self.make(place, object, writer, Owning::Track).await;
            };
            check_version(place, &wanted, &current, true)?;
            check_uid(place, text(&object, "/metadata/uid"), &current)?;
            self.ready_to_show(place.kind, std::slice::from_ref(&current)).await?;
            let old = place.kind.show(&current);
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
            self.ready_to_show(place.kind, std::slice::from_ref(&current)).await?;
            let old = place.kind.show(&current);
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
        self.begin_change(place, old, &mut new, writer, owning);
        let asked = AdmissionAttributes::update(place, old, writer);
        // For these subresources the webhooks have been called before, with the subresource instead
        // of the whole object.
        let calls_webhooks = !matches!(place.part, "binding" | "scale");
        let mut warned = Vec::new();
        if calls_webhooks {
            let mut mutated = Some(new);
            warned = self.mutate(&asked, &mut mutated).await?;
            new = mutated.unwrap_or_default();
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
        self.ready_to_store(kind, &new).await?;
        self.check_defined(kind)?;
        let draft = kind.draft(&new)?;
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
                Self::remember_shown(kind, &stored, &new);
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

/// Checks that the name of an object is that of the request.
pub(super) fn check_name(place: &ObjectRef<'_>, object: &Value) -> Result<(), ApiError> {
    match text(object, "/metadata/name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            place.name
        ))),
        name if name == place.name => Ok(()),
        name => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        ))),
    }
}

/// Checks that the object still has the version that the client has seen, if the client names one.
/// With `needed`, kinds that require a version reject a write without one.
pub(super) fn check_version(
    place: &ObjectRef<'_>,
    wanted: &str,
    current: &Encoded,
    needed: bool,
) -> Result<(), ApiError> {
    if wanted.is_empty() || wanted == "0" {
        if !needed || !place.kind.traits.requires_version_on_update {
            return Ok(());
        }
        let problem = FieldError::with_value(
            "metadata.resourceVersion",
            FieldErrorKind::Invalid,
            0,
            "must be specified for an update",
        );
        return Err(ApiError::invalid(&place.kind.def.group, &place.kind.def.plural, place.name, &[problem]));
    }
    let version: u64 =
        wanted.parse().map_err(|it| ApiError::unexplained(strconv::error("ParseUint", wanted, &it)))?;
    if version == current.version() { Ok(()) } else { Err(place.kind.conflict(place.name, MODIFIED)) }
}

/// Checks that the object has the uid that the client names, if it names one.
fn check_uid(place: &ObjectRef<'_>, wanted: &str, current: &Encoded) -> Result<(), ApiError> {
    if wanted.is_empty() || wanted == current.uid() {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {}",
        registry_path(place.kind),
        current.key(),
        current.uid()
    );
    Err(place.kind.conflict(place.name, &why))
}

/// Returns the path in etcd under which kube-apiserver stores a kind (k8s.io/kubernetes v1.36.4
/// pkg/kubeapiserver/default_storage_factory_builder.go).
fn registry_path(kind: &Kind) -> String {
    let (group, plural) = (&kind.def.group, &kind.def.plural);
    match kind.rules.storage_path {
        Some(path) => path.to_owned(),
        None if kind.def.custom => format!("{group}/{plural}"),
        None => plural.clone(),
    }
}
