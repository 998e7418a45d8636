//! Defaulting by a structural schema, when an object is written, and when it is read after its
//! definition has changed, as k8s.io/apiextensions-apiserver v0.36.4
//! pkg/apiserver/schema/defaulting/algorithm.go does.

use serde_json::Value;

use super::Structural;

/// Drops nulls that the schema does not allow and that have no default, then fills in defaults for
/// fields that are missing or null.
///
/// Defaults are filled into existing objects, and into objects that come from defaults; a missing
/// object without a default stays missing. Idempotent.
pub fn fill(value: &mut Value, schema: &Structural) {
    fill_in(value, schema, false);
}

/// Fills in defaults like [`fill`], but keeps nulls without a default, which validation then
/// reports. Used for applied configurations.
pub fn fill_missing(value: &mut Value, schema: &Structural) {
    fill_in(value, schema, true);
}

fn fill_in(value: &mut Value, schema: &Structural, keep_nulls: bool) {
    match value {
        Value::Object(fields) => {
            let stays = |field: &mut Value, schema: &Structural| settle_null(field, schema) || keep_nulls;
            fields.retain(|key, field| schema.child(key).is_none_or(|schema| stays(field, schema)));
            for (key, property) in schema.properties.iter().filter(|(_, it)| it.default.is_some()) {
                if !fields.contains_key(key) {
                    fields.insert(key.clone(), property.default.clone().unwrap_or_default());
                }
            }
            for (key, field) in fields.iter_mut() {
                if let Some(schema) = schema.child(key) {
                    fill_in(field, schema, keep_nulls);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else { return };
            for item in items {
                // A null item that is not allowed is kept: removing it would move the others.
                settle_null(item, schema);
                fill_in(item, schema, keep_nulls);
            }
        }
        _ => {}
    }
}

/// Replaces a null that the schema does not allow by the default. Returns false if there is none,
/// so that the field is to be dropped.
fn settle_null(value: &mut Value, schema: &Structural) -> bool {
    if !value.is_null() || schema.nullable {
        return true;
    }
    *value = schema.default.clone().unwrap_or_default();
    !value.is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_are_kept_if_allowed_replaced_by_a_default_or_else_dropped() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "kept": {"type": "string", "nullable": true, "default": "x"},
            "replaced": {"type": "string", "default": "x"},
            "dropped": {"type": "string"},
        }}));
        let mut value = json!({"kept": null, "replaced": null, "dropped": null, "unknown": null});
        fill(&mut value, &schema);
        assert_eq!(value, json!({"kept": null, "replaced": "x", "unknown": null}));
    }

    #[test]
    fn defaults_are_filled_into_defaulted_objects_and_into_list_items() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}},
            "absent": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "integer", "default": 7}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                "w": {"type": "integer", "default": 8}}}},
        }}));
        let mut value = json!({"l": [{}, {"w": 1}], "m": {"k": {}}});
        fill(&mut value, &schema);
        assert_eq!(value, json!({"a": {"b": 1}, "l": [{"w": 7}, {"w": 1}], "m": {"k": {"w": 8}}}));
    }
}
