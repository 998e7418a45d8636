//! ReplicaSets.

use jiff::Timestamp;
use serde_json::Value;

use super::selected_template::{selected_template, with_template};
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{fill, number, object};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, not_negative};
use crate::kinds::validate::selector::fixed_selector;
use crate::kinds::validate::status::counts;

/// The rules of the kind ReplicaSet.
pub(crate) static RULES: KindRules = KindRules {
    group: "apps",
    kind: "ReplicaSet",
    plural: "replicasets",
    traits: KindTraits { has_generation: true, has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: |_, map| {
        let spec = object(map, "spec");
        fill(spec, "replicas", 1);
        with_template(spec);
    },
    validate_create: validate,
    validate_update: Some(|out, new, old| {
        validate(out, new);
        fixed_selector(out, new, old);
    }),
    validate_status: |out, object, _| counts(out, object, NUMBERS, PARTS),
    pod_spec: Some("/spec/template/spec"),
    cells,
    ..COMMON
};

/// The numbers in the status.
const NUMBERS: &[&str] =
    &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
/// The numbers in the status that count a part of the replicas.
const PARTS: &[&str] = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

fn validate(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    not_negative(out, spec, "/replicas", "spec.replicas");
    not_negative(out, spec, "/minReadySeconds", "spec.minReadySeconds");
    selected_template(out, spec, &spec["template"], "deployment", true);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/spec/template/spec");
    let count = |pointer: &str| Value::from(number(object, pointer).unwrap_or(0));
    vec![
        cells::name(object),
        count("/spec/replicas"),
        count("/status/replicas"),
        count("/status/readyReplicas"),
        age::since_creation(object, now),
        names,
        images,
        cells::selector(object, "/spec/selector").into(),
    ]
}
