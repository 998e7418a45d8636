//! Decoding of a request body into an object of a kind, with its defaults. Error messages are those
//! of k8s.io/apimachinery v0.36.4 pkg/runtime/serializer/json/json.go and pkg/runtime/error.go.

use std::collections::HashSet;

use bytes::Bytes;
use dogwatch_core::Gvk;
use serde_json::Value;

use crate::builtin::{self, BuiltinDefinitions};
use crate::custom;
use crate::kinds::DEFINITION;
use crate::kinds::defaults;
use crate::memory;
use crate::object_limits;
use crate::patch::json_mistake;
use crate::protobuf;
use crate::registry::Kind;
use crate::request::{BodyForm, json, yaml};
use crate::schema::Schema;
use crate::{ApiError, FieldError, FieldErrorKind};

/// The name of kube-apiserver's scheme, which is part of its error messages.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// The Go type that kube-apiserver decodes a body into first, which is part of its error messages:
/// `SimpleMetaFactory.Interpret` in k8s.io/apimachinery v0.36.4
/// pkg/runtime/serializer/json/meta.go.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// The bytes of the body.
    pub bytes: Bytes,
    /// The encoding of the bytes.
    pub form: BodyForm,
}

/// The treatment of unknown and duplicate fields: the `fieldValidation` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValidation {
    /// Such fields are dropped.
    Ignore,
    /// Such fields are dropped, and the client gets a warning for each. The default.
    #[default]
    Warn,
    /// The request is rejected.
    Strict,
}

/// Decodes an object of a kind and fills in its defaults. Also returns the warnings for the client.
///
/// # Errors
/// 400 if the body cannot be decoded, or has fields that `validation` does not allow.
pub(crate) fn decode(
    kind: &Kind,
    body: &Body,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let (bytes, mut object, twice) = parse(&kind.def.kind, body)?;
    let api_version = kind.def.api_version();
    if kind.custom_version().is_some() {
        identify_custom(&object, &kind.def.kind, &api_version, &bytes)?;
    } else {
        identify(&object, &api_version, &kind.def.kind)?;
    }
    let strict = settle(kind, &bytes, &mut object)
        .map_err(|why| unreadable(&kind.def.version, &kind.def.kind, &why))?;
    let strict = [twice, strict].concat();
    let mut warnings =
        check_strict(strict, validation, |why| unreadable(&kind.def.version, &kind.def.kind, why))?;
    warnings.extend(dedup_owner_references(&mut object, ""));
    Ok((object, warnings))
}

/// The text in the warning about duplicate owner references of an object that webhooks have seen.
pub(super) const AFTER_MUTATION: &str = " after mutating admission happens";

/// Drops owner references that are equal to earlier ones, and returns the warning about it.
/// kube-apiserver does this instead of rejecting them (`dedupOwnerReferences` in k8s.io/apiserver
/// v0.36.4 pkg/endpoints/handlers/rest.go). `when` is the text that the warning about a patch has
/// in addition.
pub(super) fn dedup_owner_references(object: &mut Value, when: &str) -> Option<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences")?.as_array_mut()?;
    let mut seen = HashSet::with_capacity(owners.len());
    let mut again = Vec::new();
    owners.retain(|owner| {
        let is_new = seen.insert(owner.clone());
        if !is_new {
            again.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    let listed = again.join(", ");
    (!again.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {listed}"
        )
    })
}

/// Decodes an object of another built-in kind, such as the Scale of a deployment.
///
/// # Errors
/// Those of [`decode`].
pub(crate) fn decode_as(
    api_version: &str,
    kind: &str,
    body: &Body,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let (bytes, mut object, twice) = parse(kind, body)?;
    identify(&object, api_version, kind)?;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let schema = BuiltinDefinitions.of_kind(group, version, kind).unwrap_or(Schema::Any);
    let refused = |why: &str| unreadable(version, kind, why);
    let strict = settle_typed(&schema, &bytes, &mut object).map_err(|why| refused(&why))?;
    defaults::apply(group, version, kind, &mut object);
    set_type_meta(&mut object, api_version, kind);
    Ok((object, check_strict([twice, strict].concat(), validation, refused)?))
}

/// Completes an object of a built-in kind by its name, such as the Eviction of a pod, after a
/// change.
///
/// # Errors
/// The reason why the object cannot be decoded.
pub(super) fn settle_as(gvk: &Gvk, object: &mut Value) -> Result<(), String> {
    let schema = BuiltinDefinitions.of_kind(&gvk.group, &gvk.version, &gvk.kind).unwrap_or(Schema::Any);
    let bytes = object.to_string();
    settle_typed(&schema, bytes.as_bytes(), object)?;
    defaults::apply(&gvk.group, &gvk.version, &gvk.kind, object);
    set_type_meta(object, &gvk.api_version(), &gvk.kind);
    Ok(())
}

