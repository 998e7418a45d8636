//! The `scale` subresource of custom resources, which maps the fields at configured paths to a
//! Scale and back, with the messages of k8s.io/apiextensions-apiserver v0.36.4
//! pkg/registry/customresource/etcd.go.

use serde_json::{Map as Object, Value, json};

use super::go_format::shown_number;
use crate::api_error::{ApiError, FieldError, FieldErrorKind};
use crate::depth;
use crate::field_errors::FieldErrors;

/// The paths of the fields of a Scale in an object, such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec_replicas: String,
    /// `statusReplicasPath`.
    pub status_replicas: String,
    /// `labelSelectorPath`.
    pub selector: Option<String>,
}

/// A marker for absent replicas: the smallest count, which no client sets.
const UNSET: i64 = i32::MIN as i64;

/// Returns the Scale (`autoscaling/v1`) of an object, for a read.
///
/// # Errors
/// 500 if the object has no replicas; 400 if the value at a path is not a number, or not a string
/// for the selector.
pub fn read_scale(object: &Value, paths: &ScalePaths) -> Result<Value, ApiError> {
    let path = &paths.spec_replicas;
    if nested_integer(object, path).is_ok_and(|replicas| replicas.is_none()) {
        let words = format!("the spec replicas field {path:?} does not exist");
        return Err(ApiError::internal_failure(&words));
    }
    scale_of(object, paths)
}

/// Returns the Scale that a patch is applied to. Absent replicas are marked, so that
/// [`apply_scale`] can detect whether the patch has set them.
///
/// # Errors
/// Those of [`scale_of`].
pub fn patch_base(object: &Value, paths: &ScalePaths) -> Result<Value, ApiError> {
    let mut scale = scale_of(object, paths)?;
    if nested_integer(object, &paths.spec_replicas).is_ok_and(|replicas| replicas.is_none()) {
        scale["spec"]["replicas"] = UNSET.into();
    }
    Ok(scale)
}

/// Returns the Scale of an object, for the response to a change. Absent replicas count as 0.
///
/// # Errors
/// 400 if the value at a path is not a number, or not a string for the selector.
pub fn scale_of(object: &Value, paths: &ScalePaths) -> Result<Value, ApiError> {
    let replicas = |path: &str| nested_integer(object, path).map_err(ApiError::bad_request);
    let asked = replicas(&paths.spec_replicas)?.unwrap_or(0);
    let mut status = json!({"replicas": replicas(&paths.status_replicas)?.unwrap_or(0)});
    if let Some(path) = paths.selector.as_deref().filter(|path| !path.is_empty())
        && let Some(selector) = nested_text(object, path).map_err(ApiError::bad_request)?
        && !selector.is_empty()
    {
        status["selector"] = Value::String(selector);
    }
    let mut metadata = Object::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{key}")) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let spec = if asked == 0 { json!({}) } else { json!({"replicas": asked}) };
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    }))
}

/// Writes the replicas of a Scale into an object, and the resource version that it requires, if
/// any. A Scale without replicas means 0.
///
/// # Errors
/// 400 if neither the object nor the patch has replicas; 500 if a value on the path is not an
/// object.
pub fn apply_scale(object: &mut Value, scale: &Value, paths: &ScalePaths) -> Result<(), ApiError> {
    let path = &paths.spec_replicas;
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas == UNSET {
        return Err(ApiError::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
    }
    set_nested(object, path, replicas.into()).map_err(ApiError::unexplained)?;
    if let Some(version) = scale.pointer("/metadata/resourceVersion").filter(|version| *version != "")
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    Ok(())
}

/// Returns the problem of the desired replicas of an object, if there is one.
pub fn spec_problems(object: &Value, paths: &ScalePaths) -> FieldErrors {
    replica_problem(object, &paths.spec_replicas).into_iter().collect()
}

/// Returns the problems of the replicas and the selector in the status of an object.
pub fn status_problems(object: &Value, paths: &ScalePaths) -> FieldErrors {
    let mut problems: FieldErrors = replica_problem(object, &paths.status_replicas).into_iter().collect();
    if let Some(path) = &paths.selector
        && let Err(words) = nested_text(object, path)
    {
        problems.push(FieldError::with_value(path.as_str(), FieldErrorKind::Invalid, "\"\"", &words));
    }
    problems
}

fn replica_problem(object: &Value, path: &str) -> Option<FieldError> {
    let (value, words) = match nested_integer(object, path) {
        Err(words) => (0, words),
        Ok(Some(count)) if count < 0 => (count, "should be a non-negative integer".to_owned()),
        Ok(Some(count)) if count > i64::from(i32::MAX) => {
            (count, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return None,
    };
    Some(FieldError::with_value(path, FieldErrorKind::Invalid, value, &words))
}

fn split(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

/// Returns the field at a path; `Ok(None)` if it is absent.
fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let parts = split(path);
    let mut value = object;
    for (index, part) in parts.iter().enumerate() {
        match value {
            Value::Object(fields) => match fields.get(*part) {
                Some(field) => value = field,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => {
                let above = parts[..=index].join(".");
                return Err(mismatch(&above, other, "map[string]interface{}"));
            }
        }
    }
    Ok(Some(value))
}

fn nested_integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(mismatch(&split(path).join("."), value, "int64")),
        },
    }
}

fn nested_text(object: &Value, path: &str) -> Result<Option<String>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(mismatch(&split(path).join("."), other, "string")),
    }
}

fn mismatch(path: &str, value: &Value, expected: &str) -> String {
    let (shown, kind) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) => {
            (shown_number(number), if number.as_i64().is_some() { "int64" } else { "float64" })
        }
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

/// The number of parts that a path may have: an object at its end is at the depth limit.
pub(super) const MAX_PARTS: usize = depth::OBJECT - 1;

/// Returns true if a path has too many parts.
pub(super) fn is_too_deep(path: &str) -> bool {
    path.bytes().filter(|it| *it == b'.').count() > MAX_PARTS
}

fn set_nested(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if is_too_deep(path) {
        return Err(depth::exceeded());
    }
    let parts = split(path);
    let Some((last, above)) = parts.split_last() else { return Ok(()) };
    let mut at = object;
    for (index, part) in above.iter().enumerate() {
        let refuse = || {
            format!(
                "value cannot be set because {} is not a map[string]interface{{}}",
                format_args!(".{}", parts[..=index].join("."))
            )
        };
        at = at
            .as_object_mut()
            .ok_or_else(refuse)?
            .entry(*part)
            .or_insert_with(|| Value::Object(Object::new()));
        if !at.is_object() {
            return Err(refuse());
        }
    }
    if let Some(fields) = at.as_object_mut() {
        fields.insert((*last).to_owned(), value);
    }
    Ok(())
}
