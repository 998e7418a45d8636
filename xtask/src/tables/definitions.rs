//! Converts definitions from JSON Schema to the form of OpenAPI v3 documents.
//!
//! `"type": ["x", "null"]` becomes `x`, references point into `components`, `kind` and `apiVersion`
//! lose their enums, and defaults and enums are added. It knows nothing of resources beyond the
//! group and version of a kind.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

/// Schemas by definition name.
pub(crate) type Definitions = BTreeMap<String, Value>;

/// The extension with group, version and kind.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Kinds that exist in every group and version; the table keeps that of the core group.
const EVERYWHERE: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// Converts definitions to OpenAPI v3, and adds `values`.
pub(crate) fn normalise(schemas: &Value, values: &Value) -> anyhow::Result<Definitions> {
    let schemas = schemas.get("$defs").and_then(Value::as_object).context("there are no $defs")?;
    let mut definitions = Definitions::new();
    for (name, schema) in schemas {
        let mut schema = definition(schema).with_context(|| format!("in {name}"))?;
        if let Some(values) = values.get(name).and_then(Value::as_object) {
            put_values(&mut schema, values).with_context(|| format!("in {name}"))?;
        }
        definitions.insert(name.clone(), schema);
    }
    Ok(definitions)
}

/// Returns the definition name of each kind, by `group/version/kind`.
pub(crate) fn kinds(definitions: &Definitions) -> BTreeMap<String, String> {
    let mut kinds = BTreeMap::new();
    for (name, schema) in definitions {
        for it in schema.get(KINDS).and_then(Value::as_array).into_iter().flatten() {
            let part = |key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            kinds.insert([part("group"), part("version"), part("kind")].join("/"), name.clone());
        }
    }
    kinds
}

/// Returns the definitions of the kinds in these `group/version`s and of the API machinery, with
/// all that they refer to.
pub(crate) fn served(definitions: &Definitions, group_versions: &BTreeSet<String>) -> Definitions {
    let is_root = |name: &str, schema: &Value| {
        name.starts_with("io.k8s.apimachinery.")
            || schema.get(KINDS).and_then(Value::as_array).is_some_and(|kinds| {
                kinds.iter().any(|it| {
                    let part = |key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default();
                    group_versions.contains(&format!("{}/{}", part("group"), part("version")))
                })
            })
    };
    let mut wanted: Vec<&String> =
        definitions.iter().filter(|(name, schema)| is_root(name, schema)).map(|(name, _)| name).collect();
    let mut served = Definitions::new();
    while let Some(name) = wanted.pop() {
        let Some(schema) = definitions.get(name).filter(|_| !served.contains_key(name)) else { continue };
        served.insert(name.clone(), schema.clone());
        let mut found = Vec::new();
        references(schema, &mut found);
        wanted.extend(found.iter().filter_map(|it| definitions.get_key_value(it).map(|(name, _)| name)));
    }
    served
}

/// Formats one line per definition: name, tab, schema.
pub(crate) fn lines(definitions: &Definitions) -> anyhow::Result<String> {
    let mut text = String::new();
    for (name, schema) in definitions {
        text.push_str(name);
        text.push('\t');
        text.push_str(&serde_json::to_string(schema)?);
        text.push('\n');
    }
    Ok(text)
}

fn definition(schema: &Value) -> anyhow::Result<Value> {
    let mut out = part(schema)?;
    let own = out.as_object_mut().context("a definition is not an object")?;
    if let Some(Value::Array(kinds)) = own.get_mut(KINDS)
        && kinds.len() > 1
        && kinds[0].get("kind").and_then(Value::as_str).is_some_and(|it| EVERYWHERE.contains(&it))
    {
        kinds.retain(|it| it.get("group").and_then(Value::as_str) == Some(""));
    }
    if let Some(Value::Object(properties)) = own.get_mut("properties") {
        for name in ["kind", "apiVersion"] {
            if let Some(Value::Object(property)) = properties.get_mut(name) {
                property.remove("enum");
            }
        }
    }
    if out.pointer("/oneOf/1/type").and_then(Value::as_str) == Some("integer") {
        out = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
    }
    Ok(out)
}

