//! The schemas of a document: those its paths name, and all that those lead to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::builtin::{self, ResourceDef};

/// Where a reference to a schema points.
const REFERENCE: &str = "#/components/schemas/";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Every group and version has its own of these; documents say so.
const EVERYWHERE: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// Schemas by name, as JSON text.
pub(super) type Components = BTreeMap<String, String>;

/// The name of a definition of the API machinery.
pub(super) fn meta(name: &str) -> String {
    format!("{META}{name}")
}

/// `{"$ref": …}` to the schema of that name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

/// The name of the schema of a kind of this resource: the table's, or made of the group read backwards.
pub(super) fn schema_name(resource: &ResourceDef, kind: &str) -> Option<String> {
    if !resource.custom {
        return builtin::definition_name(&resource.group, &resource.version, kind).map(Into::into);
    }
    let mut parts: Vec<&str> = resource.group.rsplit('.').collect();
    parts.extend([resource.version.as_str(), kind]);
    Some(parts.join("."))
}

/// Adds to `components` what the JSON `text` refers to, and what that refers to, from the built-in definitions.
pub(super) fn add_referred(components: &mut Components, text: &str, group: &str, version: &str) {
    let mut wanted = references(text);
    while let Some(name) = wanted.pop() {
        if components.contains_key(&name) {
            continue;
        }
        let Some(json) = builtin::definition_json(&name) else { continue };
        wanted.extend(references(json));
        let json = of_group(&name, json, group, version);
        components.insert(name, json);
    }
}

/// The schema of a custom kind: its own, with the fields every object has, and with its name.
pub(super) fn custom_schema(resource: &ResourceDef, schema: Option<&Value>) -> Value {
    let mut out = match schema {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::from_iter([("type".to_owned(), json!("object"))]),
    };
    spell_out(&mut out);
    add_object_fields(&mut out);
    out.insert("x-kubernetes-group-version-kind".to_owned(), named(resource, &resource.kind));
    Value::Object(out)
}

/// The schema of lists of a custom kind.
pub(super) fn custom_list_schema(resource: &ResourceDef, item: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(item)},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(&meta("ListMeta"))]},
        },
        "x-kubernetes-group-version-kind": named(resource, &resource.list_kind()),
    })
}

fn named(resource: &ResourceDef, kind: &str) -> Value {
    json!([{"group": resource.group, "kind": kind, "version": resource.version}])
}

/// Gives a schema the fields of every object, in place of what it says about them.
fn add_object_fields(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        properties.insert("metadata".to_owned(), json!({"allOf": [reference(&meta("ObjectMeta"))]}));
    }
}

/// Says what our extensions mean in words that those who know only OpenAPI understand, at every depth: numbers that may be
/// text, and objects within objects.
fn spell_out(schema: &mut Map<String, Value>) {
    let is_set = |schema: &Map<String, Value>, name: &str| schema.get(name) == Some(&Value::Bool(true));
    for key in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(key) {
            spell_out(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(spell_out);
    }
    if is_set(schema, "x-kubernetes-int-or-string") && !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    if is_set(schema, "x-kubernetes-embedded-resource") {
        add_object_fields(schema);
        if let Value::Array(required) = schema.entry("required").or_insert_with(|| json!([])) {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|it| it == name) {
                    required.push(json!(name));
                }
            }
        }
    }
}

/// The text of a definition, with the name it has in this group where every group has its own.
fn of_group(name: &str, json: &str, group: &str, version: &str) -> String {
    let Some(kind) = EVERYWHERE.iter().find(|it| name == meta(it)) else { return json.to_owned() };
    if group.is_empty() {
        return json.to_owned();
    }
    let mut json: Value = serde_json::from_str(json).expect("the generator writes JSON");
    if let Some(Value::Array(kinds)) = json.get_mut("x-kubernetes-group-version-kind") {
        kinds.push(json!({"group": group, "kind": kind, "version": version}));
    }
    json.to_string()
}

/// The names of schemas that a JSON text refers to.
fn references(text: &str) -> Vec<String> {
    let parts = text.split(REFERENCE).skip(1);
    parts.filter_map(|it| it.split_once('"')).map(|(name, _)| name.to_owned()).collect()
}
