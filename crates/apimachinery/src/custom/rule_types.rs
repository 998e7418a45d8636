//! The types that the rules of a schema see: `SchemaDeclType` of k8s.io/apiserver v0.36.4
//! pkg/cel/common/schemas.go.

use serde_json::Value;

use super::structural::{Structural, Type};
use crate::cel::{DeclaredField, DeclaredType, MAX_REQUEST_SIZE};
use crate::schema::Topology;

/// Returns the type of the values of a schema. Parts without a type are hidden. `is_resource` holds
/// for the root and for embedded resources, whose names and kinds rules can always read.
pub(crate) fn declared_type(schema: &Structural, is_resource: bool) -> DeclaredType {
    let limits = &schema.limits;
    let max_text = limits.max_length.map(|it| it.saturating_mul(4));
    let declared = match schema.kind {
        _ if schema.int_or_string => DeclaredType::int_or_string(max_text.unwrap_or(MAX_REQUEST_SIZE - 2)),
        Some(Type::Array) => match schema.items.as_deref().map(|it| declared_type(it, it.embedded)) {
            Some(item) if !item.is_hidden() => {
                let topology = schema.list.clone().unwrap_or(Topology::Atomic);
                DeclaredType::list(item, limits.max_items, topology)
            }
            _ => DeclaredType::hidden(),
        },
        Some(Type::Object) => match schema.additional_schema() {
            Some(value) => match declared_type(value, value.embedded) {
                value if value.is_hidden() => DeclaredType::hidden(),
                value => DeclaredType::map(value, limits.max_properties),
            },
            None => object(schema, is_resource),
        },
        Some(Type::String) => match limits.format.as_deref() {
            Some("byte") => DeclaredType::bytes(limits.max_length.unwrap_or(MAX_REQUEST_SIZE - 2)),
            Some("duration") => DeclaredType::duration(),
            Some("date") => DeclaredType::date(),
            Some("date-time") => DeclaredType::date_time(),
            _ => DeclaredType::string(max_text.unwrap_or_else(|| longest(schema))),
        },
        Some(Type::Boolean) => DeclaredType::bool(),
        Some(Type::Number) => DeclaredType::double(),
        Some(Type::Integer) => DeclaredType::int(),
        None => DeclaredType::hidden(),
    };
    let nullable = schema.nullable || declared.is_hidden();
    declared.nullable(nullable)
}

/// Returns the length of the longest value of an enum, or else that of the largest request.
fn longest(schema: &Structural) -> u64 {
    let Some(values) = schema.limits.one_of_values.as_deref() else { return MAX_REQUEST_SIZE - 2 };
    let lengths = values.listed.iter().filter_map(Value::as_str).map(|it| it.len() as u64);
    lengths.max().unwrap_or(0)
}

fn object(schema: &Structural, is_resource: bool) -> DeclaredType {
    let mut fields = Vec::new();
    let replaced = is_resource && !has_names(schema);
    for (name, property) in &schema.properties {
        if replaced && matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            continue;
        }
        fields.push(DeclaredField {
            name: name.clone(),
            of: declared_type(property, property.embedded),
            takes_space: schema.limits.required.contains(name) && property.default.is_none(),
        });
    }
    if replaced {
        let text = |name: &str| DeclaredField {
            name: name.to_owned(),
            of: DeclaredType::long_string(),
            takes_space: schema.limits.required.iter().any(|it| it == name),
        };
        let inner = |name: &str| DeclaredField { takes_space: false, ..text(name) };
        let metadata = DeclaredType::object(vec![inner("name"), inner("generateName")]);
        fields.extend([text("kind"), text("apiVersion")]);
        fields.push(DeclaredField { of: metadata, ..text("metadata") });
    }
    DeclaredType::object(fields)
}

/// Returns true if the schema declares all that `WithTypeAndObjectMeta` would add.
fn has_names(schema: &Structural) -> bool {
    let is = |schema: Option<&Structural>, kind: Type| schema.is_some_and(|it| it.kind == Some(kind));
    let metadata = schema.properties.get("metadata");
    let named = |name: &str| metadata.and_then(|it| it.properties.get(name));
    is(schema.properties.get("kind"), Type::String)
        && is(schema.properties.get("apiVersion"), Type::String)
        && is(metadata, Type::Object)
        && is(named("name"), Type::String)
        && is(named("generateName"), Type::String)
}