fn part(schema: &Value) -> anyhow::Result<Value> {
    let mut out = Map::new();
    for (key, value) in schema.as_object().context("a schema is not an object")? {
        let value = match key.as_str() {
            "type" => json!(one_type(value)?),
            "$ref" => json!(
                value
                    .as_str()
                    .context("a reference is not a string")?
                    .replace("#/$defs/", "#/components/schemas/")
            ),
            "items" | "additionalProperties" => part(value)?,
            "properties" => {
                let mut properties = Map::new();
                for (name, property) in value.as_object().context("`properties` is not an object")? {
                    properties.insert(name.clone(), wrapped(part(property)?));
                }
                Value::Object(properties)
            }
            "oneOf" => {
                let options = value.as_array().context("`oneOf` is not a list")?;
                Value::Array(options.iter().map(part).collect::<anyhow::Result<_>>()?)
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    Ok(Value::Object(out))
}

/// Returns the type in `"x"` and in `["x", "null"]`.
fn one_type(value: &Value) -> anyhow::Result<&str> {
    match value {
        Value::String(name) => Ok(name),
        Value::Array(names) => match names.iter().filter_map(Value::as_str).find(|it| *it != "null") {
            Some(name) => Ok(name),
            None => bail!("the only type is null"),
        },
        _ => bail!("a type is neither a string nor a list"),
    }
}

/// Wraps a reference into `allOf`: OpenAPI allows no siblings of `$ref`, and it may have some or
/// get them.
fn wrapped(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut()
        && let Some(name) = fields.remove("$ref")
    {
        fields.insert("allOf".to_owned(), json!([{"$ref": name}]));
    }
    schema
}

fn put_values(schema: &mut Value, values: &Map<String, Value>) -> anyhow::Result<()> {
    for (path, extra) in values {
        let field = path.trim_end_matches("[]");
        let mut at = schema
            .get_mut("properties")
            .and_then(|it| it.get_mut(field))
            .with_context(|| format!("unknown field {field}"))?;
        for _ in 0..(path.len() - field.len()) / 2 {
            let inner = if at.get("items").is_some() { "items" } else { "additionalProperties" };
            at = at.get_mut(inner).with_context(|| format!("{field} is neither a list nor a map"))?;
        }
        *at = wrapped(at.take());
        let at = at.as_object_mut().context("a schema is not an object")?;
        at.extend(extra.as_object().context("the values of a field are not an object")?.clone());
    }
    Ok(())
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(name)) = fields.get("$ref") {
                found.push(name.trim_start_matches("#/components/schemas/").to_owned());
            }
            fields.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_lose_null_references_are_rewritten_and_values_are_added() {
        let schemas = json!({"$defs": {"a.A": {
            "type": ["object", "null"],
            "properties": {
                "kind": {"type": ["string", "null"], "enum": ["A"]},
                "b": {"$ref": "#/$defs/a.B"},
                "list": {"type": ["array", "null"], "items": {"$ref": "#/$defs/a.B"}},
            },
        }}});
        let values = json!({"a.A": {"list[]": {"default": {}}, "kind": {"default": "x"}}});
        let reference = json!({"$ref": "#/components/schemas/a.B"});
        assert_eq!(
            normalise(&schemas, &values).unwrap()["a.A"],
            json!({"type": "object", "properties": {
                "kind": {"type": "string", "default": "x"},
                "b": {"allOf": [reference]},
                "list": {"type": "array", "items": {"default": {}, "allOf": [reference]}},
            }})
        );
    }

    #[test]
    fn only_definitions_reachable_from_served_kinds_are_kept() {
        let kind = |group: &str| json!([{"group": group, "version": "v1", "kind": "K"}]);
        let definitions = Definitions::from([
            ("a.A".to_owned(), json!({KINDS: kind("a"), "items": {"$ref": "#/components/schemas/a.B"}})),
            ("a.B".to_owned(), json!({"items": {"$ref": "#/components/schemas/a.A"}})),
            ("b.A".to_owned(), json!({KINDS: kind("b")})),
        ]);
        let served = served(&definitions, &BTreeSet::from(["a/v1".to_owned()]));
        assert_eq!(served.keys().collect::<Vec<_>>(), ["a.A", "a.B"]);
    }
}
