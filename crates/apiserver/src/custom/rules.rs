//! What makes a schema structural: each field has a type outside of `allOf`, `anyOf`, `oneOf` and `not`, and those only
//! restrict values.

use regex::Regex;
use serde_json::{Map as Object, Value, json};

use super::printed::{quoted, shown};
use crate::refusal::{Problem, ProblemKind};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Why a schema is not structural, sorted by what is said; empty where it is.
pub(crate) fn problems(schema: &Value, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    node(schema, Level::Root, path, &mut problems);
    completeness(schema, Some(schema), path, path, &mut problems);
    problems.sort_by_cached_key(ToString::to_string);
    problems
}

/// The first keyword in a schema that no structural schema has. Where there is one, the rest is not looked at.
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

/// The path of a property.
pub(crate) fn property(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

/// The named schemas below a key of a schema.
pub(crate) fn named<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// The listed schemas below a key of a schema.
pub(crate) fn listed<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at a key of a schema; empty where there is none.
pub(crate) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a key of a schema is set to true.
pub(crate) fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn forbidden(field: String, detail: &str) -> Problem {
    Problem::new(field, ProblemKind::Forbidden, detail)
}

fn required(field: String, detail: &str) -> Problem {
    Problem::new(field, ProblemKind::Required, detail)
}

fn invalid(field: String, value: &str, detail: &str) -> Problem {
    Problem::with_value(field, ProblemKind::Invalid, quoted(value), detail)
}

fn node(schema: &Value, level: Level, path: &str, problems: &mut Vec<Problem>) {
    if text(schema, "type") == "array" && schema.get("items").is_none() {
        problems.push(required(format!("{path}.items"), "must be specified"));
    }
    if let Some(items) = schema.get("items") {
        node(items, Level::Item, &format!("{path}.items"), problems);
    }
    for (name, schema) in named(schema, "properties") {
        node(schema, Level::Field, &property(path, name), problems);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        let path = format!("{path}.additionalProperties");
        if level == Level::Root {
            problems.push(forbidden(path.clone(), "must not be used at the root"));
        }
        if additional.is_object() {
            node(additional, Level::Field, &path, problems);
        }
    }
    extensions(schema, path, problems);
    let all_of_first = listed(schema, "allOf").first();
    restrictions(
        schema,
        is_int_or_string(schema),
        all_of_first.is_some_and(is_int_or_string),
        path,
        problems,
    );
    types(schema, level, path, problems);
    meta(schema, level, path, problems);
}

fn extensions(schema: &Value, path: &str, problems: &mut Vec<Problem>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, key) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            problems.push(Problem::with_value(format!("{path}.{key}"), ProblemKind::Invalid, true, detail));
        }
    }
}

/// The one place where types below `anyOf` are fine: integer or string.
fn is_int_or_string(schema: &Value) -> bool {
    schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn types(schema: &Value, level: Level, path: &str, problems: &mut Vec<Problem>) {
    let kind = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let at = || format!("{path}.type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        problems.push(if kind.is_empty() { required(at(), detail) } else { invalid(at(), kind, detail) });
    } else if kind.is_empty() && !flag(schema, "x-kubernetes-int-or-string") && !preserves {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        problems.push(required(at(), detail));
    }
    if embedded && schema.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        problems.push(forbidden(format!("{path}.additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        problems.push(invalid(at(), kind, "must be object at the root"));
    }
    if embedded && !preserves && named(schema, "properties").next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        problems.push(required(format!("{path}.properties"), detail));
    }
}

/// The fields every resource has can be narrowed a little, and only at the root or in an embedded resource.
fn meta(schema: &Value, level: Level, path: &str, problems: &mut Vec<Problem>) {
    let whole = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, kind) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(schema) = schema.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let path = property(path, name);
        let actual = text(schema, "type");
        if whole && actual != kind {
            problems.push(invalid(format!("{path}.type"), actual, &format!("must be {kind}")));
        }
        if name == "metadata" && level == Level::Root && says_more_than_names(schema) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            problems.push(forbidden(path, detail));
        }
    }
}

