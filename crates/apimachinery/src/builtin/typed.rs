//! Decoding into a typed object: keeps the fields of the type, and drops nulls.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::schema_unions::SchemaUnion;
use crate::schema::{Definitions, Scalar, Schema};

/// Drops unknown fields and nulls. A null in a map or list becomes the zero value of its type.
pub fn keep_known(value: &mut Value, schema: &Schema, definitions: &dyn Definitions) {
    if let Some(union) = SchemaUnion::of(schema) {
        return keep_known_schema(value, union, definitions);
    }
    match (schema.resolve(definitions), value) {
        (Schema::Struct(known), Value::Object(fields)) => {
            // A structure without known fields is kept unchanged.
            if known.fields.is_empty() && known.additional.is_none() {
                return;
            }
            fields.retain(|name, value| match known.fields.get(name) {
                Some(field) if !value.is_null() => {
                    keep_known(value, &field.schema, definitions);
                    true
                }
                _ => false,
            });
        }
        (Schema::Map(map), Value::Object(entries)) => {
            for value in entries.values_mut() {
                keep_entry(value, &map.value, definitions);
            }
        }
        (Schema::List(list), Value::Array(items)) => {
            for item in items {
                keep_entry(item, &list.item, definitions);
            }
        }
        (Schema::Scalar(Scalar::Bytes), Value::String(text)) => {
            if let Some(canonical) = canonical_base64(text) {
                *text = canonical;
            }
        }
        _ => {}
    }
}

/// Does the same below a JSON schema or something else. What kube-apiserver ignores becomes a null.
fn keep_known_schema(value: &mut Value, union: SchemaUnion, definitions: &dyn Definitions) {
    match (value, union.item()) {
        (value @ Value::Object(_), _) => keep_known(value, &SchemaUnion::object(), definitions),
        (Value::Array(items), Some(item)) if !items.is_empty() => {
            for value in items {
                keep_entry(value, &item, definitions);
            }
        }
        (value, Some(_)) => *value = Value::Null,
        (_, None) => {}
    }
}

/// Returns base64 in the form in which kube-apiserver returns it, which decodes and re-encodes
/// bytes: Go ignores line ends and trailing bits when decoding, but other clients reject such text.
/// Returns `None` if the text is unchanged.
fn canonical_base64(text: &str) -> Option<String> {
    const LENIENT: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    let on_one_line: Cow<'_, str> = if text.contains(['\r', '\n']) {
        text.chars().filter(|it| !matches!(it, '\r' | '\n')).collect::<String>().into()
    } else {
        text.into()
    };
    let canonical = LENIENT.encode(LENIENT.decode(on_one_line.as_bytes()).ok()?);
    (canonical != text).then_some(canonical)
}

