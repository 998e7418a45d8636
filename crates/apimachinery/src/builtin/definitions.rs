//! The schemas of built-in kinds: OpenAPI definitions converted to [`Schema`]s, one at a time.
//!
//! A definition refers to others by name, so parsing one does not parse those. `Field::default` is
//! the default in the OpenAPI document, including the zero values of plain fields. It stands in for
//! a missing key of a list item and is not applied to objects (the defaults of objects are code).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use serde_json::{Map as Object, Value};

use super::tables;
use crate::schema::{Definitions, Field, List, Map, PatchStrategy, Scalar, Schema, Struct, Topology};

const REFERENCE: &str = "#/components/schemas/";

/// The definitions of built-in kinds. Parsed definitions are shared by all values of this type.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltinDefinitions;

impl BuiltinDefinitions {
    /// Returns the schema of a built-in kind, as a name to look up here.
    pub fn of_kind(self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        tables::definition_name(group, version, kind).map(|name| Schema::Named(name.into()))
    }
}

impl Definitions for BuiltinDefinitions {
    fn get(&self, name: &str) -> Option<Schema> {
        static PARSED: OnceLock<RwLock<HashMap<&'static str, Schema>>> = OnceLock::new();
        let parsed = PARSED.get_or_init(RwLock::default);
        if let Some(schema) = parsed.read().get(name) {
            return Some(schema.clone());
        }
        let (name, json) = tables::definition_entry(name)?;
        let json: Value = serde_json::from_str(json).expect("the generator writes JSON");
        let schema = definition(name, &json);
        parsed.write().insert(name, schema.clone());
        Some(schema)
    }
}

/// Converts a definition. Types whose wire format differs from their fields are recognized by the
/// last part of their name.
fn definition(name: &str, json: &Value) -> Schema {
    let machinery = name.starts_with("io.k8s.apimachinery.");
    match name.rsplit('.').next().unwrap_or(name) {
        "Time" if machinery => Schema::Scalar(Scalar::Time),
        "MicroTime" if machinery => Schema::Scalar(Scalar::MicroTime),
        "Duration" if machinery => Schema::Scalar(Scalar::Duration),
        "Quantity" if machinery => Schema::Scalar(Scalar::Quantity),
        "IntOrString" if machinery => Schema::Scalar(Scalar::IntOrString),
        "FieldsV1" | "RawExtension" | "Patch" if machinery => Schema::Any,
        _ if json.get("type").is_some() && json.get("properties").is_none() => {
            Schema::Struct(Arc::new(Struct::default()))
        }
        _ => part(json),
    }
}

fn part(json: &Value) -> Schema {
    if let Some(name) = reference(json) {
        return referred(name, text(json, "x-kubernetes-map-type"));
    }
    match text(json, "type") {
        Some("object") => object(json),
        Some("array") => Schema::List(Arc::new(List {
            item: json.get("items").map_or(Schema::Any, part),
            topology: topology(json),
        })),
        Some("string") if text(json, "format") == Some("byte") => Schema::Scalar(Scalar::Bytes),
        Some("string") => Schema::Scalar(Scalar::String),
        Some("integer") => Schema::Scalar(Scalar::Integer),
        Some("number") => Schema::Scalar(Scalar::Number),
        Some("boolean") => Schema::Scalar(Scalar::Boolean),
        _ => Schema::Any,
    }
}

/// Returns a reference to the definition, or a copy of it if the field overrides its map type.
fn referred(name: &str, map_type: Option<&str>) -> Schema {
    if let Some(map_type) = map_type
        && let Some(Schema::Struct(shared)) = BuiltinDefinitions.get(name)
    {
        let mut own = Struct::clone(&shared);
        own.atomic = map_type == "atomic";
        return Schema::Struct(Arc::new(own));
    }
    Schema::Named(name.into())
}

fn object(json: &Value) -> Schema {
    let atomic = text(json, "x-kubernetes-map-type") == Some("atomic");
    let Some(properties) = json.get("properties").and_then(Value::as_object) else {
        let value = json.get("additionalProperties").map_or(Schema::Any, part);
        return Schema::Map(Arc::new(Map { value, atomic }));
    };
    let required = json.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let fields = fields(properties, required);
    Schema::Struct(Arc::new(Struct { fields, atomic, ..Struct::default() }))
}

