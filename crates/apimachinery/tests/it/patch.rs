//! Patches of all types, against a schema like that of pods.

mod errors;
mod lists;
mod objects;
mod properties;

use std::sync::Arc;

use dogwatch_apimachinery::ApiError;
use dogwatch_apimachinery::patch::{Patch, PatchKind};
use dogwatch_apimachinery::schema::{
    Definitions, Field, List, Map, PatchStrategy, Scalar, Schema, Struct, Topology,
};
use serde_json::Value;

/// Definitions of a kind with every sort of field: lists that merge and lists that do not, of
/// objects and of scalars.
struct Pods;

impl Definitions for Pods {
    fn get(&self, name: &str) -> Option<Schema> {
        let merged_by = |item, key| merging(objects(item), false, Some(key));
        let fields = match name {
            "test.Pod" => vec![("metadata", named("Meta")), ("spec", named("PodSpec"))],
            "test.Meta" => vec![
                ("name", text()),
                ("labels", texts()),
                ("finalizers", merging(scalars(Scalar::String), false, None)),
                ("numbers", merging(scalars(Scalar::Integer), false, None)),
                ("unkeyed", merging(objects("EnvVar"), false, None)),
            ],
            "test.PodSpec" => vec![
                ("containers", merged_by("Container", "name")),
                ("volumes", merging(objects("Volume"), true, Some("name"))),
                ("tolerations", Field::new(objects("Toleration"))),
                ("nodeSelector", texts()),
                ("strategy", retaining(named("Strategy"))),
                ("raw", Field::new(Schema::Any)),
                ("lists", Field::new(list(scalars(Scalar::String)))),
            ],
            "test.Container" => vec![
                ("name", text()),
                ("image", text()),
                ("command", Field::new(scalars(Scalar::String))),
                ("env", merged_by("EnvVar", "name")),
                ("ports", merged_by("Port", "containerPort")),
            ],
            "test.EnvVar" | "test.Toleration" => vec![("name", text()), ("value", text())],
            "test.Port" => {
                vec![("name", text()), ("containerPort", Field::new(Schema::Scalar(Scalar::Integer)))]
            }
            "test.Volume" => vec![("name", text()), ("emptyDir", texts()), ("hostPath", texts())],
            "test.Strategy" => vec![("type", text()), ("rollingUpdate", named("Strategy")), ("by", text())],
            _ => return None,
        };
        let fields = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
        Some(Schema::Struct(Arc::new(Struct { fields, ..Struct::default() })))
    }
}

fn named(name: &str) -> Field {
    Field::new(Schema::Named(format!("test.{name}").into()))
}

fn text() -> Field {
    Field::new(Schema::Scalar(Scalar::String))
}

fn texts() -> Field {
    let value = Schema::Scalar(Scalar::String);
    Field::new(Schema::Map(Arc::new(Map { value, atomic: false })))
}

fn list(item: Schema) -> Schema {
    Schema::List(Arc::new(List { item, topology: Topology::Atomic }))
}

fn scalars(scalar: Scalar) -> Schema {
    list(Schema::Scalar(scalar))
}

fn objects(name: &str) -> Schema {
    list(Schema::Named(format!("test.{name}").into()))
}

fn merging(schema: Schema, retain_keys: bool, key: Option<&str>) -> Field {
    let patch = PatchStrategy {
        merge: true,
        retain_keys,
        merge_key: key.map(str::to_owned),
        ..PatchStrategy::default()
    };
    Field { patch, ..Field::new(schema) }
}

fn retaining(field: Field) -> Field {
    Field { patch: PatchStrategy { retain_keys: true, ..PatchStrategy::default() }, ..field }
}

/// Applies a patch to the live object.
fn patched(kind: PatchKind, live: &Value, patch: &Value) -> Result<Value, ApiError> {
    let pod = Schema::Named("test.Pod".into());
    Patch::decode(kind, patch.to_string().as_bytes(), true)?.apply(live, &pod, &Pods)
}

/// Cases of strategic patches: description, live object, patch, result.
type Cases<const N: usize> = [(&'static str, Value, Value, Value); N];

/// Runs cases inside `part`, either `metadata` or `spec`.
fn check<const N: usize>(part: &str, cases: Cases<N>) {
    for (about, live, patch, expected) in cases {
        let inside = |value: Value| serde_json::json!({ part: value });
        let result = patched(PatchKind::Strategic, &inside(live), &inside(patch));
        assert_eq!(result, Ok(inside(expected)), "{about}");
    }
}
