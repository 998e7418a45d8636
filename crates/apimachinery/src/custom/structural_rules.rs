//! The rules of structural schemas: each field has a type outside of `allOf`, `anyOf`, `oneOf` and
//! `not`, and those only restrict values.
//!
//! A schema is flattened into the list of its nodes first ([`schema_nodes`]); then each node is
//! checked against the rules of its role. The messages are those of k8s.io/apiextensions-apiserver
//! v0.36.4 pkg/apiserver/schema/validation.go.

use serde_json::Value;

use super::go_format::{quoted, shown};
use super::keywords::{flag, listed, named, text};
use super::pattern::Pattern;
use super::schema_nodes::{Level, RestrictionTarget, Role, SchemaNode, schema_nodes};
use super::schema_path::SchemaPath;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// Returns the reasons why a schema is not structural, sorted by message.
pub(crate) fn problems(schema: &Value, path: &str) -> FieldErrors {
    let mut problems = FieldErrors::new();
    for node in schema_nodes(schema, path) {
        pattern(&node, &mut problems);
        match &node.role {
            Role::Part(level) => {
                types(&node, *level, &mut problems);
                embedded(&node, &mut problems);
                numbers_or_text(&node, &mut problems);
                inherited_fields(&node, *level, &mut problems);
            }
            Role::Restriction(target) => {
                check_restriction(&node, &mut problems);
                if let RestrictionTarget::Missing(path) = target {
                    problems.push_with(|| {
                        required(path.clone(), &format!("because it is defined in {}", node.path))
                    });
                }
            }
        }
    }
    problems.sort();
    problems
}

/// Returns the first keyword in a schema that no structural schema has. If there is one, the rest
/// is not checked.
pub(crate) fn unsupported(schema: &Value) -> Option<&'static str> {
    const KEYWORDS: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some("x-kubernetes-preserve-unknown-fields: false");
    }
    let own = KEYWORDS.iter().find(|(key, _)| schema.get(*key).is_some_and(|value| !empty(value)));
    let single = ["items", "not", "additionalProperties"].iter().filter_map(|key| schema.get(*key));
    let several = ["allOf", "anyOf", "oneOf"].iter().flat_map(|key| listed(schema, key));
    let mut below = single.chain(several).chain(named(schema, "properties").map(|(_, schema)| schema));
    own.map(|(_, name)| *name).or_else(|| below.find_map(unsupported))
}

fn forbidden(field: SchemaPath, detail: &str) -> FieldError {
    FieldError::new(field, FieldErrorKind::Forbidden, detail)
}

fn required(field: SchemaPath, detail: &str) -> FieldError {
    FieldError::new(field, FieldErrorKind::Required, detail)
}

fn invalid(field: SchemaPath, value: &str, detail: &str) -> FieldError {
    FieldError::with_value(field, FieldErrorKind::Invalid, quoted(value), detail)
}

/// Checks that a pattern is a regular expression.
fn pattern(node: &SchemaNode<'_>, problems: &mut FieldErrors) {
    let pattern = text(node.schema, "pattern");
    if let Some(mistake) = Pattern::mistake(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {mistake}");
        problems.push_with(|| invalid(node.at("pattern"), pattern, &detail));
    }
}

/// Checks types: every part has one unless any value is allowed, a list describes its items, and
/// the root is an object.
fn types(node: &SchemaNode<'_>, level: Level, problems: &mut FieldErrors) {
    let (schema, kind) = (node.schema, text(node.schema, "type"));
    let anything =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if kind.is_empty() && !anything && !node.is_embedded() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        problems.push_with(|| required(node.at("type"), detail));
    }
    if kind == "array" && schema.get("items").is_none() {
        problems.push_with(|| required(node.at("items"), "must be specified"));
    }
    if level == Level::Root {
        if !kind.is_empty() && kind != "object" {
            problems.push_with(|| invalid(node.at("type"), kind, "must be object at the root"));
        }
        if schema.get("additionalProperties").is_some() {
            problems.push_with(|| forbidden(node.at("additionalProperties"), "must not be used at the root"));
        }
    }
}

