//! Pruning: drops the fields that a structural schema does not know, and reports them, as
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/schema/pruning/algorithm.go does.

use serde_json::Value;

use super::Structural;
use super::unknown_fields::UnknownFields;
use super::value_path::ValuePath;

/// Drops the unknown fields of a whole object and returns the paths of the first ones, sorted.
///
/// `apiVersion`, `kind` and `metadata` are kept, at the root and in embedded resources:
/// [`super::metadata`] handles those. Idempotent.
pub fn prune(object: &mut Value, schema: &Structural) -> Vec<String> {
    dropped(object, Known { is_resource: true, ..Known::by(schema) })
}

/// Prunes a value below the root like [`prune`], such as a default. Paths are relative to it.
pub(crate) fn prune_part(value: &mut Value, schema: &Structural) -> Vec<String> {
    dropped(value, Known::by(schema))
}

/// Returns the message about a dropped field, for a warning or for an error of strict field
/// validation.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// Returns true for the fields that every resource has, whose content schemas do not describe.
pub(crate) fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// The fields that are known of a value.
#[derive(Clone, Copy, Debug)]
struct Known<'a> {
    /// The schema; without one, an object has no known fields.
    schema: Option<&'a Structural>,
    /// True if it has the fields of every resource.
    is_resource: bool,
    /// True if unknown fields are kept.
    keeps: bool,
}

/// The treatment of a field.
enum FieldAction<'a> {
    Keep,
    Drop,
    /// Keeps the field and prunes its content.
    Prune(Known<'a>),
}

impl<'a> Known<'a> {
    fn by(schema: &'a Structural) -> Self {
        Self { schema: Some(schema), is_resource: schema.embedded, keeps: schema.preserve_unknown }
    }

    fn nothing() -> Self {
        Self { schema: None, is_resource: false, keeps: false }
    }

    fn field(&self, key: &str) -> FieldAction<'a> {
        if self.is_resource && is_meta(key) {
            return FieldAction::Keep;
        }
        match self.schema {
            Some(schema) if schema.child(key).is_some() => {
                FieldAction::Prune(schema.child(key).map_or_else(Self::nothing, Known::by))
            }
            // Any key is known, but not its content.
            Some(Structural { additional: Some(_), .. }) => FieldAction::Prune(Self::nothing()),
            _ if self.keeps => FieldAction::Keep,
            _ => FieldAction::Drop,
        }
    }

    /// Returns what is known of the items of a list, which inherit that unknown fields are kept.
    /// Returns `None` if there is nothing to prune.
    fn items(&self) -> Option<Self> {
        match self.schema.and_then(|schema| schema.items.as_deref()) {
            Some(schema) => {
                let item = Known::by(schema);
                Some(Known { keeps: item.keeps || self.keeps, ..item })
            }
            None => (!self.keeps).then(Self::nothing),
        }
    }
}

fn dropped(value: &mut Value, known: Known<'_>) -> Vec<String> {
    let mut dropped = UnknownFields::default();
    prune_value(value, known, &ValuePath::Root(""), &mut dropped);
    dropped.into_sorted()
}

fn prune_value(value: &mut Value, known: Known<'_>, path: &ValuePath<'_>, dropped: &mut UnknownFields) {
    match value {
        Value::Object(fields) => fields.retain(|key, field| {
            let path = ValuePath::Field(path, key);
            let action = known.field(key);
            match &action {
                FieldAction::Keep => {}
                FieldAction::Prune(known) => prune_value(field, *known, &path, dropped),
                FieldAction::Drop => dropped.push(&path),
            }
            !matches!(action, FieldAction::Drop)
        }),
        Value::Array(items) => {
            let Some(known) = known.items() else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(item, known, &ValuePath::Item(path, index), dropped);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_below_additional_properties_true_are_unknown_but_scalars_are_kept() {
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
