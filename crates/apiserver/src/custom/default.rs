//! Fills in the defaults of a structural schema: when an object is written, and when it is read after its definition
//! changed.

use serde_json::Value;

use super::Structural;

/// Drops the nulls that may not be null and have no default, then fills in what has a default and is missing or null.
///
/// Defaults are filled into objects that are there, and into those that defaults bring; a missing object without a
/// default stays missing. Idempotent.
pub fn fill(value: &mut Value, schema: &Structural) {
    fill_in(value, schema, false);
}

/// Like [`fill`], but nulls without a default stay, to be found wrong: so it is with what is applied.
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
                // An item that is null and may not be stays: taking it out would move the others.
                settle_null(item, schema);
                fill_in(item, schema, keep_nulls);
            }
        }
        _ => {}
    }
}

/// Puts the default in the place of a null that may not be one. Says whether there is a value that can stay.
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
    fn nulls_are_kept_where_allowed_replaced_where_defaulted_and_else_dropped() {
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
    fn defaults_go_into_objects_that_defaults_bring_and_into_the_items_of_lists() {
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