fn says_more_than_names(metadata: &Value) -> bool {
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

/// What stands below `allOf`, `anyOf`, `oneOf` and `not`, and the pattern.
fn restrictions(
    schema: &Value,
    skip_any: bool,
    skip_first_all: bool,
    path: &str,
    problems: &mut Vec<Problem>,
) {
    for key in ["anyOf", "allOf", "oneOf"] {
        for (index, schema) in listed(schema, key).iter().enumerate() {
            let skip = match key {
                "anyOf" if skip_any => continue,
                "allOf" => skip_first_all && index == 0,
                _ => false,
            };
            restriction(schema, skip, &format!("{path}.{key}[{index}]"), problems);
        }
    }
    if let Some(not) = schema.get("not") {
        restriction(not, false, &format!("{path}.not"), problems);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = Regex::new(pattern) {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}");
        problems.push(invalid(format!("{path}.pattern"), pattern, &detail));
    }
}

fn restriction(schema: &Value, skip_any: bool, path: &str, problems: &mut Vec<Problem>) {
    restrictions(schema, skip_any, false, path, problems);
    if let Some(items) = schema.get("items") {
        restriction(items, false, &format!("{path}.items"), problems);
    }
    for (name, schema) in named(schema, "properties") {
        restriction(schema, false, &property(path, name), problems);
    }
    let there = |key: &str| schema.get(key).is_some_and(|value| !value.is_null());
    let filled = |key: &str| !text(schema, key).is_empty();
    let additional =
        schema.get("additionalProperties").is_some_and(|it| it.is_object() || *it == Value::Bool(true));
    for (key, broken, detail) in [
        ("type", filled("type"), "must be empty to be structural"),
        ("additionalProperties", additional, "must be undefined to be structural"),
        ("default", there("default"), "must be undefined to be structural"),
        ("title", filled("title"), "must be empty to be structural"),
        ("description", filled("description"), "must be empty to be structural"),
        ("nullable", flag(schema, "nullable"), "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            flag(schema, "x-kubernetes-preserve-unknown-fields"),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            flag(schema, "x-kubernetes-embedded-resource"),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            flag(schema, "x-kubernetes-int-or-string"),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            !listed(schema, "x-kubernetes-list-map-keys").is_empty(),
            "must be empty to be structural",
        ),
        ("x-kubernetes-list-type", there("x-kubernetes-list-type"), "must be undefined to be structural"),
        ("x-kubernetes-map-type", there("x-kubernetes-map-type"), "must be undefined to be structural"),
        (
            "x-kubernetes-validations",
            !listed(schema, "x-kubernetes-validations").is_empty(),
            "must be empty to be structural",
        ),
    ] {
        if broken {
            problems.push(forbidden(format!("{path}.{key}"), detail));
        }
    }
    if named(schema, "properties").any(|(name, _)| name == "metadata") {
        problems.push(forbidden(property(path, "metadata"), "must not be specified in a nested context"));
    }
}

/// Whatever is restricted below `allOf` and the like must also be there without.
fn completeness(
    rule: &Value,
    schema: Option<&Value>,
    path: &str,
    rule_path: &str,
    problems: &mut Vec<Problem>,
) {
    let mut nested: Vec<(&Value, String)> = Vec::new();
    if let Some(not) = rule.get("not") {
        nested.push((not, format!("{rule_path}.not")));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let rules = listed(rule, key).iter().enumerate();
        nested.extend(rules.map(|(index, rule)| (rule, format!("{rule_path}.{key}[{index}]"))));
    }
    for (rule, rule_path) in nested {
        complete_below(rule, schema, path, &rule_path, problems);
    }
}

fn complete_below(
    rule: &Value,
    schema: Option<&Value>,
    path: &str,
    rule_path: &str,
    problems: &mut Vec<Problem>,
) {
    let Some(schema) = schema else {
        problems.push(required(path.to_owned(), &format!("because it is defined in {rule_path}")));
        return;
    };
    completeness(rule, Some(schema), path, rule_path, problems);
    if let Some(items) = rule.get("items") {
        complete_below(
            items,
            schema.get("items"),
            &format!("{path}.items"),
            &format!("{rule_path}.items"),
            problems,
        );
    }
    let known: Option<&Object<String, Value>> = schema.get("properties").and_then(Value::as_object);
    for (name, rule) in named(rule, "properties") {
        let schema = known.and_then(|known| known.get(name));
        complete_below(rule, schema, &property(path, name), &property(rule_path, name), problems);
    }
}

/// A value for a message, without quotes where it is no text.
pub(crate) fn value_of(schema: &Value, key: &str) -> String {
    schema.get(key).map_or_else(|| "null".to_owned(), shown)
}
