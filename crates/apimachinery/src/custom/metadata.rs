//! The fields of `metadata` and their types, for the root of an object and for embedded resources.
//!
//! The schema of a custom kind does not describe them, so they are listed here. The syntax of names
//! and labels is validated elsewhere. The counterpart is k8s.io/apiextensions-apiserver v0.36.4
//! pkg/apiserver/schema/objectmeta.

use serde_json::{Map, Value};

use super::Structural;
use super::go_format::shown;
use super::unknown_fields::UnknownFields;
use super::value_path::ValuePath;
use crate::patch::json_name;
use crate::scalar_syntax;

enum Kind {
    Text,
    Whole,
    Flag,
    Time,
    Texts,
    TextMap,
    Raw,
    Entries { name: &'static str, go: &'static str, fields: &'static [(&'static str, Kind)] },
}

const OWNER: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text),
    ("kind", Kind::Text),
    ("name", Kind::Text),
    ("uid", Kind::Text),
    ("controller", Kind::Flag),
    ("blockOwnerDeletion", Kind::Flag),
];

const MANAGED: &[(&str, Kind)] = &[
    ("manager", Kind::Text),
    ("operation", Kind::Text),
    ("apiVersion", Kind::Text),
    ("time", Kind::Time),
    ("fieldsType", Kind::Text),
    ("fieldsV1", Kind::Raw),
    ("subresource", Kind::Text),
];

const META: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("generateName", Kind::Text),
    ("namespace", Kind::Text),
    ("selfLink", Kind::Text),
    ("uid", Kind::Text),
    ("resourceVersion", Kind::Text),
    ("generation", Kind::Whole),
    ("creationTimestamp", Kind::Time),
    ("deletionTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::Whole),
    ("labels", Kind::TextMap),
    ("annotations", Kind::TextMap),
    ("ownerReferences", Kind::Entries { name: "OwnerReference", go: "[]v1.OwnerReference", fields: OWNER }),
    ("finalizers", Kind::Texts),
    (
        "managedFields",
        Kind::Entries { name: "ManagedFieldsEntry", go: "[]v1.ManagedFieldsEntry", fields: MANAGED },
    ),
];

/// Returns the error of kube-apiserver if the `metadata` of an object cannot be decoded.
pub fn misfit(object: &Value) -> Option<String> {
    decode_error_of(object.get("metadata")?)
}

/// Drops the unknown fields of the `metadata` of an object and of its embedded resources. Returns
/// the paths of the first ones, those of the root before the others.
///
/// # Errors
/// The reason why an embedded resource cannot be decoded, with its path.
pub fn coerce(object: &mut Value, schema: &Structural) -> Result<Vec<String>, String> {
    let mut unknown = UnknownFields::default();
    if let Some(metadata) = object.get_mut("metadata") {
        drop_unknown(metadata, META, &ValuePath::Root("metadata"), &mut unknown);
    }
    let mut embedded = UnknownFields::default();
    coerce_below(object, schema, &ValuePath::Root(""), true, &mut embedded)?;
    let mut paths = unknown.into_paths();
    paths.extend(embedded.into_sorted());
    Ok(paths)
}

/// Drops unknown fields like [`coerce`], of a value such as a default, which is a resource only if
/// its schema says so.
pub(crate) fn coerce_part(value: &mut Value, schema: &Structural, path: &str) -> Result<Vec<String>, String> {
    let mut unknown = UnknownFields::default();
    coerce_below(value, schema, &ValuePath::Root(path), false, &mut unknown)?;
    Ok(unknown.into_paths())
}

