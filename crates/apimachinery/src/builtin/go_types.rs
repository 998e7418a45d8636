//! The Go names of types and fields, which decoding errors of kube-apiserver contain.
//!
//! Definitions contain the names of structures, but not those of string types and embedded
//! structures; the common ones are listed here. Used by [`super::decode`].

use serde_json::Value;

use super::tables;
use crate::schema::{Definitions, Scalar, Schema};

/// Fields whose Go type is a named string type: structure, field, type.
const NAMED_STRINGS: [(&str, &str, &str); 22] = [
    ("ContainerPort", "protocol", "v1.Protocol"),
    ("ServicePort", "protocol", "v1.Protocol"),
    ("Container", "imagePullPolicy", "v1.PullPolicy"),
    ("Container", "terminationMessagePolicy", "v1.TerminationMessagePolicy"),
    ("PodSpec", "restartPolicy", "v1.RestartPolicy"),
    ("PodSpec", "dnsPolicy", "v1.DNSPolicy"),
    ("PodSpec", "preemptionPolicy", "v1.PreemptionPolicy"),
    ("PodStatus", "phase", "v1.PodPhase"),
    ("PodCondition", "type", "v1.PodConditionType"),
    ("NamespaceStatus", "phase", "v1.NamespacePhase"),
    ("Secret", "type", "v1.SecretType"),
    ("ServiceSpec", "type", "v1.ServiceType"),
    ("ServiceSpec", "sessionAffinity", "v1.ServiceAffinity"),
    ("Toleration", "operator", "v1.TolerationOperator"),
    ("Toleration", "effect", "v1.TaintEffect"),
    ("Taint", "effect", "v1.TaintEffect"),
    ("PersistentVolumeClaimSpec", "volumeMode", "v1.PersistentVolumeMode"),
    ("DeploymentStrategy", "type", "v1.DeploymentStrategyType"),
    ("StatefulSetSpec", "podManagementPolicy", "v1.PodManagementPolicyType"),
    ("CronJobSpec", "concurrencyPolicy", "v1.ConcurrencyPolicy"),
    ("ObjectMeta", "uid", "types.UID"),
    ("OwnerReference", "uid", "types.UID"),
];

/// Structures that embed `LocalObjectReference`.
const LOCAL_REFERENCES: [&str; 7] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// Returns the last part of the name of a definition.
pub(super) fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// Returns the structure embedded in `definition` that has the field, unless the field is its own.
pub(super) fn embedded(definition: &str, field: &str) -> Option<&'static str> {
    match (short(definition), field) {
        ("Volume", "name") => None,
        ("Volume", _) => Some("VolumeSource"),
        ("EphemeralContainer", "targetContainerName") => None,
        ("EphemeralContainer", _) => Some("EphemeralContainerCommon"),
        ("Probe", "exec" | "grpc" | "httpGet" | "tcpSocket") => Some("ProbeHandler"),
        (owner, "name") if LOCAL_REFERENCES.contains(&owner) => Some("LocalObjectReference"),
        _ => None,
    }
}

/// Returns the Go type of a value with this schema in (an entry of) `field` of `definition`.
pub(super) fn type_of(
    schema: &Schema,
    definition: &str,
    field: &str,
    definitions: &dyn Definitions,
) -> String {
    match schema {
        Schema::Named(name) => match definitions.get(name) {
            Some(Schema::Scalar(scalar)) => type_of(&Schema::Scalar(scalar), definition, field, definitions),
            _ => qualified(name),
        },
        Schema::List(list) => format!("[]{}", type_of(&list.item, definition, field, definitions)),
        Schema::Map(map) => match map.value.resolve(definitions) {
            Schema::Scalar(Scalar::Quantity) => "v1.ResourceList".to_owned(),
            _ => format!("map[string]{}", type_of(&map.value, definition, field, definitions)),
        },
        Schema::Scalar(Scalar::Integer) => {
            if is_long(definition, field) { "int64" } else { "int32" }.to_owned()
        }
        Schema::Scalar(Scalar::IntOrString) => "int32".to_owned(),
        Schema::Scalar(Scalar::Number) => "float64".to_owned(),
        Schema::Scalar(Scalar::Boolean) => "bool".to_owned(),
        Schema::Scalar(Scalar::Bytes) => "[]uint8".to_owned(),
        Schema::Scalar(Scalar::String) => named_string(definition, field).to_owned(),
        Schema::Scalar(_) => "string".to_owned(),
        Schema::Struct(_) | Schema::Any => "interface {}".to_owned(),
    }
}

/// Returns true if integers in (an entry of) the field have 64 bits.
pub(super) fn is_long(definition: &str, field: &str) -> bool {
    let Some(json) = tables::definition_json(definition) else { return true };
    let Ok(json) = serde_json::from_str::<Value>(json) else { return true };
    let property = &json["properties"][field];
    let format = |it: &Value| it["format"].as_str().map(|format| format != "int32");
    format(property)
        .or_else(|| format(&property["items"]))
        .or_else(|| format(&property["additionalProperties"]))
        .unwrap_or(true)
}

/// Returns `v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`.
fn qualified(definition: &str) -> String {
    let mut parts = definition.rsplit('.');
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{package}.{name}")
}

fn named_string(definition: &str, field: &str) -> &'static str {
    let owner = short(definition);
    NAMED_STRINGS.iter().find(|it| it.0 == owner && it.1 == field).map_or("string", |it| it.2)
}
