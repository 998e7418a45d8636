//! Drops the fields a structural schema does not know, and tells which those were.

use serde_json::Value;

use super::Structural;

/// Drops the fields of a whole object that its schema does not know and returns their paths, sorted.
///
/// `apiVersion`, `kind` and `metadata` stay, at the root and in embedded resources: [`super::metadata`] looks into
/// those. Idempotent.
pub fn prune(object: &mut Value, schema: &Structural) -> Vec<String> {
    dropped(object, Known { is_resource: true, ..Known::by(schema) })
}

/// Like [`prune`] for a value below the root, such as a default. Paths are relative to it.
pub(crate) fn prune_part(value: &mut Value, schema: &Structural) -> Vec<String> {
    dropped(value, Known::by(schema))
}

/// The words for a dropped field in a warning, or in the message of a refusal under strict field validation.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// The keys every resource has; schemas do not say what is in them.
pub(crate) fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
struct Known<'a> {
    /// None: nothing is, so that an object there has no field that is known.
    schema: Option<&'a Structural>,
    /// It has the keys every resource has.
    is_resource: bool,
    /// What is not known stays.
    keeps: bool,
}

/// What becomes of a field.
enum Fate<'a> {
    Stays,
    Goes,
    /// It stays, and what is in it is looked at.
    Pruned(Known<'a>),
}

impl<'a> Known<'a> {
    fn by(schema: &'a Structural) -> Self {
        Self { schema: Some(schema), is_resource: schema.embedded, keeps: schema.preserve_unknown }
    }

    fn nothing() -> Self {
        Self { schema: None, is_resource: false, keeps: false }
    }

    fn field(&self, key: &str) -> Fate<'a> {
        if self.is_resource && is_meta(key) {
            return Fate::Stays;
        }
        match self.schema {
            Some(schema) if schema.child(key).is_some() => {
                Fate::Pruned(schema.child(key).map_or_else(Self::nothing, Known::by))
            }
            // Any key is known, but not what is in it.
            Some(Structural { additional: Some(_), .. }) => Fate::Pruned(Self::nothing()),
            _ if self.keeps => Fate::Stays,
            _ => Fate::Goes,
        }
    }

    /// The items of a list that keeps what is not known keep it too. None where there is nothing to look for.
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
    let mut dropped = Vec::new();
    sift(value, known, &mut String::new(), &mut dropped);
    dropped.sort();
    dropped
}

/// `path` is where the value is, and is the same again afterwards.
fn sift(value: &mut Value, known: Known<'_>, path: &mut String, dropped: &mut Vec<String>) {
    let here = path.len();
    match value {
        Value::Object(fields) => fields.retain(|key, field| {
            path.push_str(if here == 0 { "" } else { "." });
            path.push_str(key);
            let fate = known.field(key);
            match &fate {
                Fate::Stays => {}
                Fate::Pruned(known) => sift(field, *known, path, dropped),
                Fate::Goes => dropped.push(path.clone()),
            }
            path.truncate(here);
            !matches!(fate, Fate::Goes)
        }),
        Value::Array(items) => {
            let Some(known) = known.items() else { return };
            for (index, item) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                sift(item, known, path, dropped);
                path.truncate(here);
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
