//! The merge of a configuration into an object without an owner, as mutating admission policies do
//! (k8s.io/apiserver v0.36.4 pkg/admission/plugin/policy/mutating/patch/smd.go).

use serde_json::Value;

use super::check::{Duplicates, check};
use super::merge::merge;
use super::shape::Shape;
use crate::schema::{Definitions, Schema};

/// Merges a configuration into an object.
///
/// # Errors
/// The configuration does not fit the schema, or sets a list or an object that is replaced as a
/// whole: fields that it does not mention would be lost.
pub fn merge_configuration(
    object: &Value,
    configuration: &Value,
    schema: &Schema,
    definitions: &dyn Definitions,
) -> Result<Value, String> {
    check(configuration, schema, definitions, Duplicates::Refused)
        .map_err(|it| format!("failed to convert patch object to typed object: {it}"))?;
    let mut atomics = Vec::new();
    find_atomics(configuration, schema, definitions, &mut String::new(), &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    check(object, schema, definitions, Duplicates::Allowed)
        .map_err(|it| format!("failed to convert original object to typed object: {it}"))?;
    Ok(merge(object, configuration, schema, definitions))
}

/// Collects the paths of the lists and objects that are replaced as a whole.
fn find_atomics(
    value: &Value,
    schema: &Schema,
    definitions: &dyn Definitions,
    path: &mut String,
    atomics: &mut Vec<String>,
) {
    let shape = Shape::of(schema, Some(value), definitions);
    if shape.is_atomic() && (value.is_object() || value.is_array()) {
        atomics.push(path.clone());
    }
    let length = path.len();
    match (&shape, value) {
        (Shape::Object { members, .. }, Value::Object(fields)) => {
            for (name, field) in fields {
                // Only declared fields are looked at, not the entries of a map.
                let Some(schema) = members.schema(name).filter(|_| members.names(name)) else { continue };
                path.push('.');
                path.push_str(name);
                find_atomics(field, &schema, definitions, path, atomics);
                path.truncate(length);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                find_atomics(item, list.schema(), definitions, path, atomics);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
