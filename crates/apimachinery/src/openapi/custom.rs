//! The schemas of custom kinds: those of their definitions, with the fields that every object has.
//!
//! OpenAPI v3 publishes the schema of the definition unchanged. OpenAPI v2 cannot express all of
//! it, and its clients treat unknown fields as forbidden, so more is left out than v2 could
//! express. Both are built in the form of v3; [`super::swagger`] converts to v2.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::component::{meta, reference};
use crate::builtin::{Descriptions, ResourceDef};

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// A kind whose field descriptions hold for all kinds.
const ANY_KIND: &str = "io.k8s.api.core.v1.ConfigMap";

/// A served custom kind, with the schema of its definition.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The resource. Its group and version are those of the document.
    pub resource: Arc<ResourceDef>,
    /// The `openAPIV3Schema` of the version, if it has one.
    pub schema: Option<Value>,
    /// The fields that field selectors may use, without the leading dot.
    pub selectable: Vec<String>,
}

/// Returns the schema of a custom kind: its own, with the fields that every object has, and its
/// group, version and kind.
pub(super) fn schema(kind: &CustomKind, descriptions: &Descriptions) -> Value {
    let mut out = own_or_object(kind);
    spell_out(&mut out, false);
    add_object_fields(&mut out, |name| descriptions.of_field(ANY_KIND, name));
    add_group_version_kind(&mut out, kind, &kind.resource.kind);
    Value::Object(out)
}

/// Returns the same schema without what OpenAPI v2 cannot express.
pub(super) fn simple_schema(kind: &CustomKind, descriptions: &Descriptions) -> Value {
    let mut out = own_or_object(kind);
    if kind.schema.is_none() || is_set(&out, "x-kubernetes-preserve-unknown-fields") {
        // Clients of v2 treat fields that are not listed as forbidden, so none is listed.
        out = Map::from_iter([("type".to_owned(), json!("object"))]);
    } else {
        simplify(&mut out);
        spell_out(&mut out, true);
        add_object_fields(&mut out, |name| descriptions.of_field(ANY_KIND, name));
    }
    add_group_version_kind(&mut out, kind, &kind.resource.kind);
    Value::Object(out)
}

/// Returns the schema of lists of a custom kind.
pub(super) fn list_schema(kind: &CustomKind, item: &str, descriptions: &Descriptions) -> Value {
    let resource = &kind.resource;
    let list_kind = resource.list_kind();
    let mut out = Map::new();
    out.insert("type".to_owned(), json!("object"));
    out.insert("description".to_owned(), json!(format!("{list_kind} is a list of {}", resource.kind)));
    out.insert("required".to_owned(), json!(["items"]));
    add_object_fields(&mut out, |name| descriptions.of_field(ANY_KIND, name));
    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        let description = format!("List of {}. More info: {CONVENTIONS}", resource.plural);
        let items = json!({"type": "array", "items": reference(item), "description": description});
        properties.insert("items".to_owned(), items);
        let description = format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds");
        let metadata = json!({"allOf": [reference(&meta("ListMeta"))], "description": description});
        properties.insert("metadata".to_owned(), metadata);
    }
    add_group_version_kind(&mut out, kind, &list_kind);
    Value::Object(out)
}

fn own_or_object(kind: &CustomKind) -> Map<String, Value> {
    match &kind.schema {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::from_iter([("type".to_owned(), json!("object"))]),
    }
}

fn add_group_version_kind(schema: &mut Map<String, Value>, kind: &CustomKind, name: &str) {
    let names = json!([{"group": kind.resource.group, "kind": name, "version": kind.resource.version}]);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), names);
    if !kind.selectable.is_empty() {
        let fields = kind.selectable.iter().map(|it| json!({ "fieldPath": it })).collect();
        schema.insert("x-kubernetes-selectable-fields".to_owned(), fields);
    }
}

fn is_set(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Sets the fields that every object has, replacing what the schema declares about them.
fn add_object_fields(schema: &mut Map<String, Value>, description: impl Fn(&str) -> Option<String>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for name in ["apiVersion", "kind"] {
            let mut field = json!({"type": "string"});
            if let Some(description) = description(name) {
                field["description"] = description.into();
            }
            properties.insert(name.to_owned(), field);
        }
        let description = format!("Standard object's metadata. More info: {CONVENTIONS}#metadata");
        let metadata = json!({"allOf": [reference(&meta("ObjectMeta"))], "description": description});
        properties.insert("metadata".to_owned(), metadata);
    }
}

fn embedded_description(field: &str) -> Option<String> {
    Some(match field {
        "apiVersion" => format!(
            "apiVersion defines the versioned schema of this representation of an object. More info: {CONVENTIONS}#resources"
        ),
        _ => format!(
            "kind is a string value representing the type of this object. In CamelCase. More info: {CONVENTIONS}#types-kinds"
        ),
    })
}

/// Calls `each` with every schema directly below this one.
fn for_inner(schema: &mut Map<String, Value>, mut each: impl FnMut(&mut Map<String, Value>)) {
    for key in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(key) {
            each(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(each);
    }
}

/// Expresses our extensions in plain OpenAPI, at every depth: integers that may be strings, and
/// embedded objects. In the `simple` form, neither is possible for values that may be anything.
fn spell_out(schema: &mut Map<String, Value>, simple: bool) {
    for_inner(schema, |inner| spell_out(inner, simple));
    if is_set(schema, "x-kubernetes-int-or-string") && !simple && !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    let open = simple && is_set(schema, "x-kubernetes-preserve-unknown-fields");
    if is_set(schema, "x-kubernetes-embedded-resource") && !open {
        add_object_fields(schema, embedded_description);
        if let Value::Array(required) = schema.entry("required").or_insert_with(|| json!([])) {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|it| it == name) {
                    required.push(json!(name));
                }
            }
        }
    }
}

/// Removes what OpenAPI v2 cannot express: alternatives, defaults, and the contents of values that
/// may be null or anything.
fn simplify(schema: &mut Map<String, Value>) {
    for key in ["allOf", "oneOf", "anyOf", "not", "default"] {
        schema.remove(key);
    }
    let nullable = is_set(schema, "nullable");
    schema.remove("nullable");
    let open = is_set(schema, "x-kubernetes-preserve-unknown-fields");
    if nullable || open {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let empty_list = kind == Some("array") && !schema.contains_key("items");
    if nullable || empty_list || (open && kind == Some("object")) {
        schema.remove("type");
    }
    drop_required_nullable(schema);
    for_inner(schema, simplify);
}

/// Removes nullable fields from the required ones.
fn drop_required_nullable(schema: &mut Map<String, Value>) {
    let may_be_null = |it: &Value| it.as_object().is_some_and(|it| is_set(it, "nullable"));
    let any_field = schema.get("additionalProperties").is_some_and(may_be_null);
    let mut left: Vec<Value> = match schema.get("required") {
        Some(Value::Array(names)) if !any_field => names.clone(),
        _ => Vec::new(),
    };
    if let Some(Value::Object(properties)) = schema.get("properties") {
        left.retain(|name| !name.as_str().and_then(|it| properties.get(it)).is_some_and(may_be_null));
    }
    if left.is_empty() {
        schema.remove("required");
    } else {
        schema.insert("required".to_owned(), left.into());
    }
}
