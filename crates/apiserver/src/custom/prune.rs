//! Drops the fields a structural schema does not know, and tells which those were.

use serde_json::Value;

use super::Structural;

/// Drops the fields of a whole object that its schema does not know and returns their paths, sorted.
///
/// `apiVersion`, `kind` and `metadata` stay, at the root and in embedded resources: [`super::metadata`] looks into
/// those. Idempotent.
pub fn prune(object: &mut Value, schema: &Structural) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.node(object, Some(schema), true, false);
    pruner.dropped.sort();
    pruner.dropped
}

/// Like [`prune`] for a value below the root, such as a default. Paths are relative to it.
pub(crate) fn prune_part(value: &mut Value, schema: &Structural) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.node(value, Some(schema), false, false);
    pruner.dropped.sort();
    pruner.dropped
}

/// The words for a dropped field in a warning, or in the message of a refusal under strict field validation.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// The keys every resource has; schemas do not say what is in them.
pub(crate) fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

#[derive(Default)]
struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    /// No schema means that nothing is known: objects lose all their fields. `kept` says that this is an item of a list
    /// that preserves.
    fn node(&mut self, value: &mut Value, schema: Option<&Structural>, root: bool, kept: bool) {
        let keeps = kept || schema.is_some_and(|schema| schema.preserve_unknown);
        match value {
            Value::Object(object) => {
                let embedded = root || schema.is_some_and(|schema| schema.embedded);
                object.retain(|key, child| {
                    if embedded && is_meta(key) {
                        return true;
                    }
                    let property = schema.and_then(|schema| schema.properties.get(key));
                    let more = schema.is_some_and(|schema| schema.additional.is_some());
                    if property.is_none() && !more {
                        if !keeps {
                            self.below(key, |pruner| pruner.dropped.push(pruner.path.clone()));
                        }
                        return keeps;
                    }
                    let schema = property.or_else(|| schema.and_then(Structural::additional_schema));
                    self.below(key, |pruner| pruner.node(child, schema, false, false));
                    true
                });
            }
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                if keeps && schema.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.node(item, schema, false, keeps);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, run: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        run(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_below_additional_properties_true_is_unknown_but_scalars_stay() {
        let schema = Structural::parse(&json!({"type": "object", "additionalProperties": true}));
        let mut value = json!({"a": {"b": 1}, "c": [{"d": 1}], "e": 5});
        assert_eq!(prune_part(&mut value, &schema), ["a.b", "c[0].d"]);
        assert_eq!(value, json!({"a": {}, "c": [{}], "e": 5}));
    }

    #[test]
    fn a_schema_that_preserves_prunes_only_below_the_properties_it_names() {
        let schema = Structural::parse(&json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }));
        let mut value = json!({"free": {"x": [1]}, "known": {"a": "1", "b": 2}});
        assert_eq!(prune_part(&mut value, &schema), ["known.b"]);
        assert_eq!(value, json!({"free": {"x": [1]}, "known": {"a": "1"}}));
    }
}
