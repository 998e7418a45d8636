//! Fills in the defaults of a structural schema: when an object is written, and when it is read after its definition
//! changed.

use serde_json::Value;

use super::Structural;

/// Drops the nulls that may not be null and have no default, then fills in what has a default and is missing or null.
///
/// Defaults are filled into objects that are there, and into those that defaults bring; a missing object without a
/// default stays missing. Idempotent.
pub fn fill(value: &mut Value, schema: &Structural) {
    drop_nulls(value, Some(schema));
    fill_in(value, schema);
}

fn drop_nulls(value: &mut Value, schema: Option<&Structural>) {
    let refused = |child: &Value, schema: Option<&Structural>| {
        child.is_null() && schema.is_some_and(|schema| !schema.nullable && schema.default.is_none())
    };
    match value {
        Value::Object(object) => {
            let child_of = |key: &str| schema.and_then(|schema| schema.child(key));
            object.retain(|key, child| !refused(child, child_of(key)));
            for (key, child) in object.iter_mut() {
                drop_nulls(child, child_of(key));
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(item, schema));
        }
        _ => {}
    }
}

fn fill_in(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(object) => {
            for (key, property) in &schema.properties {
                let missing = object.get(key).is_none_or(|child| child.is_null() && !property.nullable);
                if let Some(default) = ready(property).filter(|_| missing) {
                    object.insert(key.clone(), default);
                }
            }
            for (key, child) in object.iter_mut() {
                if let Some(property) = schema.properties.get(key) {
                    fill_in(child, property);
                } else if let Some(additional) = schema.additional_schema() {
                    fill_null(child, additional);
                    fill_in(child, additional);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else { return };
            for item in items {
                fill_null(item, schema);
                fill_in(item, schema);
            }
        }
        _ => {}
    }
}

fn fill_null(value: &mut Value, schema: &Structural) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = ready(schema)
    {
        *value = default;
    }
}

/// The default of a schema, without nulls that would be dropped from an object anyway.
fn ready(schema: &Structural) -> Option<Value> {
    let mut default = schema.default.clone()?;
    drop_nulls(&mut default, Some(schema));
    Some(default)
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