/// Completes an object that a patch produced: drops unknown fields and fills in defaults. Returns
/// the errors of strict decoding.
///
/// # Errors
/// The reason why the object cannot be decoded.
pub(super) fn settle(kind: &Kind, bytes: &[u8], object: &mut Value) -> Result<Vec<String>, String> {
    let Some(version) = kind.custom_version() else {
        let strict = settle_typed(&kind.schema, bytes, object)?;
        kind.rules.apply_defaults(&kind.def.version, object);
        if kind.is(&DEFINITION) {
            custom::definition::fill_defaults(object);
        }
        set_type_meta(object, &kind.def.api_version(), &kind.def.kind);
        // Defaults fill in small maps.
        return if memory::is_exceeded_by(object) { Err(memory::exceeded()) } else { Ok(strict) };
    };
    let mut strict = builtin::duplicate_fields(bytes);
    let unknown = custom::object::decode(object, version)?;
    strict.extend(unknown.iter().map(|path| custom::prune::unknown_field(path)));
    Ok(strict)
}

fn settle_typed(schema: &Schema, bytes: &[u8], object: &mut Value) -> Result<Vec<String>, String> {
    let findings = builtin::inspect(bytes, schema, &BuiltinDefinitions).map_err(|it| it.to_string())?;
    if let Some(mismatch) = findings.mismatch {
        return Err(mismatch);
    }
    builtin::keep_known(object, schema, &BuiltinDefinitions);
    Ok(findings.strict)
}

fn set_type_meta(object: &mut Value, api_version: &str, kind: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
        map.insert("kind".to_owned(), kind.into());
    }
}

/// Rejects the errors of strict decoding, or turns them into warnings.
pub(super) fn check_strict(
    strict: Vec<String>,
    validation: FieldValidation,
    refused: impl Fn(&str) -> ApiError,
) -> Result<Vec<String>, ApiError> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(strict),
        FieldValidation::Strict if strict.is_empty() => Ok(strict),
        FieldValidation::Strict => Err(refused(&format!("strict decoding error: {}", strict.join(", ")))),
    }
}

/// Parses a body. Returns it as JSON bytes and as a value, with the duplicate fields of a YAML
/// body.
fn parse(expected: &str, body: &Body) -> Result<(Bytes, Value, Vec<String>), ApiError> {
    let unrecognized = |why: &str| {
        // A body that does not begin like a JSON object is shown in hexadecimal.
        let shown = match body.bytes.first() {
            None | Some(b'{') if body.form == BodyForm::Json => excerpt(&body.bytes),
            _ => excerpt_hex(&body.bytes),
        };
        let message =
            format!("the object provided is unrecognized (must be of type {expected}): {why} ({shown})");
        ApiError::bad_request(message)
    };
    let (bytes, parsed, twice) = match body.form {
        BodyForm::Yaml => {
            let document = yaml::parse(&body.bytes).map_err(|why| unrecognized(&why))?;
            (Bytes::from(document.value.to_string()), Ok(document.value), document.twice)
        }
        BodyForm::Protobuf => {
            let object = protobuf::decode(&body.bytes).map_err(|why| unrecognized(&why.to_string()))?;
            (Bytes::from(object.value.to_string()), Ok(object.value), Vec::new())
        }
        _ => {
            let (bytes, parsed) = json::parse(&body.bytes);
            (bytes, parsed, Vec::new())
        }
    };
    if let Some(why) = parsed.as_ref().ok().and_then(object_limits::violation) {
        return Err(unrecognized(&format!("couldn't get version/kind; json parse error: {why}")));
    }
    let found = match parsed {
        Ok(object @ Value::Object(_)) => match type_meta_error(&object) {
            None => return Ok((bytes, object, twice)),
            Some(why) => return Err(unrecognized(&why)),
        },
        Ok(Value::Null) => {
            return Ok((Bytes::from_static(b"{}"), Value::Object(serde_json::Map::new()), twice));
        }
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) => {
            let why = json_mistake(&bytes).unwrap_or_else(|| error.to_string());
            return Err(unrecognized(&format!("couldn't get version/kind; json parse error: {why}")));
        }
    };
    Err(unrecognized(&format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {TYPE_META}"
    )))
}

