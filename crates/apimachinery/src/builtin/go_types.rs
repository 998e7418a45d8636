//! The Go names of types and fields of k8s.io/api v0.36.4, which decoding errors of kube-apiserver
//! contain.
//!
//! Definitions contain the names of structures, but not those of string types and embedded
//! structures; the common ones are listed here. Used by [`super::decode`].

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use parking_lot::RwLock;
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
    // Every large integer of an object is looked up, so a definition is parsed only once.
    static SHORT_FIELDS: LazyLock<RwLock<HashMap<&'static str, HashSet<String>>>> =
        LazyLock::new(RwLock::default);
    if let Some(short) = SHORT_FIELDS.read().get(definition) {
        return !short.contains(field);
    }
    let Some((name, json)) = tables::definition_entry(definition) else { return true };
    let short = short_fields(json);
    let is_long = !short.contains(field);
    SHORT_FIELDS.write().insert(name, short);
    is_long
}

/// Returns the fields of a definition in which integers have 32 bits.
fn short_fields(definition: &str) -> HashSet<String> {
    let mut json: Value = serde_json::from_str(definition).expect("the generator writes JSON");
    let format = |it: &Value| it["format"].as_str().map(|format| format == "int32");
    let is_short = |property: &Value| {
        format(property)
            .or_else(|| format(&property["items"]))
            .or_else(|| format(&property["additionalProperties"]))
            .unwrap_or(false)
    };
    let Value::Object(properties) = json["properties"].take() else { return HashSet::new() };
    properties.into_iter().filter(|(_, property)| is_short(property)).map(|(name, _)| name).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
    const SECURITY_CONTEXT: &str = "io.k8s.api.core.v1.PodSecurityContext";

    #[test]
    fn the_width_of_an_integer_is_that_of_its_field_or_of_its_entries() {
        for (definition, field, expected) in [
            (POD_SPEC, "activeDeadlineSeconds", true),
            (POD_SPEC, "priority", false),
            (POD_SPEC, "priority", false),
            (SECURITY_CONTEXT, "supplementalGroups", true),
            (POD_SPEC, "unknown", true),
            ("unknown", "priority", true),
        ] {
            assert_eq!(is_long(definition, field), expected, "{definition} {field}");
        }
    }

    /// The definition was parsed again for each integer above 2^31.
    #[test]
    fn a_definition_is_parsed_once_for_all_integers() {
        let time = |of: &dyn Fn()| {
            let start = cpu_time::ThreadTime::now();
            of();
            start.elapsed().as_secs_f64()
        };
        let parsed = time(&|| {
            let json = tables::definition_json(POD_SPEC).expect("it exists");
            drop(serde_json::from_str::<Value>(json));
        });
        let looked_up = time(&|| assert!((0..1_000).all(|_| is_long(POD_SPEC, "activeDeadlineSeconds"))));
        assert!(looked_up < 100.0 * parsed, "{looked_up} s for 1,000 integers, {parsed} s to parse once");
    }
}
