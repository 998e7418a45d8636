//! Validation of resources inside resources (`x-kubernetes-embedded-resource`): each needs an
//! `apiVersion` and a `kind`.

use serde_json::{Map as Object, Value, json};

use super::Structural;
use super::go_format::{quoted, shown};
use super::nodes::Node;
use super::value_path::ValuePath;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;
use crate::kinds::json_access::text;
use crate::kinds::traits::NameRule;
use crate::kinds::validate::metadata::common;
use crate::names::label_1035;

/// Returns the problems of the resources embedded in a value at a path. The value itself counts as
/// one if its schema says so.
pub(crate) fn problems(value: &Value, schema: &Structural, path: &str) -> FieldErrors {
    let mut problems = FieldErrors::new();
    Node { path: ValuePath::Root(path), value, schema }.walk(&mut |node| {
        let Value::Object(resource) = node.value else { return };
        if node.schema.embedded {
            let field = |key| ValuePath::Field(&node.path, key);
            check_version(resource.get("apiVersion"), &field("apiVersion"), &mut problems);
            check_kind(resource.get("kind"), &field("kind"), &mut problems);
            if resource.get("metadata").is_some_and(Value::is_object) {
                check_metadata(resource, &node.path, &mut problems);
            }
        }
    });
    problems
}

/// Validates the metadata of an embedded resource like those of any object, except for the name: it
/// may be absent, and may be any path segment.
fn check_metadata(resource: &Object<String, Value>, path: &ValuePath<'_>, problems: &mut FieldErrors) {
    let mut metadata = resource["metadata"].clone();
    if text(&metadata, "/name").is_empty() {
        metadata["name"] = "unnamed".into();
    }
    let namespaced = !text(&metadata, "/namespace").is_empty();
    let found = common(NameRule::PathSegment, namespaced, &json!({ "metadata": metadata }));
    for it in found {
        problems
            .push_with(|| FieldError { field: ValuePath::Field(path, &it.field).to_string(), ..it.clone() });
    }
}

fn check_version(version: Option<&Value>, path: &ValuePath<'_>, problems: &mut FieldErrors) {
    if let Some(text) = text_of(version, path, problems)
        && text.matches('/').count() > 1
    {
        let detail = format!("unexpected GroupVersion string: {text}");
        problems.push_with(|| {
            FieldError::with_value(path.to_string(), FieldErrorKind::Invalid, quoted(text), &detail)
        });
    }
}

fn check_kind(kind: Option<&Value>, path: &ValuePath<'_>, problems: &mut FieldErrors) {
    let Some(text) = text_of(kind, path, problems) else { return };
    let faults = label_1035(&text.to_lowercase());
    if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        problems.push_with(|| {
            FieldError::with_value(path.to_string(), FieldErrorKind::Invalid, quoted(text), &detail)
        });
    }
}

fn text_of<'a>(
    value: Option<&'a Value>,
    path: &ValuePath<'_>,
    problems: &mut FieldErrors,
) -> Option<&'a str> {
    let invalid = |value: &str, detail: &str| {
        FieldError::with_value(path.to_string(), FieldErrorKind::Invalid, value, detail)
    };
    match value {
        Some(Value::String(text)) if text.is_empty() => {
            problems.push_with(|| invalid("\"\"", "must not be empty"));
        }
        Some(Value::String(text)) => return Some(text),
        Some(other) => problems.push_with(|| invalid(&shown(other), "must be a string")),
        None => {
            problems.push_with(|| FieldError::new(path.to_string(), FieldErrorKind::Required, ""));
        }
    }
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