/// Checks embedded resources: each is an object with properties, or preserves unknown fields.
fn embedded(node: &SchemaNode<'_>, problems: &mut FieldErrors) {
    if !node.is_embedded() {
        return;
    }
    let (schema, kind) = (node.schema, text(node.schema, "type"));
    let detail = "must be object if x-kubernetes-embedded-resource is true";
    match kind {
        "object" => {}
        "" => problems.push_with(|| required(node.at("type"), detail)),
        kind => problems.push_with(|| invalid(node.at("type"), kind, detail)),
    }
    if schema.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        problems.push_with(|| forbidden(node.at("additionalProperties"), detail));
    }
    let keeps = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if !keeps && named(schema, "properties").next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        problems.push_with(|| required(node.at("properties"), detail));
    }
}

/// Checks `x-kubernetes-int-or-string`: such a value has no fields.
fn numbers_or_text(node: &SchemaNode<'_>, problems: &mut FieldErrors) {
    if !flag(node.schema, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(node.schema, key) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            problems
                .push_with(|| FieldError::with_value(node.at(key), FieldErrorKind::Invalid, true, detail));
        }
    }
}

/// Checks the fields that every resource has: their types at the root and in embedded resources,
/// and that the root restricts nothing but the names in `metadata`.
fn inherited_fields(node: &SchemaNode<'_>, level: Level, problems: &mut FieldErrors) {
    let whole = level == Level::Root || node.is_embedded();
    for (name, kind) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(schema) = node.schema.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let path = node.path.property(name);
        let actual = text(schema, "type");
        if whole && actual != kind {
            problems.push_with(|| invalid(path.keyword("type"), actual, &format!("must be {kind}")));
        }
        if name == "metadata" && level == Level::Root && restricts_more_than_names(schema) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            problems.push_with(|| forbidden(path, detail));
        }
    }
}

fn restricts_more_than_names(metadata: &Value) -> bool {
    let names_only =
        named(metadata, "properties").all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    metadata.as_object().into_iter().flatten().any(|(key, value)| match key.as_str() {
        "type" | "default" => false,
        "properties" => !names_only,
        _ => !empty(value),
    })
}

/// The value that a forbidden keyword must have in a restriction.
enum RequiredValue {
    Empty,
    Undefined,
    False,
}

/// The keywords that only parts may have, not restrictions.
const ONLY_IN_PARTS: [(&str, RequiredValue); 12] = [
    ("type", RequiredValue::Empty),
    ("default", RequiredValue::Undefined),
    ("title", RequiredValue::Empty),
    ("description", RequiredValue::Empty),
    ("nullable", RequiredValue::False),
    ("x-kubernetes-preserve-unknown-fields", RequiredValue::False),
    ("x-kubernetes-embedded-resource", RequiredValue::False),
    ("x-kubernetes-int-or-string", RequiredValue::False),
    ("x-kubernetes-list-map-keys", RequiredValue::Empty),
    ("x-kubernetes-list-type", RequiredValue::Undefined),
    ("x-kubernetes-map-type", RequiredValue::Undefined),
    ("x-kubernetes-validations", RequiredValue::Empty),
];

/// Checks that a restriction has no keyword that describes a value.
fn check_restriction(node: &SchemaNode<'_>, problems: &mut FieldErrors) {
    let schema = node.schema;
    for (key, required_value) in ONLY_IN_PARTS {
        let (said, detail) = match required_value {
            RequiredValue::Empty => {
                let said = !text(schema, key).is_empty() || !listed(schema, key).is_empty();
                (said, "must be empty to be structural")
            }
            RequiredValue::Undefined => {
                (schema.get(key).is_some_and(|it| !it.is_null()), "must be undefined to be structural")
            }
            RequiredValue::False => (flag(schema, key), "must be false to be structural"),
        };
        if said {
            problems.push_with(|| forbidden(node.at(key), detail));
        }
    }
    let more = "additionalProperties";
    if schema.get(more).is_some_and(|it| it.is_object()) || flag(schema, more) {
        problems.push_with(|| forbidden(node.at(more), "must be undefined to be structural"));
    }
    if named(schema, "properties").any(|(name, _)| name == "metadata") {
        let path = node.path.property("metadata");
        problems.push_with(|| forbidden(path, "must not be specified in a nested context"));
    }
}

/// Formats the value of a keyword for a message, quoted if it is a string.
pub(crate) fn value_of(schema: &Value, key: &str) -> String {
    schema.get(key).map_or_else(|| "null".to_owned(), shown)
}