fn keep_entry(value: &mut Value, schema: &Schema, definitions: &dyn Definitions) {
    if value.is_null() {
        *value = match schema.resolve(definitions) {
            Schema::Scalar(Scalar::Integer | Scalar::Number) => 0.into(),
            Schema::Scalar(Scalar::Boolean) => false.into(),
            Schema::Scalar(Scalar::Quantity) => "0".into(),
            // The zero time is encoded as null.
            Schema::Scalar(Scalar::Time | Scalar::MicroTime) => Value::Null,
            Schema::Scalar(_) => "".into(),
            Schema::Struct(_) => Value::Object(serde_json::Map::new()),
            _ => Value::Null,
        };
    }
    keep_known(value, schema, definitions);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin::BuiltinDefinitions;

    #[test]
    fn unknown_fields_and_nulls_are_dropped_at_every_depth() {
        let pod = BuiltinDefinitions.of_kind("", "v1", "Pod").expect("a kind");
        let mut object = json!({ "kind": "Pod", "odd": 1, "metadata": { "name": "a", "labels": { "k": null }, "x": 1 },
            "spec": { "nodeName": null, "containers": [{ "name": "c", "imagee": "i", "args": [null, "b"] }, null] } });
        keep_known(&mut object, &pod, &BuiltinDefinitions);
        assert_eq!(
            object,
            json!({ "kind": "Pod", "metadata": { "name": "a", "labels": { "k": "" } },
                "spec": { "containers": [{ "name": "c", "args": ["", "b"] }, {}] } })
        );
    }

    /// Regression test: the empty text is no time, and no list of such objects had an encoding.
    #[test]
    fn a_null_in_a_map_of_times_or_quantities_is_their_zero() {
        let budget = BuiltinDefinitions.of_kind("policy", "v1", "PodDisruptionBudget").expect("a kind");
        let mut object = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "status": { "disruptedPods": { "a": null } } });
        keep_known(&mut object, &budget, &BuiltinDefinitions);
        assert_eq!(object["status"]["disruptedPods"], json!({ "a": null }));
        assert!(crate::protobuf::encode(&object).is_ok());
        let pod = BuiltinDefinitions.of_kind("", "v1", "Pod").expect("a kind");
        let mut object = json!({ "spec": { "overhead": { "cpu": null } } });
        keep_known(&mut object, &pod, &BuiltinDefinitions);
        assert_eq!(object["spec"]["overhead"], json!({ "cpu": "0" }));
    }

    #[test]
    fn base64_is_stored_in_canonical_form() {
        let secret = BuiltinDefinitions.of_kind("", "v1", "Secret").expect("a kind");
        let data = json!({"wrapped": "Zm9v\nYmFy\r\n", "bits": "QR==", "plain": "QQ==", "empty": ""});
        let mut object = json!({ "data": data });
        keep_known(&mut object, &secret, &BuiltinDefinitions);
        assert_eq!(
            object["data"],
            json!({"wrapped": "Zm9vYmFy", "bits": "QQ==", "plain": "QQ==", "empty": ""})
        );
    }

    #[test]
    fn unknown_fields_and_nulls_are_dropped_below_a_schema_or_something_else() {
        let definition = BuiltinDefinitions
            .of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .expect("a kind");
        let path = "/spec/versions/0/schema/openAPIV3Schema";
        for (given, kept) in [
            (json!({ "items": { "odd": 1, "type": null } }), json!({ "items": {} })),
            (
                json!({ "items": [null, { "allOf": [null], "required": [null] }] }),
                json!({ "items": [{}, { "allOf": [{}], "required": [""] }] }),
            ),
            (json!({ "items": 5 }), json!({ "items": null })),
            (json!({ "items": [] }), json!({ "items": null })),
            (json!({ "items": null }), json!({})),
            (
                json!({ "items": { "additionalProperties": { "odd": 1 } } }),
                json!({ "items": { "additionalProperties": {} } }),
            ),
            (json!({ "additionalProperties": false }), json!({ "additionalProperties": false })),
            (
                json!({ "dependencies": { "a": { "odd": 1 }, "b": ["x", null], "c": 5, "d": null } }),
                json!({ "dependencies": { "a": {}, "b": ["x", ""], "c": null, "d": null } }),
            ),
            (
                json!({ "items": { "default": { "any": null }, "enum": [null] } }),
                json!({ "items": { "default": { "any": null }, "enum": [null] } }),
            ),
        ] {
            let mut object = json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": given } }] } });
            keep_known(&mut object, &definition, &BuiltinDefinitions);
            assert_eq!(object.pointer(path), Some(&kept));
        }
    }

    #[test]
    fn untyped_fields_are_kept_unchanged() {
        let revision = BuiltinDefinitions.of_kind("apps", "v1", "ControllerRevision").expect("a kind");
        let object = json!({ "metadata": { "name": "a", "managedFields": [{ "fieldsV1": { "f:x": {} } }] },
            "data": { "any": { "thing": null } }, "revision": 1 });
        let mut kept = object.clone();
        keep_known(&mut kept, &revision, &BuiltinDefinitions);
        assert_eq!(kept, object);
    }
}
