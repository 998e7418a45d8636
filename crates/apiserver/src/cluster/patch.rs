//! The patch and apply verbs. A write that conflicts with another is retried on the new state.

use serde_json::{Value, json};

use super::commit::{ATTEMPTS, Attempt, check_memory};
use super::decode::{
    AFTER_MUTATION, check_custom_kind, check_strict, check_type, dedup_owner_references, settle,
};
use super::name_checks::check_name;
use super::namespaces::settle_namespace;
use super::object_fields::metadata_mut;
use super::own::with_conversions;
use super::patch_body::{PatchBody, decode_applied, decode_patch};
use super::scale::ScaleSubresource;
use super::write::{Owning, Write};
use super::{Cluster, ObjectRef, WriteOutcome, Writer};
use crate::ApiError;
use crate::custom;
use crate::kinds::json_access::text;
use crate::ownership;
use crate::patch::{Patch, PatchKind};

impl Cluster {
    /// Patches an object. An apply creates the object if it does not exist.
    ///
    /// # Errors
    /// 404 if there is no such object, 409 if the patch names another version or other managers own
    /// applied fields, 422 if the patched object is not valid.
    pub async fn patch(
        &self,
        place: &ObjectRef<'_>,
        patch: &PatchBody,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        if place.part == "scale" {
            return ScaleSubresource::of(self, place).patch(patch, writer).await;
        }
        match patch {
            PatchBody::Patch(kind, body) => self.patch_with(place, *kind, body, writer).await,
            PatchBody::Apply { body, force } => self.apply(place, body, *force, writer).await,
        }
    }

    async fn patch_with(
        &self,
        place: &ObjectRef<'_>,
        patch_kind: PatchKind,
        body: &[u8],
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let kind = place.kind;
        for _ in 0..ATTEMPTS {
            let current = self.get(kind, &place.key()?).ok_or_else(|| kind.not_found(place.name))?;
            let patch = decode_patch(place, patch_kind, body, writer)?;
            let old = self.conversion().show(kind, &current).await?;
            let mut new = patch.apply(&old, &kind.schema, kind.definitions())?;
            if patch_kind == PatchKind::Strategic {
                // A strategic merge patch works on a typed object, whose type it cannot change.
                new["apiVersion"] = json!(kind.def.api_version());
                new["kind"] = json!(kind.def.kind);
            }
            if kind.custom_version().is_some() {
                check_custom_kind(&new, &kind.def.kind, &kind.def.api_version())?;
            }
            let warnings = settle_patched(place, &patch, &mut new, writer)?;
            check_patched(place, &new)?;
            let version = text(&new, "/metadata/resourceVersion").to_owned();
            let write = Write::change(self, place, (&current, &old), new, writer);
            match write.expecting(version, false).with_verb("patch").attempt().await? {
                Attempt::Done(mut written) => {
                    written.warnings.splice(0..0, warnings);
                    return Ok(written);
                }
                Attempt::Again => {}
            }
        }
        Err(kind.modified(place.name))
    }

    async fn apply(
        &self,
        place: &ObjectRef<'_>,
        body: &[u8],
        force: bool,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let kind = place.kind;
        let (applied, warnings) = decode_applied(body, writer.validation)?;
        let with_warnings = |mut written: WriteOutcome| {
            written.warnings.splice(0..0, warnings.iter().cloned());
            written
        };
        for _ in 0..ATTEMPTS {
            let current = self.get(kind, &place.key()?);
            // A name that is not a string is reported with the other type errors. A missing name is
            // that of the existing object.
            let named = applied.pointer("/metadata/name");
            if named.is_some_and(Value::is_string) || (named.is_none() && current.is_none()) {
                check_patched(place, &applied)?;
            }
            let old = match &current {
                Some(current) => Some(self.conversion().show(kind, current).await?),
                None => None,
            };
            let owner = ownership::Writer {
                manager: &writer.manager,
                subresource: place.part,
                now: self.source.now(),
            };
            let apply = |target: &ownership::Target<'_>| {
                ownership::apply(old.as_ref(), &applied, target, &owner, force)
            };
            let mut new = with_conversions(self, place, apply).await??;
            check_memory(&new, old.as_ref())?;
            match kind.custom_version() {
                Some(version) => custom::object::decode_applied(&mut new, version),
                None => settle(kind, new.to_string().as_bytes(), &mut new).map(drop),
            }
            .map_err(ApiError::unexplained)?;
            let (Some(current), Some(old)) = (current, old) else {
                if !place.part.is_empty() {
                    return Err(kind.not_found(place.name));
                }
                // Appliers name a uid so that an object that was deleted meanwhile is not created
                // again.
                let uid = text(&new, "/metadata/uid");
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(kind.conflict(place.name, &why));
                }
                settle_namespace(place, &mut new)?;
                metadata_mut(&mut new).remove("resourceVersion");
                let write = Write::creation_on_update(self, place, new, writer).owning(Owning::Settled);
                match write.create().await {
                    // Created by another request meanwhile.
                    Err(refusal)
                        if refusal.0.is_already_exists() && self.get(kind, &place.key()?).is_some() =>
                    {
                        continue;
                    }
                    made => return made.map(with_warnings),
                }
            };
            check_patched(place, &new)?;
            let version = text(&new, "/metadata/resourceVersion").to_owned();
            let write = Write::change(self, place, (&current, &old), new, writer).owning(Owning::Settled);
            match write.expecting(version, false).with_verb("patch").attempt().await? {
                Attempt::Done(written) => return Ok(with_warnings(written)),
                Attempt::Again => {}
            }
        }
        Err(kind.modified(place.name))
    }
}

/// Completes a patched object. Returns the warnings for the client.
fn settle_patched(
    place: &ObjectRef<'_>,
    patch: &Patch,
    new: &mut Value,
    writer: &Writer,
) -> Result<Vec<String>, ApiError> {
    let patched = new.to_string();
    let resets_managers = new.pointer("/metadata/managedFields").is_some_and(|it| *it == json!([]));
    check_type(place.kind, new).map_err(|why| patch.unfit(&patched, &why))?;
    let found = settle(place.kind, patched.as_bytes(), new).map_err(|why| patch.unfit(&patched, &why))?;
    // An empty list asks to reset the managed fields. Decoding drops empty lists, so the equivalent
    // form with one empty entry is used instead.
    if resets_managers {
        metadata_mut(new).insert("managedFields".to_owned(), json!([{}]));
    }
    let strict = patch.strict_errors().iter().cloned().chain(found).collect();
    let mut warnings = check_strict(strict, writer.validation, |why| patch.unfit(&patched, why))?;
    warnings.extend(dedup_owner_references(new, AFTER_MUTATION));
    Ok(warnings)
}

/// Checks that a patch changes neither name nor namespace.
fn check_patched(place: &ObjectRef<'_>, new: &Value) -> Result<(), ApiError> {
    check_name(place, new)?;
    match (text(new, "/metadata/namespace"), place.namespace) {
        (said, Some(namespace)) if !said.is_empty() && said != namespace => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => Ok(()),
    }
}
