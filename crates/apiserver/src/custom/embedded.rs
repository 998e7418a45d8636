//! Validation of resources inside resources (`x-kubernetes-embedded-resource`): each needs an
//! `apiVersion` and a `kind`.

use serde_json::{Map as Object, Value, json};

use super::Structural;
use super::dns_names::label_faults;
use super::go_format::{quoted, shown};
use super::nodes::{child, nodes};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::kinds::json_access::text;
use crate::kinds::traits::NameRule;
use crate::kinds::validate::metadata::common;

/// Returns the problems of the resources embedded in a value at a path. The value itself counts as
/// one if its schema says so.
pub(crate) fn problems(value: &Value, schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut problems = Vec::new();
    for node in nodes(value, schema, path).into_iter().filter(|node| node.schema.embedded) {
        if let Value::Object(resource) = node.value {
            check_version(resource.get("apiVersion"), &child(&node.path, "apiVersion"), &mut problems);
            check_kind(resource.get("kind"), &child(&node.path, "kind"), &mut problems);
            if resource.get("metadata").is_some_and(Value::is_object) {
                check_metadata(resource, &node.path, &mut problems);
            }
        }
    }
    problems
}

/// Validates the metadata of an embedded resource like those of any object, except for the name: it
/// may be absent, and may be any path segment.
fn check_metadata(resource: &Object<String, Value>, path: &str, problems: &mut Vec<FieldError>) {
    let mut metadata = resource["metadata"].clone();
    if text(&metadata, "/name").is_empty() {
        metadata["name"] = "unnamed".into();
    }
    let namespaced = !text(&metadata, "/namespace").is_empty();
    let found = common(NameRule::PathSegment, namespaced, &json!({ "metadata": metadata }));
    problems.extend(found.into_iter().map(|it| FieldError { field: child(path, &it.field), ..it }));
}

fn check_version(version: Option<&Value>, path: &str, problems: &mut Vec<FieldError>) {
    if let Some(text) = text_of(version, path, problems)
        && text.matches('/').count() > 1
    {
        let detail = format!("unexpected GroupVersion string: {text}");
        problems.push(FieldError::with_value(path, FieldErrorKind::Invalid, quoted(text), &detail));
    }
}

fn check_kind(kind: Option<&Value>, path: &str, problems: &mut Vec<FieldError>) {
    let Some(text) = text_of(kind, path, problems) else { return };
    let faults = label_faults(&text.to_lowercase());
    if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        problems.push(FieldError::with_value(path, FieldErrorKind::Invalid, quoted(text), &detail));
    }
}

fn text_of<'a>(value: Option<&'a Value>, path: &str, problems: &mut Vec<FieldError>) -> Option<&'a str> {
    let problem = match value {
        None => FieldError::new(path, FieldErrorKind::Required, ""),
        Some(Value::String(text)) if text.is_empty() => {
            FieldError::with_value(path, FieldErrorKind::Invalid, "\"\"", "must not be empty")
        }
        Some(Value::String(text)) => return Some(text),
        Some(other) => {
            FieldError::with_value(path, FieldErrorKind::Invalid, shown(other), "must be a string")
        }
    };
    problems.push(problem);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_of_an_embedded_resource_are_validated_like_those_of_any_object() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {"r": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}));
        let wrong = |metadata: Value| -> Vec<String> {
            let object = json!({"r": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}});
            problems(&object, &schema, "").into_iter().map(|it| it.field).collect()
        };
        assert_eq!(wrong(json!({"labels": {"a b": "c"}})), ["r.metadata.labels"]);
        assert_eq!(
            wrong(json!({"name": "a/b", "namespace": "A"})),
            ["r.metadata.name", "r.metadata.namespace"]
        );
        assert!(wrong(json!({})).is_empty(), "the name is optional");
        assert!(wrong(json!({"name": "Any Name", "labels": {"a": "b"}})).is_empty());
    }
}
