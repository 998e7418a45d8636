//! Validation of the keywords of a schema, beyond being structural, with the messages of
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apis/apiextensions/validation/validation.go.

use std::collections::HashSet;

use serde_json::Value;

use super::go_format::{json, quoted, quoted_list};
use super::keywords::{flag, listed, named, text};
use super::schema_path::SchemaPath;
use super::structural_rules::value_of;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The number of `x-kubernetes-list-map-keys` that a list may have. kube-apiserver has no limit.
/// All of them are looked up in every item.
const MAX_KEYS: usize = 64;

/// The number of bytes that the names of these keys may have together. kube-apiserver has no limit.
/// Names that an item does not have are looked up among the defaults, which takes as long as they
/// are.
const MAX_KEY_BYTES: usize = 2048;

/// Returns the problems of a schema, from the root down.
pub(crate) fn problems(schema: &Value, path: &str) -> FieldErrors {
    let mut walker = Walker { problems: FieldErrors::new() };
    walker.node(
        schema,
        &SchemaPath::root(path),
        &NodeContext { root: true, no_defaults: None, inside_meta: false },
    );
    walker.problems
}

/// The context of a node in a schema.
#[derive(Clone)]
struct NodeContext {
    root: bool,
    /// The reason why defaults are not allowed here.
    no_defaults: Option<String>,
    inside_meta: bool,
}

struct Walker {
    problems: FieldErrors,
}

impl Walker {
    fn forbid(&mut self, field: SchemaPath, detail: &str) {
        self.problems.push_with(|| FieldError::new(field, FieldErrorKind::Forbidden, detail));
    }

    fn require(&mut self, field: SchemaPath, detail: &str) {
        self.problems.push_with(|| FieldError::new(field, FieldErrorKind::Required, detail));
    }

    fn refuse(&mut self, field: SchemaPath, value: &str, detail: &str) {
        self.problems.push_with(|| FieldError::with_value(field, FieldErrorKind::Invalid, value, detail));
    }

    fn unsupported(&mut self, field: SchemaPath, value: &str, supported: &[&str]) {
        let detail = format!("supported values: {}", quoted_list(supported));
        self.problems.push_with(|| {
            FieldError::with_value(field, FieldErrorKind::NotSupported, quoted(value), &detail)
        });
    }

