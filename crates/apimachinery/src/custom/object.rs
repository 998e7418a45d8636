//! The steps of a custom object before it is stored: decoding, preparation, validation.
//!
//! Names, labels and the other parts of `metadata` that all kinds share are validated elsewhere.

use serde_json::Value;

use super::definition::Version;
pub use super::go_format::settle_numbers;
use super::{default, embedded, listtype, metadata, prune, scale, validate};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// Decodes an object of a version: drops unknown fields and fills in defaults. Returns the paths of
/// the dropped fields, in the order in which to report them ([`prune::unknown_field`]).
///
/// # Errors
/// The reason why the object cannot be decoded, to follow
/// `KIND in version "VERSION" cannot be handled as a KIND: `.
pub fn decode(object: &mut Value, version: &Version) -> Result<Vec<String>, String> {
    let unknown = read(object, version)?;
    default::fill(object, &version.schema)?;
    Ok(unknown)
}

/// Decodes the result of an apply like [`decode`], but keeps nulls that are not allowed, which
/// validation then reports.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_applied(object: &mut Value, version: &Version) -> Result<(), String> {
    read(object, version)?;
    default::fill_missing(object, &version.schema)?;
    Ok(())
}

fn read(object: &mut Value, version: &Version) -> Result<Vec<String>, String> {
    if let Some(words) = metadata::misfit(object) {
        return Err(words);
    }
    let mut unknown = prune::prune(object, &version.schema);
    let in_metadata = metadata::coerce(object, &version.schema)?;
    let (root, embedded): (Vec<String>, Vec<String>) =
        in_metadata.into_iter().partition(|path| path.starts_with("metadata."));
    unknown.splice(0..0, root);
    unknown.extend(embedded);
    Ok(unknown)
}

/// Prepares a new object: removes `status` if that is a subresource, and sets the first generation.
pub fn prepare_create(object: &mut Value, version: &Version) {
    let Some(fields) = object.as_object_mut() else { return };
    if version.status {
        fields.remove("status");
    }
    set_generation(object, 1);
}

/// Prepares a changed object: keeps `status` if that is a subresource, and increments the
/// generation for any change outside of `metadata`.
pub fn prepare_update(object: &mut Value, old: &Value, version: &Version) {
    if version.status {
        take_over(object, old, "status");
    }
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    let same = |left: &Value, right: &Value| {
        let rest = |value: &Value| {
            value.as_object().map(|it| it.iter().filter(|(key, _)| *key != "metadata").count())
        };
        rest(left) == rest(right)
            && left
                .as_object()
                .into_iter()
                .flatten()
                .all(|(key, value)| key == "metadata" || right.get(key) == Some(value))
    };
    let generation = if same(object, old) { generation } else { generation + 1 };
    set_generation(object, generation);
}

/// Prepares a change of the status: keeps everything else, except for the managed fields.
pub fn prepare_status(object: &mut Value, old: &Value) {
    let managed = object["metadata"].get("managedFields").cloned();
    let keys = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let version = object["metadata"].get("resourceVersion").cloned();
    for key in keys(object).into_iter().chain(keys(old)) {
        if key != "status" && key != "apiVersion" && key != "kind" {
            take_over(object, old, &key);
        }
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for (key, value) in [("managedFields", managed), ("resourceVersion", version)] {
        match value {
            Some(value) => metadata.insert(key.to_owned(), value),
            None => metadata.remove(key),
        };
    }
}

/// Returns the problems of a new object.
pub fn validate_create(object: &Value, version: &Version) -> FieldErrors {
    let schema = &version.schema;
    let mut problems = validate::validate(object, None, schema);
    if let Some(paths) = &version.scale {
        problems.append(scale::spec_problems(object, paths));
        problems.append(scale::status_problems(object, paths));
    }
    problems.append(embedded::problems(object, schema, ""));
    problems.append(listtype::problems(object, schema));
    check_rules(object, None, version, &mut problems);
    problems
}

/// Returns the problems of a changed object. Unchanged invalid values are accepted.
pub fn validate_update(object: &Value, old: &Value, version: &Version) -> FieldErrors {
    let schema = &version.schema;
    let mut problems = validate::validate(object, Some(old), schema);
    if let Some(paths) = &version.scale {
        problems.append(scale::spec_problems(object, paths));
        problems.append(scale::status_problems(object, paths));
    }
    problems.append(embedded::problems(object, schema, ""));
    if listtype::problems(old, schema).is_empty() {
        problems.append(listtype::problems(object, schema));
    }
    check_rules(object, Some(old), version, &mut problems);
    problems
}

/// Returns the problems of a changed status. In messages, paths begin at the status.
pub fn validate_status(object: &Value, old: &Value, version: &Version) -> FieldErrors {
    let mut problems = FieldErrors::new();
    if let (Some(status), Some(schema)) = (object.get("status"), version.schema.properties.get("status")) {
        problems.append(validate::validate_part(status, old.get("status"), schema, "status"));
    }
    if let Some(paths) = &version.scale {
        problems.append(scale::status_problems(object, paths));
    }
    problems.append(embedded::problems(object, &version.schema, ""));
    if listtype::problems(old, &version.schema).is_empty() {
        problems.append(listtype::problems(object, &version.schema));
    }
    check_rules(object, Some(old), version, &mut problems);
    problems
}

/// Adds the rules that the object breaks. If it is structurally invalid, they are not evaluated,
/// and the message of kube-apiserver says so (k8s.io/apiextensions-apiserver v0.36.4
/// pkg/registry/customresource/strategy.go).
fn check_rules(object: &Value, old: Option<&Value>, version: &Version, problems: &mut FieldErrors) {
    let Some(rules) = &version.rules else { return };
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    let blocks = |problem: &FieldError| {
        matches!(problem.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    if !problems.iter().any(blocks) {
        problems.append(rules.problems(object, old));
    } else {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                      complete validation";
        problems.push(FieldError::with_value(validate::NOWHERE, FieldErrorKind::Invalid, "null", detail));
    }
}

fn take_over(object: &mut Value, old: &Value, key: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => fields.insert(key.to_owned(), value.clone()),
        None => fields.remove(key),
    };
}

fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".to_owned(), generation.into());
    }
}
