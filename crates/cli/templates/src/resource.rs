//! The custom resource. After a change: `cargo run -- crd > manifests/01-crd.yaml`.

use dogwatch::CustomResource;
use dogwatch::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The desired state: pods that run an image.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "__group__", version = "v1alpha1", kind = "__Kind__", namespaced)]
#[kube(plural = "__plural__", singular = "__singular__", status = "__Kind__Status")]
#[kube(doc = "Pods that run an image.")]
#[kube(printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"))]
#[kube(printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"))]
#[serde(rename_all = "camelCase")]
pub struct __Kind__Spec {
    /// The container image.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The number of pods. Defaults to 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// The observed state.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct __Kind__Status {
    /// The number of pods that are ready.
    pub ready_replicas: i32,
    /// `Ready` is true when all pods are ready.
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}

/// Returns the schema of conditions: a list with one entry for each type.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": { "type": "string" },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "observedGeneration": { "type": "integer", "format": "int64" },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "reason": { "type": "string" },
                "message": { "type": "string" },
            },
        },
    })
}