fn coerce_below(
    value: &mut Value,
    schema: &Structural,
    path: &ValuePath<'_>,
    root: bool,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    match value {
        Value::Object(object) => {
            for (key, child) in object {
                let below = ValuePath::Field(path, key);
                if schema.embedded && !root {
                    coerce_meta(key, child, &below, unknown)?;
                }
                if let Some(schema) = schema.child(key) {
                    coerce_below(child, schema, &below, false, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                coerce_below(item, schema, &ValuePath::Item(path, index), false, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_meta(
    key: &str,
    child: &mut Value,
    path: &ValuePath<'_>,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    match key {
        "apiVersion" | "kind" if !child.is_string() => {
            Err(format!("{path}: Invalid value: {}: must be a string", shown(child)))
        }
        "metadata" => {
            if let Some(words) = decode_error_of(child) {
                return Err(format!("{path}: Invalid value: {}: {words}", shown(child)));
            }
            drop_unknown(child, META, path, unknown);
            if child.is_null() {
                *child = Value::Object(serde_json::Map::new());
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn decode_error_of(metadata: &Value) -> Option<String> {
    match metadata {
        Value::Null => None,
        Value::Object(_) => decode_error_in(metadata, META, "ObjectMeta", ""),
        other => {
            Some(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", json_name(other)))
        }
    }
}

fn decode_error_in(value: &Value, fields: &[(&str, Kind)], owner: &str, above: &str) -> Option<String> {
    fields.iter().find_map(|(name, kind)| {
        let value = value.get(name).filter(|value| !value.is_null())?;
        let path = if above.is_empty() { (*name).to_owned() } else { format!("{above}.{name}") };
        let refuse = |value: &Value, go: &str| {
            Some(format!(
                "json: cannot unmarshal {} into Go struct field {owner}.{path} of type {go}",
                json_name(value)
            ))
        };
        let text =
            |value: &Value| if value.is_string() || value.is_null() { None } else { refuse(value, "string") };
        match (kind, value) {
            (Kind::Raw, _) | (Kind::Flag, Value::Bool(_)) => None,
            (Kind::Text, value) => text(value),
            (Kind::Whole, Value::Number(number)) if number.as_i64().is_some() => None,
            (Kind::Whole, value) => refuse(value, "int64"),
            (Kind::Flag, value) => refuse(value, "bool"),
            (Kind::Time, value) => decode_error_of_time(value),
            (Kind::Texts, Value::Array(items)) => items.iter().find_map(text),
            (Kind::Texts, value) => refuse(value, "[]string"),
            (Kind::TextMap, Value::Object(map)) => map.values().find_map(text),
            (Kind::TextMap, value) => refuse(value, "map[string]string"),
            (Kind::Entries { name, fields, .. }, Value::Array(items)) => {
                items.iter().find_map(|item| decode_error_in(item, fields, name, &path))
            }
            (Kind::Entries { go, .. }, value) => refuse(value, go),
        }
    })
}

fn decode_error_of_time(value: &Value) -> Option<String> {
    let Some(text) = value.as_str() else {
        return Some(format!("json: cannot unmarshal {} into Go value of type string", json_name(value)));
    };
    scalar_syntax::time(text)
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => value.is_null(),
    }
}

/// Replaces null, where Go has a string, by the empty string.
fn null_to_text(value: &mut Value) {
    if value.is_null() {
        *value = Value::from("");
    }
}

/// Drops unknown fields, and empty lists and maps.
fn drop_unknown(
    value: &mut Value,
    fields: &[(&str, Kind)],
    path: &ValuePath<'_>,
    unknown: &mut UnknownFields,
) {
    let Some(object) = value.as_object_mut() else { return };
    object.retain(|key, child| {
        let path = ValuePath::Field(path, key);
        match fields.iter().find(|(name, _)| name == key) {
            None => {
                unknown.push(&path);
                return false;
            }
            // Clients written in Go often send `creationTimestamp: null`.
            Some(_) if child.is_null() => return false,
            Some((_, Kind::Entries { fields, .. })) => {
                for (index, item) in child.as_array_mut().into_iter().flatten().enumerate() {
                    drop_unknown(item, fields, &ValuePath::Item(&path, index), unknown);
                }
            }
            // Empty values are dropped, except for an empty `managedFields`, which resets all
            // managers.
            Some((_, Kind::Texts | Kind::TextMap)) if is_empty_value(child) => return false,
            Some((_, Kind::Texts)) => child.as_array_mut().into_iter().flatten().for_each(null_to_text),
            Some((_, Kind::TextMap)) => {
                child.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(null_to_text);
            }
            Some(_) => {}
        }
        key == "managedFields" || !(child.is_array() && is_empty_value(child))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Regression test: such a time was stored, and no list of metadata had an encoding in
    /// protobuf.
    #[test]
    fn a_time_is_one_that_go_parses() {
        let managed = |time: &str| json!({"metadata": {"managedFields": [{"time": time}]}});
        let created = |time: &str| json!({"metadata": {"creationTimestamp": time}});
        for object in [managed("2026-01-02T03:04:05Z"), created("2026-01-02T03:04:05.5+02:00")] {
            assert_eq!(misfit(&object), None);
        }
        for time in ["2026-01-02 03:04:05Z", "2026-01-02T03:04Z", "2026-01-02T03:04:05+02", "x", ""] {
            for object in [managed(time), created(time)] {
                let error = misfit(&object).expect("an error");
                assert!(error.starts_with(&format!("parsing time {time:?}")), "{error}");
            }
        }
    }

    #[test]
    fn nulls_in_the_metadata_of_an_embedded_resource_are_dropped() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {"r": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}));
        let mut object = json!({"metadata": {"name": "a", "labels": null}, "r": {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"creationTimestamp": null, "name": "p", "odd": null}}});
        assert_eq!(coerce(&mut object, &schema), Ok(vec!["r.metadata.odd".to_owned()]));
        assert_eq!(object["metadata"], json!({"name": "a"}));
        assert_eq!(object["r"]["metadata"], json!({"name": "p"}));
    }

    #[test]
    fn a_null_among_texts_is_an_empty_text_as_in_go() {
        let mut object =
            json!({"metadata": {"name": "a", "annotations": {"a": null, "b": "c"}, "finalizers": [null]}});
        assert_eq!(coerce(&mut object, &Structural::parse(&json!({"type": "object"}))), Ok(Vec::new()));
        assert_eq!(
            object["metadata"],
            json!({"name": "a", "annotations": {"a": "", "b": "c"}, "finalizers": [""]})
        );
    }
}