    fn node(&mut self, schema: &Value, path: &SchemaPath, context: &NodeContext) {
        if !schema.is_object() {
            return;
        }
        self.standard(schema, path, context);
        if flag(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path.keyword("uniqueItems"), detail);
        }
        self.children(schema, path, &NodeContext { root: false, ..context.clone() }, context.root);
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let field = path.keyword("x-kubernetes-preserve-unknown-fields");
            self.refuse(field, "false", "must be true or undefined");
        }
        self.map_type(schema, path);
        self.list_type(schema, path);
        self.list_keys(schema, path);
        self.set_or_map_items(schema, path);
    }

    fn standard(&mut self, schema: &Value, path: &SchemaPath, context: &NodeContext) {
        let kind = text(schema, "type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.unsupported(path.keyword("type"), kind, &TYPES);
        }
        if let Some(reason) =
            context.no_defaults.as_ref().filter(|_| schema.get("default").is_some_and(|it| !it.is_null()))
        {
            self.forbid(path.keyword("default"), &format!("must not be set {reason}"));
        }
        for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if schema.get(key).is_some_and(|value| !value.is_null()) {
                self.forbid(path.keyword(key), &format!("{key} is not supported"));
            }
        }
        if kind == "null" {
            self.forbid(path.keyword("type"), "type cannot be set to null, use nullable as an alternative");
        }
        if schema.get("items").is_some_and(Value::is_array) {
            self.forbid(path.keyword("items"), "items must be a schema object and not an array");
        }
        if context.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
            let field = path.keyword("x-kubernetes-embedded-resource");
            self.forbid(field, "must not be used inside of resource meta");
        }
    }

    fn children(&mut self, schema: &Value, path: &SchemaPath, context: &NodeContext, root: bool) {
        if let Some(additional) = schema.get("additionalProperties") {
            let field = path.keyword("additionalProperties");
            if named(schema, "properties").next().is_some() && *additional != Value::Bool(true) {
                self.forbid(field.clone(), "additionalProperties and properties are mutual exclusive");
            }
            let mut context = context.clone();
            if context.inside_meta {
                context.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.node(additional, &field, &context);
        }
        let whole = root || flag(schema, "x-kubernetes-embedded-resource");
        for (name, schema) in named(schema, "properties") {
            let mut context = context.clone();
            if whole && super::prune::is_meta(name) {
                context.inside_meta = true;
                if root {
                    context.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.node(schema, &path.property(name), &context);
        }
        for key in ["not", "items"] {
            if let Some(schema) = schema.get(key) {
                self.node(schema, &path.keyword(key), context);
            }
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            for (index, schema) in listed(schema, key).iter().enumerate() {
                self.node(schema, &path.item(key, index), context);
            }
        }
    }

    fn map_type(&mut self, schema: &Value, path: &SchemaPath) {
        let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else { return };
        self.must_be(schema, path, "object", "x-kubernetes-map-type");
        if !matches!(map_type, "atomic" | "granular") {
            self.unsupported(path.keyword("x-kubernetes-map-type"), map_type, &["atomic", "granular"]);
        }
    }

    fn must_be(&mut self, schema: &Value, path: &SchemaPath, kind: &str, because: &str) -> bool {
        let actual = text(schema, "type");
        let detail = format!("must be {kind} if {because} is specified");
        match actual {
            actual if actual == kind => return true,
            "" => self.require(path.keyword("type"), &detail),
            actual => self.refuse(path.keyword("type"), &quoted(actual), &detail),
        }
        false
    }

    fn list_type(&mut self, schema: &Value, path: &SchemaPath) {
        let Some(list_type) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else { return };
        let is_list = self.must_be(schema, path, "array", "x-kubernetes-list-type");
        if is_list
            && list_type == "set"
            && let Some(items) = schema.get("items")
        {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let nested = text(items, "x-kubernetes-list-type");
            let value = value_of(items, "x-kubernetes-list-type");
            match text(items, "type") {
                "array" if !matches!(nested, "" | "atomic") => {
                    self.refuse(path.keyword("items.x-kubernetes-list-type"), &value, detail);
                }
                "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
                    self.refuse(path.keyword("items.x-kubernetes-map-type"), &value, detail);
                }
                _ => {}
            }
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            self.unsupported(path.keyword("x-kubernetes-list-type"), list_type, &["atomic", "set", "map"]);
        }
    }

    fn list_keys(&mut self, schema: &Value, path: &SchemaPath) {
        let keys = listed(schema, "x-kubernetes-list-map-keys");
        let list_type = text(schema, "x-kubernetes-list-type");
        if !keys.is_empty() && list_type != "map" {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let field = path.keyword("x-kubernetes-list-type");
            match list_type {
                "" => self.require(field, detail),
                other => self.refuse(field, &quoted(other), detail),
            }
        }
        if list_type != "map" {
            return;
        }
        if keys.is_empty() {
            let field = path.keyword("x-kubernetes-list-map-keys");
            self.require(field, "must not be empty if x-kubernetes-list-type is map");
        }
        let Some(items) = schema.get("items") else {
            return self
                .require(path.keyword("items"), "must have a schema if x-kubernetes-list-type is map");
        };
        let kind = text(items, "type");
        if kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            return self.refuse(path.keyword("items.type"), &quoted(kind), detail);
        }
        if keys.len() > MAX_KEYS {
            let field = path.keyword("x-kubernetes-list-map-keys");
            let detail = format!("must have at most {MAX_KEYS} items (a limit of this server)");
            let count = keys.len();
            self.problems
                .push_with(|| FieldError::with_value(field, FieldErrorKind::TooMany, count, &detail));
            return;
        }
        if keys.iter().filter_map(Value::as_str).map(str::len).sum::<usize>() > MAX_KEY_BYTES {
            let field = path.keyword("x-kubernetes-list-map-keys");
            let detail =
                format!("may not be more than {MAX_KEY_BYTES} bytes together (a limit of this server)");
            self.problems.push_with(|| FieldError::new(field, FieldErrorKind::TooLong, &detail));
            return;
        }
        self.keys_name_scalars(schema, items, path);
    }

    fn keys_name_scalars(&mut self, schema: &Value, items: &Value, path: &SchemaPath) {
        let keys = listed(schema, "x-kubernetes-list-map-keys");
        let field = path.keyword("x-kubernetes-list-map-keys");
        let all = json(&Value::Array(keys.to_vec()));
        let mut seen = HashSet::new();
        for key in keys {
            let name = key.as_str().unwrap_or_default();
            match items.get("properties").and_then(|properties| properties.get(name)) {
                None => self.refuse(field.clone(), &all, "entries must all be names of item properties"),
                Some(schema) if matches!(text(schema, "type"), "array" | "object") => {
                    let field = path.keyword("items").property(name).keyword("type");
                    // kube-apiserver shows the type of the item here, not that of the key.
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.refuse(field, &quoted(text(items, "type")), detail);
                }
                Some(_) => {}
            }
            if !seen.insert(key) {
                self.refuse(field.clone(), &all, "must not contain duplicate entries");
            }
        }
    }

    /// Checks the items of sets and keyed lists: they must not be null, and their keys must not be
    /// missing.
    fn set_or_map_items(&mut self, schema: &Value, path: &SchemaPath) {
        let list_type = text(schema, "x-kubernetes-list-type");
        let Some(items) = schema.get("items").filter(|_| matches!(list_type, "set" | "map")) else { return };
        if flag(items, "nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbid(path.keyword("items.nullable"), &detail);
        }
        if list_type == "set" {
            return;
        }
        let required: HashSet<&str> = listed(items, "required").iter().filter_map(Value::as_str).collect();
        for key in listed(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str) {
            let Some(schema) = items.get("properties").and_then(|properties| properties.get(key)) else {
                continue;
            };
            let path = path.keyword("items").property(key);
            if !required.contains(key) && schema.get("default").is_none_or(Value::is_null) {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                              property";
                self.require(path.keyword("default"), detail);
            }
            if flag(schema, "nullable") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(path.keyword("nullable"), detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_keys_of_a_list_are_limited_in_number_and_size() {
        let found = |count: usize, size: usize| {
            let names: Vec<String> = (0..count).map(|it| format!("k{it:0>0$}", size - 1)).collect();
            let properties: serde_json::Map<String, Value> =
                names.iter().map(|it| (it.clone(), json!({ "type": "string" }))).collect();
            let items = json!({ "type": "object", "required": names, "properties": properties });
            let schema = json!({ "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": names, "items": items });
            problems(&schema, "s").into_iter().map(|it| format!("{}: {}", it.field, it.message))
        };
        assert_eq!(found(64, 32).count(), 0);
        let expected =
            "s.x-kubernetes-list-map-keys: Too many: 65: must have at most 64 items (a limit of this server)";
        assert_eq!(found(65, 3).collect::<Vec<_>>(), [expected]);
        let expected = "s.x-kubernetes-list-map-keys: Too long: may not be more than 2048 bytes together (a limit of \
                        this server)";
        assert_eq!(found(64, 33).collect::<Vec<_>>(), [expected]);
    }
}