fn fields(properties: &Object<String, Value>, required: &[Value]) -> HashMap<String, Field> {
    let field = |name: &str, json: &Value| Field {
        schema: part(json),
        patch: patch_strategy(json),
        required: required.iter().any(|it| it == name),
        // kube-apiserver publishes an empty object as the default of a structure that is not a
        // pointer; that is not a value.
        default: json.get("default").filter(|it| !it.is_object()).cloned(),
    };
    properties.iter().map(|(name, json)| (name.clone(), field(name, json))).collect()
}

/// Returns the identity of list items in server-side apply: by the list type, else by the patch
/// strategy.
fn topology(json: &Value) -> Topology {
    let keys = |names: &Value| {
        names.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
    };
    match text(json, "x-kubernetes-list-type") {
        Some("set") => Topology::Set,
        Some("map") => Topology::Map(json.get("x-kubernetes-list-map-keys").map_or_else(Vec::new, keys)),
        Some(_) => Topology::Atomic,
        None => match patch_strategy(json) {
            PatchStrategy { merge: false, .. } => Topology::Atomic,
            PatchStrategy { merge_key: Some(key), .. } => Topology::Map(vec![key]),
            PatchStrategy { merge_key: None, .. } => Topology::Set,
        },
    }
}

fn patch_strategy(json: &Value) -> PatchStrategy {
    let strategies = text(json, "x-kubernetes-patch-strategy").unwrap_or_default();
    let has = |name: &str| strategies.split(',').any(|it| it == name);
    PatchStrategy {
        merge: has("merge"),
        retain_keys: has("retainKeys"),
        replace: has("replace"),
        merge_key: text(json, "x-kubernetes-patch-merge-key").map(Into::into),
    }
}

/// Returns the name of the definition that a schema refers to, directly or through `allOf`.
fn reference(json: &Value) -> Option<&str> {
    let reference = json.get("$ref").or_else(|| json.pointer("/allOf/0/$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE)
}

fn text<'a>(json: &'a Value, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(definition: &str, name: &str) -> Field {
        let Some(Schema::Struct(it)) = BuiltinDefinitions.get(definition) else { panic!("{definition}") };
        it.fields[name].clone()
    }

    #[test]
    fn lists_have_separate_keys_for_apply_and_for_patches() {
        let ports = field("io.k8s.api.core.v1.Container", "ports");
        let Schema::List(list) = &ports.schema else { panic!("{ports:?}") };
        assert_eq!(list.topology, Topology::Map(vec!["containerPort".into(), "protocol".into()]));
        assert_eq!(ports.patch.merge_key.as_deref(), Some("containerPort"));
        assert!(ports.patch.merge && !ports.patch.retain_keys);
    }

    #[test]
    fn strategies_required_fields_and_defaults_are_parsed() {
        assert!(field("io.k8s.api.apps.v1.DeploymentSpec", "strategy").patch.retain_keys);
        assert!(field("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector").patch.replace);
        assert!(field("io.k8s.api.apps.v1.DeploymentSpec", "selector").required);
        assert!(!field("io.k8s.api.apps.v1.DeploymentSpec", "replicas").required);
        let protocol = field("io.k8s.api.core.v1.ContainerPort", "protocol");
        assert_eq!(protocol.default, Some("TCP".into()));
        assert_eq!(field("io.k8s.api.core.v1.Pod", "spec").default, None);
    }

    #[test]
    fn types_with_a_wire_format_of_their_own_are_scalars() {
        for (name, scalar) in [
            ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", Scalar::Time),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", Scalar::MicroTime),
            ("io.k8s.apimachinery.pkg.api.resource.Quantity", Scalar::Quantity),
            ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", Scalar::IntOrString),
        ] {
            assert!(
                matches!(BuiltinDefinitions.get(name), Some(Schema::Scalar(it)) if it == scalar),
                "{name}"
            );
        }
        let Schema::Map(data) = field("io.k8s.api.core.v1.Secret", "data").schema else { panic!() };
        assert!(matches!(data.value, Schema::Scalar(Scalar::Bytes)));
        assert!(BuiltinDefinitions.get("io.k8s.api.core.v1.Nothing").is_none());
    }

    #[test]
    fn a_field_may_override_the_map_type_of_its_definition() {
        let Some(Schema::Struct(shared)) = BuiltinDefinitions.get("io.k8s.api.core.v1.ObjectReference")
        else {
            panic!()
        };
        assert!(shared.atomic);
        let Schema::Struct(own) = field("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef").schema else {
            panic!()
        };
        assert!(!own.atomic && own.fields.contains_key("uid"));
    }
}