/// Returns the error of kube-apiserver if `apiVersion` or `kind` of an object cannot be read;
/// `None` if they can, or are absent.
fn type_meta_error(object: &Value) -> Option<String> {
    for key in ["apiVersion", "kind"] {
        let found = match object.get(key) {
            Some(Value::Number(_)) => "number",
            Some(Value::Bool(_)) => "bool",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
            _ => continue,
        };
        return Some(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field .{key} of type string"
        ));
    }
    let version = object.get("apiVersion").and_then(Value::as_str)?;
    let parts = version.matches('/').count();
    (parts > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

/// Returns the beginning of a body as messages show it for other encodings than JSON, in
/// hexadecimal.
fn excerpt_hex(body: &[u8]) -> String {
    let hex: String = body.iter().take(30).map(|it| format!("{it:02x}")).collect();
    match body.len() {
        0 => "<empty>".to_owned(),
        1..=30 => hex,
        _ => format!("{hex} ..."),
    }
}

/// Returns the beginning of a body as messages show it.
fn excerpt(body: &[u8]) -> String {
    match body {
        [] => "<empty>".to_owned(),
        body if body.len() > 30 => format!("{} ...", String::from_utf8_lossy(&body[..30])),
        body => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Checks that a body is of a built-in kind. A body that names no kind is taken for one.
fn identify(object: &Value, api_version: &str, kind: &str) -> Result<(), ApiError> {
    let said = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let of_group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let same_kind = object.get("kind").and_then(Value::as_str).is_none_or(|it| it == kind || it.is_empty());
    let known = said.rsplit('/').next().unwrap_or_default();
    if !said.is_empty()
        && said != api_version
        && same_kind
        && of_group(said) == of_group(api_version)
        && builtin::definition_name(&of_group(said), known, kind).is_some()
    {
        return Err(other_version(said, api_version));
    }
    mistaken_type(object, api_version, kind).map_or(Ok(()), |(said_kind, version, why)| {
        let message = format!("{said_kind} in version {version:?} cannot be handled as a {kind}: {why}");
        Err(ApiError::bad_request(message))
    })
}

/// Checks that a patched object still is of its kind.
///
/// # Errors
/// The reason why it is not.
pub(super) fn check_type(kind: &Kind, object: &Value) -> Result<(), String> {
    match mistaken_type(object, &kind.def.api_version(), &kind.def.kind) {
        Some((_, _, why)) if kind.custom_version().is_none() => Err(why),
        _ => Ok(()),
    }
}

/// Returns the kind and version that a body names, and the reason why it cannot be of `kind`;
/// `None` if it is, or names none.
fn mistaken_type(object: &Value, api_version: &str, kind: &str) -> Option<(String, String, String)> {
    let says =
        |key: &str, or| object.get(key).and_then(Value::as_str).filter(|it| !it.is_empty()).unwrap_or(or);
    let (said_version, said_kind) = (says("apiVersion", api_version), says("kind", kind));
    if (said_version, said_kind) == (api_version, kind) {
        return None;
    }
    let (group, version) = said_version.rsplit_once('/').unwrap_or(("", said_version));
    let why = if builtin::definition_name(group, version, said_kind).is_some() {
        let package = (api_version.rsplit_once('/'))
            .map_or("core", |(group, _)| group.split('.').next().unwrap_or(group));
        format!("converting ({version}.{said_kind}) to ({package}.{kind}): unknown conversion")
    } else {
        format!("no kind {said_kind:?} is registered for version {said_version:?} in scheme {SCHEME:?}")
    };
    Some((said_kind.to_owned(), version.to_owned(), why))
}

/// Checks that a body is of a custom kind, which it must name.
fn identify_custom(object: &Value, kind: &str, api_version: &str, bytes: &[u8]) -> Result<(), ApiError> {
    let says = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    if says("kind").is_empty() {
        let body = String::from_utf8_lossy(bytes);
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{}' ({})",
            body.trim_end(),
            excerpt(bytes)
        )));
    }
    if says("apiVersion") != api_version {
        return Err(other_version(says("apiVersion"), api_version));
    }
    check_custom_kind(object, kind, api_version)
}

/// Returns a 400: the object is of the kind, but of another version than the path.
fn other_version(said: &str, api_version: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({said}) does not match the expected API version ({api_version})"
    ))
}

/// Checks that an object names the custom kind it is of.
///
/// # Errors
/// 422 under the name of the kind that the object names.
pub(super) fn check_custom_kind(object: &Value, kind: &str, api_version: &str) -> Result<(), ApiError> {
    let says = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let said = says("kind");
    let wrong =
        [("kind", kind), ("apiVersion", api_version)].into_iter().filter(|(key, it)| says(key) != *it);
    let problem = |(key, wanted): (&str, &str)| {
        let (value, detail) = (format!("{:?}", says(key)), format!("must be {wanted}"));
        FieldError::with_value(key, FieldErrorKind::Invalid, value, &detail)
    };
    let problems: Vec<_> = wrong.map(problem).collect();
    if problems.is_empty() {
        return Ok(());
    }
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    Err(ApiError::invalid(group, said, name, &problems))
}

fn unreadable(version: &str, kind: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}
