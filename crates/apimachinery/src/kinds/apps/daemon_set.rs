//! DaemonSets.

use jiff::Timestamp;
use serde_json::Value;

use super::selected_template::{is_zero, report, selected_template, with_template};
use crate::FieldErrorKind;
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, fill, number, object, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{
    FieldErrors, at_most_100_percent, invalid, not_negative, number_or_percent, required,
};
use crate::kinds::validate::selector::fixed_selector;
use crate::kinds::validate::status::counts;

/// The rules of the kind DaemonSet.
pub(crate) static RULES: KindRules = KindRules {
    group: "apps",
    kind: "DaemonSet",
    plural: "daemonsets",
    traits: KindTraits { has_generation: true, has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    prepare_create: |daemon_set, _, _| {
        set_template_generation(daemon_set, 1);
        Ok(())
    },
    prepare_update: |new, old, _| {
        let generation = template_generation(old);
        let changed = at(new, "/spec/template") != at(old, "/spec/template");
        set_template_generation(new, if changed { generation + 1 } else { generation });
        Ok(())
    },
    prepare_status: |stored, old| set_template_generation(stored, template_generation(old)),
    validate_create: |out, object| daemon_set(out, &object["spec"]),
    validate_update: Some(|out, new, old| {
        daemon_set(out, &new["spec"]);
        fixed_selector(out, new, old);
    }),
    validate_status: |out, object, _| counts(out, object, NUMBERS, &[]),
    pod_spec: Some("/spec/template/spec"),
    cells,
    // This annotation is a field of kube-apiserver's internal DaemonSet (k8s.io/kubernetes v1.36.4
    // pkg/apis/apps/v1/conversion.go).
    internal_annotation: Some(TEMPLATE_GENERATION),
    ..COMMON
};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The numbers in the status.
const NUMBERS: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

fn defaults(_: &str, map: &mut Object) {
    // kube-apiserver has an internal field for it that is serialized as this annotation
    // (k8s.io/kubernetes v1.36.4 pkg/apis/apps/v1/conversion.go), so that an unset one is 0.
    fill(object(object(map, "metadata"), "annotations"), "deprecated.daemonset.template.generation", "0");
    let spec = object(map, "spec");
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = object(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = object(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
    with_template(spec);
}

fn template_generation(daemon_set: &Value) -> i64 {
    let pointer = format!("/metadata/annotations/{TEMPLATE_GENERATION}");
    text(daemon_set, &pointer).parse().unwrap_or(0)
}

fn set_template_generation(daemon_set: &mut Value, generation: i64) {
    let Some(map) = daemon_set.as_object_mut() else { return };
    let annotations = object(object(map, "metadata"), "annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

fn daemon_set(out: &mut FieldErrors, spec: &Value) {
    selected_template(out, spec, &spec["template"], "daemonset", false);
    for key in ["minReadySeconds", "revisionHistoryLimit"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    let (pointer, field) = ("/updateStrategy/rollingUpdate", "spec.updateStrategy.rollingUpdate");
    match text(spec, "/updateStrategy/type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            for key in ["maxUnavailable", "maxSurge"] {
                number_or_percent(out, spec, &format!("{pointer}/{key}"), &format!("{field}.{key}"));
                at_most_100_percent(out, spec, &format!("{pointer}/{key}"), &format!("{field}.{key}"));
            }
            let surge = at(spec, &format!("{pointer}/maxSurge"));
            match (is_zero(at(spec, &format!("{pointer}/maxUnavailable"))), is_zero(surge)) {
                (true, true) => {
                    required(out, &format!("{field}.maxUnavailable"), "cannot be 0 when maxSurge is 0")
                }
                (false, false) => {
                    let value = surge.cloned().unwrap_or_default();
                    let detail = "may not be set when maxUnavailable is non-zero";
                    invalid(out, &format!("{field}.maxSurge"), &value, detail);
                }
                _ => {}
            }
        }
        other => {
            let value = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let detail = "supported values: \"RollingUpdate\", \"OnDelete\"";
            report(out, FieldErrorKind::NotSupported, "spec.updateStrategy", &value, detail);
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/spec/template/spec");
    let status = |field: &str| Value::from(number(object, &format!("/status/{field}")).unwrap_or(0));
    vec![
        cells::name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        cells::labels(object, "/spec/template/spec/nodeSelector").into(),
        age::since_creation(object, now),
        names,
        images,
        cells::selector(object, "/spec/selector").into(),
    ]
}
