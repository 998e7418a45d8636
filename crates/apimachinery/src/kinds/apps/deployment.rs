//! Deployments.

use jiff::Timestamp;
use serde_json::Value;

use super::selected_template::{is_zero, report, selected_template, with_template};
use crate::FieldErrorKind;
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, fill, number, object, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses, StatusMetadata};
use crate::kinds::validate::check::{
    FieldErrors, at_most_100_percent, forbidden, invalid, not_negative, number_or_percent,
};
use crate::kinds::validate::selector::fixed_selector;
use crate::kinds::validate::status::counts;

/// The rules of the kind Deployment.
pub(crate) static RULES: KindRules = KindRules {
    group: "apps",
    kind: "Deployment",
    plural: "deployments",
    traits: KindTraits {
        has_generation: true,
        has_status: true,
        status_metadata: StatusMetadata::AllButLabels,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    generation_metadata: &["/metadata/annotations"],
    validate_create: |out, object| deployment(out, &object["spec"]),
    validate_update: Some(|out, new, old| {
        deployment(out, &new["spec"]);
        fixed_selector(out, new, old);
    }),
    validate_status: |out, object, _| counts(out, object, NUMBERS, PARTS),
    pod_spec: Some("/spec/template/spec"),
    cells,
    ..COMMON
};

/// The numbers in the status.
const NUMBERS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "collisionCount",
];
/// The numbers in the status that count a part of the replicas.
const PARTS: &[&str] = &["updatedReplicas", "readyReplicas", "availableReplicas"];

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = object(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = object(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
    with_template(spec);
}

fn deployment(out: &mut FieldErrors, spec: &Value) {
    not_negative(out, spec, "/replicas", "spec.replicas");
    selected_template(out, spec, &spec["template"], "deployment", true);
    let rolling = "/strategy/rollingUpdate";
    match text(spec, "/strategy/type") {
        "Recreate" if at(spec, rolling).is_some() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            forbidden(out, "spec.strategy.rollingUpdate", detail);
        }
        "Recreate" => {}
        "RollingUpdate" => rolling_deployment(out, spec),
        other => {
            let value = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let detail = "supported values: \"Recreate\", \"RollingUpdate\"";
            report(out, FieldErrorKind::NotSupported, "spec.strategy", &value, detail);
        }
    }
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    let ready = number(spec, "/minReadySeconds").unwrap_or(0);
    if let Some(deadline) = number(spec, "/progressDeadlineSeconds").filter(|it| *it <= ready) {
        let detail = "must be greater than minReadySeconds";
        invalid(out, "spec.progressDeadlineSeconds", &deadline.into(), detail);
    }
}

fn rolling_deployment(out: &mut FieldErrors, spec: &Value) {
    let (pointer, field) = ("/strategy/rollingUpdate", "spec.strategy.rollingUpdate");
    for key in ["maxUnavailable", "maxSurge"] {
        number_or_percent(out, spec, &format!("{pointer}/{key}"), &format!("{field}.{key}"));
    }
    at_most_100_percent(out, spec, &format!("{pointer}/maxUnavailable"), &format!("{field}.maxUnavailable"));
    let none = |key: &str| is_zero(at(spec, &format!("{pointer}/{key}")));
    if none("maxUnavailable") && none("maxSurge") {
        let value = spec["strategy"]["rollingUpdate"]["maxUnavailable"].clone();
        invalid(out, &format!("{field}.maxUnavailable"), &value, "may not be 0 when `maxSurge` is 0");
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/spec/template/spec");
    let count = |pointer: &str| number(object, pointer).unwrap_or(0);
    let status = |field: &str| Value::from(count(&format!("/status/{field}")));
    vec![
        cells::name(object),
        format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas")).into(),
        status("updatedReplicas"),
        status("availableReplicas"),
        age::since_creation(object, now),
        names,
        images,
        cells::selector(object, "/spec/selector").into(),
    ]
}
