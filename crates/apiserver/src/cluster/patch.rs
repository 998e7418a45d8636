//! The patch and apply verbs. A write that conflicts with another is retried on the new state.

use bytes::Bytes;
use dogwatch_core::Reason;
use serde_json::{Value, json};

use super::commit::{ATTEMPTS, Attempt};
use super::decode::{
    AFTER_MUTATION, check_custom_kind, check_strict, check_type, dedup_owner_references, settle,
};
use super::namespaces::settle_namespace;
use super::object_fields::metadata_mut;
use super::own::with_conversions;
use super::place::MODIFIED;
use super::preconditions::{check_name, check_version};
use super::write::{Owning, Write};
use super::{Cluster, FieldValidation, ObjectRef, WriteOutcome, Writer};
use crate::ApiError;
use crate::builtin;
use crate::custom;
use crate::depth;
use crate::kinds::json_access::text;
use crate::ownership;
use crate::patch::{Patch, PatchKind, json_name};
use crate::request::yaml;

/// The body of a patch request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PatchBody {
    /// A patch of this type.
    Patch(PatchKind, Bytes),
    /// A configuration to apply, in JSON or YAML.
    Apply {
        /// The configuration.
        body: Bytes,
        /// Take over fields that other managers own.
        force: bool,
    },
}

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
            return self.patch_scale(place, patch, writer).await;
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
            check_version(place, text(&new, "/metadata/resourceVersion"), &current, false)?;
            match Write::change(self, place, (&current, &old), new, writer).attempt().await? {
                Attempt::Done(mut written) => {
                    written.warnings.splice(0..0, warnings);
                    return Ok(written);
                }
                Attempt::Again => {}
            }
        }
        Err(kind.conflict(place.name, MODIFIED))
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
                let write = Write::creation(self, place, new, writer).owning(Owning::Settled);
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
            check_version(place, text(&new, "/metadata/resourceVersion"), &current, false)?;
            let write = Write::change(self, place, (&current, &old), new, writer).owning(Owning::Settled);
            match write.attempt().await? {
                Attempt::Done(written) => return Ok(with_warnings(written)),
                Attempt::Again => {}
            }
        }
        Err(kind.conflict(place.name, MODIFIED))
    }
}

/// Decodes a patch.
///
/// # Errors
/// 415 for a strategic merge patch of a custom object; 400 if the patch cannot be decoded; 413 if
/// it has too many operations.
pub(super) fn decode_patch(
    place: &ObjectRef<'_>,
    kind: PatchKind,
    body: &[u8],
    writer: &Writer,
) -> Result<Patch, ApiError> {
    if kind == PatchKind::Strategic && place.kind.custom_version().is_some() {
        let accepted =
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        let mut refusal = ApiError::new(Reason::UnsupportedMediaType, message);
        refusal.0.details = None;
        return Err(refusal);
    }
    Patch::decode(kind, body, writer.validation != FieldValidation::Ignore)
}

/// Completes a patched object. Returns the warnings for the client.
fn settle_patched(
    place: &ObjectRef<'_>,
    patch: &Patch,
    new: &mut Value,
    writer: &Writer,
) -> Result<Vec<String>, ApiError> {
    let patched = new.clone();
    let bytes = new.to_string();
    check_type(place.kind, new).map_err(|why| patch.unfit(&patched, &why))?;
    let found = settle(place.kind, bytes.as_bytes(), new).map_err(|why| patch.unfit(&patched, &why))?;
    // An empty list asks to reset the managed fields. Decoding drops empty lists, so the equivalent
    // form with one empty entry is used instead.
    if patched.pointer("/metadata/managedFields").is_some_and(|it| *it == json!([])) {
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

/// Writes whole numbers without a fraction: `5.0` is `5`. kube-apiserver reads an applied
/// configuration as YAML, and converts its numbers to JSON before it checks their types.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            // From this magnitude on Go writes an exponent, and the number is no integer any more.
            let whole = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < 9.2e18);
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
            whole.map_or(Value::Number(number), |it| Value::from(it as i64))
        }
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, with_whole_numbers(value))).collect()
        }
        other => other,
    }
}

/// Decodes an applied configuration, which is YAML; JSON is tried first because most clients send
/// it. Also returns the warnings for the client.
pub(super) fn decode_applied(
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = match serde_json::from_slice(body) {
        Ok(value) if builtin::duplicate_fields(body).is_empty() => Ok((value, Vec::new())),
        Ok(value) => Ok((value, yaml::parse(body).map(|it| it.twice).unwrap_or_default())),
        Err(_) => yaml::parse(body).map(|it| (it.value, it.twice)),
    };
    match parsed.map(|(value, twice)| (with_whole_numbers(value), twice)) {
        Ok((value, _)) if depth::is_exceeded_by(&value) => {
            let why = depth::exceeded();
            Err(ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}")))
        }
        Ok((Value::Object(_), twice)) if validation == FieldValidation::Strict && !twice.is_empty() => {
            let twice = twice.join("\n  ");
            Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {twice}"
            )))
        }
        Ok((value @ Value::Object(_), twice)) => {
            Ok((value, if validation == FieldValidation::Warn { twice } else { Vec::new() }))
        }
        Ok((Value::Null, _)) => Err(ApiError::bad_request("invalid object type: /, Kind=")),
        Ok((other, _)) => Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            json_name(&other)
        ))),
        Err(why) => {
            Err(ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}")))
        }
    }
}
