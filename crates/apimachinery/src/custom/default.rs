//! Defaulting by a structural schema, when an object is written, and when it is read after its
//! definition has changed, as k8s.io/apiextensions-apiserver v0.36.4
//! pkg/apiserver/schema/defaulting/algorithm.go does.

use serde_json::Value;

use super::Structural;

/// The number of bytes that defaults may add to an object. A default of the items of a list is
/// added once for each item, so the result can be larger than object and schema by orders of
/// magnitude. It is twice the size up to which etcd stores an object for kube-apiserver.
const MAX_BYTES: usize = 3 * 1024 * 1024;

/// The number of bytes that a field takes in addition to its name and value.
const OF_FIELD: usize = 4;
/// The number of bytes that stand for the first field of an object. As JSON it takes none, but in
/// memory it takes 640, and other small values up to 40 for each byte.
const OF_FIRST_FIELD: usize = 16;

/// Drops nulls that the schema does not allow and that have no default, then fills in defaults for
/// fields that are missing or null.
///
/// Defaults are filled into existing objects, and into objects that come from defaults; a missing
/// object without a default stays missing. Idempotent.
///
/// # Errors
/// The reason if the defaults are too large.
pub fn fill(value: &mut Value, schema: &Structural) -> Result<(), String> {
    Filler { keep_nulls: false, room: MAX_BYTES }.fill(value, schema).ok_or_else(too_large)
}

/// Fills in defaults like [`fill`], but keeps nulls without a default, which validation then
/// reports. Used for applied configurations.
///
/// # Errors
/// The reason if the defaults are too large.
pub fn fill_missing(value: &mut Value, schema: &Structural) -> Result<(), String> {
    Filler { keep_nulls: true, room: MAX_BYTES }.fill(value, schema).ok_or_else(too_large)
}

fn too_large() -> String {
    format!("the defaults of its fields exceed {MAX_BYTES} bytes")
}

/// Fills in defaults. Its methods return `None` if there is no room for a default.
struct Filler {
    keep_nulls: bool,
    /// The number of bytes that may still be added.
    room: usize,
}

impl Filler {
    fn fill(&mut self, value: &mut Value, schema: &Structural) -> Option<()> {
        match value {
            Value::Object(fields) => {
                let mut complete = Some(());
                fields.retain(|key, field| {
                    let Some(schema) = schema.child(key) else { return true };
                    match self.settle_null(field, schema) {
                        Some(stays) => stays || self.keep_nulls,
                        None => {
                            complete = None;
                            true
                        }
                    }
                });
                complete?;
                for key in schema.defaulted.iter() {
                    let default = schema.properties.get(key).and_then(|property| property.default.as_ref());
                    if let Some(default) = default.filter(|_| !fields.contains_key(key)) {
                        let first = if fields.is_empty() { OF_FIRST_FIELD } else { 0 };
                        self.room = self.room.checked_sub(first + OF_FIELD + key.len())?;
                        fields.insert(key.clone(), self.copy(default)?);
                    }
                }
                for (key, field) in fields.iter_mut() {
                    if let Some(schema) = schema.child(key) {
                        self.fill(field, schema)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items.as_deref() else { return Some(()) };
                for item in items {
                    // A null item that is not allowed is kept: removing it would move the others.
                    self.settle_null(item, schema)?;
                    self.fill(item, schema)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Replaces a null that the schema does not allow by the default. Returns false if there is
    /// none, so that the field is to be dropped.
    fn settle_null(&mut self, value: &mut Value, schema: &Structural) -> Option<bool> {
        if !value.is_null() || schema.nullable {
            return Some(true);
        }
        if let Some(default) = &schema.default {
            *value = self.copy(default)?;
        }
        Some(!value.is_null())
    }

    fn copy(&mut self, default: &Value) -> Option<Value> {
        self.take(default)?;
        Some(default.clone())
    }

    /// Reserves about as many bytes as a value has as JSON.
    fn take(&mut self, value: &Value) -> Option<()> {
        let own = match value {
            Value::String(text) => text.len() + 2,
            Value::Object(fields) if fields.is_empty() => 2,
            Value::Object(fields) => {
                OF_FIRST_FIELD + fields.keys().map(|key| key.len() + OF_FIELD).sum::<usize>()
            }
            _ => 4,
        };
        self.room = self.room.checked_sub(own)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.take(item)),
            Value::Object(fields) => fields.values().try_for_each(|field| self.take(field)),
            _ => Some(()),
        }
    }
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
        fill(&mut value, &schema).expect("small defaults");
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
        fill(&mut value, &schema).expect("small defaults");
        assert_eq!(value, json!({"a": {"b": 1}, "l": [{"w": 7}, {"w": 1}], "m": {"k": {"w": 8}}}));
    }

    #[test]
    fn defaults_that_multiply_are_rejected() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "object", "properties": {
                "w": {"type": "string", "default": "d".repeat(1000)}}}}}}));
        let list = |items: usize| json!({ "l": vec![json!({}); items] });
        assert_eq!(fill(&mut list(1_000), &schema), Ok(()));
        let why = fill(&mut list(100_000), &schema).expect_err("100 MB of defaults");
        assert_eq!(why, "the defaults of its fields exceed 3145728 bytes");
        // Empty objects below empty names took no room.
        let empty = |inner: Value| json!({"type": "object", "default": {}, "properties": {"": inner}});
        let deep = (0..20).fold(json!({"type": "object", "default": {}}), |inner, _| empty(inner));
        let schema = Structural::parse(
            &json!({"type": "object", "properties": {"l": {"type": "array", "items": deep}}}),
        );
        assert_eq!(fill(&mut list(1_000), &schema), Ok(()));
        assert!(fill(&mut list(50_000), &schema).is_err());
    }
}
