//! OpenAPI v2: the whole API in one document, generated from the same paths and schemas as
//! version 3.
//!
//! It is read by older clients, and by clients that validate what they send. Nothing of it is kept:
//! it is generated on request, and its hash is that of the index of version 3, which changes
//! whenever this document does.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::component::{self, REFERENCE};
use super::custom::{self, CustomKind};
use super::message::{self, DEFINITIONS, PATHS};
use super::path;
use crate::builtin::{self, Descriptions};
use crate::plain_json;

/// The document, in parts that are JSON text.
#[derive(Debug)]
pub struct OpenApiV2 {
    paths: BTreeMap<String, String>,
    definitions: BTreeMap<String, String>,
}

impl OpenApiV2 {
    /// Creates the document of all built-in kinds and these custom ones.
    pub fn new<'a>(kinds: impl IntoIterator<Item = &'a CustomKind>) -> Self {
        let kinds: Vec<&CustomKind> = kinds.into_iter().collect();
        let descriptions = Descriptions::get();
        let mut paths = BTreeMap::new();
        for resource in builtin::resources().iter().chain(kinds.iter().map(|it| &it.resource)) {
            let mut of_resource = Map::new();
            path::add_paths(&mut of_resource, resource);
            let lowered =
                of_resource.into_iter().map(|(path, item)| (path, path_item(item, resource.custom)));
            paths.extend(lowered.map(|(path, item)| (path, item.to_string())));
        }
        let mut groups: Vec<(&str, &str)> =
            builtin::resources().iter().map(|it| (it.group.as_str(), it.version.as_str())).collect();
        groups.sort_unstable();
        groups.dedup();
        let of_table = |name: &'static str| {
            component::builtin_schema(name, groups.iter().copied(), &descriptions)
                .map(|it| (name.to_owned(), it))
        };
        let custom = kinds.iter().flat_map(|kind| {
            let own = component::schema_name(&kind.resource, &kind.resource.kind).unwrap_or_default();
            let list = component::schema_name(&kind.resource, &kind.resource.list_kind()).unwrap_or_default();
            let list_schema = custom::list_schema(kind, &own, &descriptions);
            [(own, custom::simple_schema(kind, &descriptions)), (list, list_schema)]
        });
        let schemas = builtin::definition_names().filter_map(of_table).chain(custom);
        let definitions = schemas.map(|(name, schema)| (name, schema_of(schema).to_string())).collect();
        Self { paths, definitions }
    }

    /// Returns the document as JSON.
    pub fn json(&self) -> Bytes {
        let mut out = String::from(r#"{"swagger":"2.0","info":"#);
        out.push_str(&info().to_string());
        for (key, entries) in [("paths", &self.paths), ("definitions", &self.definitions)] {
            out.push_str(&format!(r#","{key}":{{"#));
            for (at, (name, json)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                out.push_str(json);
            }
            out.push('}');
        }
        let (definitions, uses) = security();
        out.push_str(&format!(r#","securityDefinitions":{definitions},"security":{uses}}}"#));
        out.into()
    }

    /// Returns the document as gnostic's message `openapi.v2.Document`, which Go clients read.
    pub fn protobuf(&self) -> Bytes {
        let (definitions, uses) = security();
        let head = json!({
            "swagger": "2.0", "info": info(), "securityDefinitions": definitions, "security": uses,
        });
        let mut out = message::document(&head);
        for (part, entries) in [(&PATHS, &self.paths), (&DEFINITIONS, &self.definitions)] {
            let values = entries.iter().map(|(name, json)| {
                (
                    name.as_str(),
                    plain_json::from_own_slice(json.as_bytes())
                        .expect("the parts were serialized from values"),
                )
            });
            message::add_entries(&mut out, part, values);
        }
        out.into()
    }
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

/// Returns the authentication scheme, and the requirement to use it.
fn security() -> (Value, Value) {
    let bearer = json!({
        "description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header",
    });
    (json!({ "BearerToken": bearer }), json!([{"BearerToken": []}]))
}

/// Converts a schema of version 3 to version 2.
fn schema_of(mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        lower(fields);
    }
    schema
}

fn lower(schema: &mut Map<String, Value>) {
    schema.remove("default");
    if schema.remove("oneOf").is_some() {
        schema.insert("type".to_owned(), json!("string"));
    }
    if let Some(only) = schema.get("allOf").and_then(|it| it.get(0)?.get("$ref").cloned()) {
        schema.remove("allOf");
        schema.insert("$ref".to_owned(), only);
    }
    if let Some(Value::String(target)) = schema.get_mut("$ref") {
        *target = target.replace(REFERENCE, "#/definitions/");
    }
    for key in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(key) {
            lower(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(lower);
    }
}

fn path_item(item: Value, custom: bool) -> Value {
    let Value::Object(item) = item else { return item };
    let lowered = item.into_iter().map(|(key, value)| match value {
        Value::Array(parameters) => (key, parameters.into_iter().map(parameter).collect()),
        Value::Object(fields) => (key, operation(fields, custom)),
        other => (key, other),
    });
    Value::Object(lowered.collect())
}

/// Converts an operation: in version 2 the body is one of the parameters, and media types are
/// listed once per operation.
fn operation(mut fields: Map<String, Value>, custom: bool) -> Value {
    let media = |content: &Value| -> Vec<String> {
        content.as_object().map(|it| it.keys().cloned().collect()).unwrap_or_default()
    };
    let mut parameters = Vec::new();
    let mut consumes: Vec<String> =
        if custom { vec!["application/json".into(), "application/yaml".into()] } else { vec!["*/*".into()] };
    if let Some(body) = fields.remove("requestBody") {
        consumes = media(&body["content"]);
        let schema = content_schema(&body["content"]).unwrap_or_default();
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if body.get("required") == Some(&Value::Bool(true)) {
            parameter["required"] = json!(true);
        }
        parameters.push(parameter);
    }
    if let Some(Value::Array(others)) = fields.remove("parameters") {
        parameters.extend(others.into_iter().map(parameter));
    }
    if !parameters.is_empty() {
        fields.insert("parameters".to_owned(), parameters.into());
    }
    let mut produces = Vec::new();
    if let Some(Value::Object(responses)) = fields.get_mut("responses") {
        for response in responses.values_mut().filter_map(Value::as_object_mut) {
            if let Some(content) = response.remove("content") {
                produces = media(&content);
                response.extend(content_schema(&content).map(|it| ("schema".to_owned(), it)));
            }
        }
    }
    fields.insert("consumes".to_owned(), consumes.into());
    fields.insert("produces".to_owned(), produces.into());
    fields.insert("schemes".to_owned(), json!(["https"]));
    Value::Object(fields)
}

/// Returns the schema of the first media type; all media types have the same.
fn content_schema(content: &Value) -> Option<Value> {
    content.as_object()?.values().next()?.get("schema").cloned().map(schema_of)
}

fn parameter(mut parameter: Value) -> Value {
    if let Value::Object(fields) = &mut parameter
        && let Some(Value::Object(schema)) = fields.remove("schema")
    {
        fields.extend(schema);
    }
    parameter
}
