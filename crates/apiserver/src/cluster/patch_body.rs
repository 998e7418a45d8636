//! The body of a patch request, and its decoding: a patch, or a configuration to apply.

use bytes::Bytes;
use dogwatch_core::Reason;
use serde_json::Value;

use super::{FieldValidation, ObjectRef, Writer};
use crate::ApiError;
use crate::builtin;
use crate::object_limits;
use crate::patch::{Patch, PatchKind, json_name};
use crate::plain_json;
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

/// Decodes an applied configuration, which is YAML; JSON is tried first because most clients send
/// it. Also returns the warnings for the client.
pub(super) fn decode_applied(
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = match plain_json::from_slice(body) {
        Ok(value) if builtin::duplicate_fields(body).is_empty() => Ok((value, Vec::new())),
        Ok(value) => Ok((value, yaml::parse(body).map(|it| it.twice).unwrap_or_default())),
        Err(_) => yaml::parse(body).map(|it| (it.value, it.twice)),
    };
    let within_limits = |(value, twice)| match object_limits::violation(&value) {
        None => Ok((with_whole_numbers(value), twice)),
        Some(why) => Err(why),
    };
    match parsed.and_then(within_limits) {
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

/// Writes whole numbers without a fraction: `5.0` is `5`. kube-apiserver reads an applied
/// configuration as YAML (`newApplyPatcher` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/handlers/patch.go), and converts its numbers to JSON before it checks their types.
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
