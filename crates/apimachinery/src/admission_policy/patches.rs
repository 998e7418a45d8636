//! The patches that expressions make: apply configurations and JSON patches.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/policy/mutating/patch.

use serde_json::{Map, Value as Json, json};

use crate::cel::{MadeObject, Value};
use crate::ownership;
use crate::patch::{Patch, PatchKind};
use crate::schema::{Definitions, Schema};

/// The schema of the objects that are patched.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) schema: &'a Schema,
    pub(super) definitions: &'a dyn Definitions,
}

/// Merges the configuration that an expression has made into an object.
///
/// # Errors
/// The configuration does not fit the schema, or replaces a part of the object that has one owner.
pub(super) fn apply_configuration(
    made: &Value<'_>,
    object: &Json,
    target: Target<'_>,
) -> Result<Json, String> {
    let Value::Made(root) = made else {
        return Err("unsupported return type from ApplyConfiguration expression".to_owned());
    };
    check_type_names(root)?;
    let mut configuration = made.to_json().map_err(|it| format!("invalid return type: {it}"))?;
    if let Some(fields) = configuration.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name) {
                fields.insert(name.to_owned(), value.clone());
            }
        }
    }
    ownership::merge_configuration(object, &configuration, target.schema, target.definitions)
        .map_err(|it| format!("error applying patch: {it}"))
}

/// Applies the JSON patch that an expression has made to an object. A patch whose `test` fails
/// changes nothing.
///
/// # Errors
/// An operation is malformed or does not apply.
pub(super) fn apply_json_patch(made: &Value<'_>, object: &Json, target: Target<'_>) -> Result<Json, String> {
    let Value::List(made) = made else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let operations = made.iter().map(operation).collect::<Result<Vec<_>, _>>()?;
    let body = Json::Array(operations).to_string();
    let patch = Patch::decode(PatchKind::Json, body.as_bytes(), false).map_err(|it| it.0.message)?;
    patch.apply_operations(object, target.schema, target.definitions)
}

fn operation(value: &Value<'_>) -> Result<Json, String> {
    let Value::Made(made) = value else {
        return Err(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned()
        );
    };
    let text = |field: &str| match made.fields.get(field) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut operation = Map::new();
    operation.insert("op".to_owned(), text("op").into());
    operation.insert("path".to_owned(), text("path").into());
    if !text("from").is_empty() {
        operation.insert("from".to_owned(), text("from").into());
    }
    if let Some(value) = made.fields.get("value") {
        if let Value::Made(object) = value {
            check_type_names(object)?;
        }
        let value = value.to_json().map_err(|it| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {it}")
        })?;
        operation.insert("value".to_owned(), as_protobuf_struct(value));
    }
    Ok(Json::Object(operation))
}

/// Returns a value as it is after the conversion through `google.protobuf.Value`: whole numbers
/// beyond 2^53 are texts.
fn as_protobuf_struct(value: Json) -> Json {
    const EXACT: u64 = 1 << 53;
    match value {
        Json::Number(number) if number.as_i64().is_some_and(|it| it.unsigned_abs() >= EXACT) => {
            json!(number.to_string())
        }
        Json::Array(items) => items.into_iter().map(as_protobuf_struct).collect(),
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, as_protobuf_struct(value)));
            Json::Object(fields.collect())
        }
        other => other,
    }
}

/// Checks that the names of types are the paths of the fields in which they stand: the fields of
/// `Object` have the type `Object.spec`.
fn check_type_names(root: &MadeObject<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    check_object(root, &root.name, &mut errors);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(format!("type mismatch: {}", errors.join("\n"))),
    }
}

fn check_object(object: &MadeObject<'_>, expected: &str, errors: &mut Vec<String>) {
    if *object.name != *expected {
        errors.push(format!(
            "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
            &*object.name
        ));
    }
    for (name, value) in &object.fields {
        check_value(value, &format!("{expected}.{name}"), errors);
    }
}

fn check_value(value: &Value<'_>, expected: &str, errors: &mut Vec<String>) {
    match value {
        Value::Made(object) => check_object(object, expected, errors),
        Value::List(items) => items.iter().for_each(|it| check_value(it, expected, errors)),
        Value::Map(entries) => entries.values().for_each(|it| check_value(it, expected, errors)),
        _ => {}
    }
}
