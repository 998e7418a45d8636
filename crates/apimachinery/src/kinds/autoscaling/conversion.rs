//! Conversion of HorizontalPodAutoscalers between version 1 and version 2.
//!
//! Version 1 has a field for CPU utilization and nothing else. Everything else of version 2 is kept
//! in annotations, in the form of an even older version, so that an object that an old client reads
//! and writes back loses nothing. Mirrors k8s.io/kubernetes v1.36.4
//! pkg/apis/autoscaling/v1/conversion.go.
//!
//! ```text
//! version 2                                    version 1
//! spec.metrics: utilization of the CPU    <->  spec.targetCPUUtilizationPercentage
//! spec.metrics: all others                <->  annotation metrics
//! spec.behavior                           <->  annotation behavior
//! status.currentMetrics                   <->  annotation current-metrics (and currentCPUUtilizationPercentage)
//! status.conditions                       <->  annotation conditions
//! ```
//!
//! Objects are stored in version 2.

use serde_json::{Map, Value, json};

use super::annotation::{self, FieldType, Fields};
use super::defaults::defaults;
use super::metric;
use crate::kinds::json_access::{at, items, number, object};
use crate::kinds::shape;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

const CONDITION_FIELDS: Fields = &[
    ("type", FieldType::String),
    ("status", FieldType::String),
    ("lastTransitionTime", FieldType::Time),
    ("reason", FieldType::String),
    ("message", FieldType::String),
];

const BEHAVIOR_FIELDS: Fields = &[
    ("ScaleUp", FieldType::Object),
    ("ScaleDown", FieldType::Object),
    ("StabilizationWindowSeconds", FieldType::Number),
    ("SelectPolicy", FieldType::String),
    ("Policies", FieldType::Objects),
    ("Tolerance", FieldType::Quantity),
    ("Type", FieldType::String),
    ("Value", FieldType::Number),
    ("PeriodSeconds", FieldType::Number),
];

/// Converts a stored object to version 1.
pub fn to_v1(stored: &Value) -> Value {
    let mut shown = stored.clone();
    let Some(map) = shown.as_object_mut() else { return shown };
    map.insert("apiVersion".to_owned(), "autoscaling/v1".into());

    let is_cpu = |metric: &&Value| cpu_utilization(metric, "target").is_some();
    let (cpu, others): (Vec<_>, Vec<_>) = items(stored, "/spec/metrics").iter().partition(is_cpu);
    let others: Vec<_> = others.into_iter().map(metric::to_old_spec).collect();
    let current: Vec<_> = items(stored, "/status/currentMetrics").iter().map(metric::to_old_status).collect();
    let conditions = items(stored, "/status/conditions");
    let mut notes = Vec::new();
    if !others.is_empty() {
        notes.push((METRICS, annotation::write(&others.into(), metric::FIELDS)));
    }
    if !current.is_empty() {
        notes.push((CURRENT_METRICS, annotation::write(&current.into(), metric::FIELDS)));
    }
    if !conditions.is_empty() {
        notes.push((CONDITIONS, annotation::write(&conditions.into(), CONDITION_FIELDS)));
    }
    if let Some(behavior) = at(stored, "/spec/behavior") {
        notes.push((BEHAVIOR, annotation::write(&to_old_behavior(behavior), BEHAVIOR_FIELDS)));
    }
    annotate(object(map, "metadata"), notes);

    let spec = object(map, "spec");
    spec.remove("metrics");
    spec.remove("behavior");
    // The first one counts if there are several.
    if let Some(percent) = cpu.first().and_then(|it| cpu_utilization(it, "target")) {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.into());
    }
    let status = object(map, "status");
    status.remove("currentMetrics");
    status.remove("conditions");
    for count in ["currentReplicas", "desiredReplicas"] {
        status.entry(count).or_insert(0.into());
    }
    // The last one counts if there are several.
    let used = items(stored, "/status/currentMetrics").iter().rev();
    if let Some(percent) = used.filter_map(|it| cpu_utilization(it, "current")).next() {
        status.insert("currentCPUUtilizationPercentage".to_owned(), percent.into());
    }
    shown
}

/// Converts an object of version 1 to its stored form. Annotations that cannot be decoded are
/// dropped.
pub fn to_v2(object_of_v1: &Value) -> Value {
    let mut stored = object_of_v1.clone();
    let Some(map) = stored.as_object_mut() else { return stored };
    map.insert("apiVersion".to_owned(), "autoscaling/v2".into());
    let note = |name: &str, fields| {
        let text = object_of_v1["metadata"]["annotations"][name].as_str()?;
        annotation::read(text, fields)
    };
    let noted = |name, fields| note(name, fields).and_then(|it| it.as_array().cloned());
    annotate(object(map, "metadata"), Vec::new());

    let spec = object(map, "spec");
    let mut metrics: Vec<_> =
        noted(METRICS, metric::FIELDS).unwrap_or_default().iter().map(metric::from_old_spec).collect();
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").filter(|it| !it.is_null()) {
        let target = json!({ "type": "Utilization", "averageUtilization": percent });
        metrics.push(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
    }
    if !metrics.is_empty() {
        spec.insert("metrics".to_owned(), metrics.into());
    }
    let behavior = note(BEHAVIOR, BEHAVIOR_FIELDS).filter(|it| !it.as_object().is_none_or(Map::is_empty));
    if let Some(behavior) = behavior {
        spec.insert("behavior".to_owned(), from_old_behavior(&behavior));
    }

    let status = object(map, "status");
    let percent = status.remove("currentCPUUtilizationPercentage").filter(|it| !it.is_null());
    let current: Vec<_> = match noted(CURRENT_METRICS, metric::FIELDS) {
        // The annotation has more than the percentage.
        Some(current) => current.iter().map(metric::from_old_status).collect(),
        None => {
            let used = |percent| json!({ "name": "cpu", "current": { "averageUtilization": percent } });
            percent.map(|it| json!({ "type": "Resource", "resource": used(it) })).into_iter().collect()
        }
    };
    let current = if current.is_empty() { Value::Null } else { current.into() };
    status.insert("currentMetrics".to_owned(), current);
    let mut conditions = noted(CONDITIONS, CONDITION_FIELDS).unwrap_or_default();
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        condition.entry("lastTransitionTime").or_insert(Value::Null);
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    if status.get("currentReplicas").and_then(Value::as_i64) == Some(0) {
        status.remove("currentReplicas");
    }
    status.entry("desiredReplicas").or_insert(0.into());
    if let Some(map) = stored.as_object_mut() {
        shape::apply("autoscaling", "v2", "HorizontalPodAutoscaler", map);
        defaults("v2", map);
    }
    stored
}

/// Returns the percentage of a metric for CPU utilization.
fn cpu_utilization(metric: &Value, side: &str) -> Option<i64> {
    let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    is_cpu.then(|| number(metric, &format!("/resource/{side}/averageUtilization"))).flatten()
}

/// Replaces the annotations for what version 1 has no fields for.
fn annotate(metadata: &mut Map<String, Value>, notes: Vec<(&str, String)>) {
    let annotations = object(metadata, "annotations");
    for name in [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS] {
        annotations.remove(name);
    }
    annotations.extend(notes.into_iter().map(|(name, text)| (name.to_owned(), text.into())));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Converts the behavior to the form in its annotation: with the Go names of fields, and null for
/// those that are not set.
fn to_old_behavior(behavior: &Value) -> Value {
    let policy = |it: &Value| json!({ "Type": it["type"], "Value": it["value"], "PeriodSeconds": it["periodSeconds"] });
    let rules = |name: &str| {
        let Some(rules) = at(behavior, &format!("/{name}")) else { return Value::Null };
        let policies = at(rules, "/policies").map(|_| items(rules, "/policies").iter().map(policy).collect());
        json!({
            "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"],
            "SelectPolicy": rules["selectPolicy"],
            "Policies": policies.unwrap_or(Value::Null),
            "Tolerance": rules["tolerance"],
        })
    };
    json!({ "ScaleUp": rules("scaleUp"), "ScaleDown": rules("scaleDown") })
}

fn from_old_behavior(old: &Value) -> Value {
    let policy = |it: &Value| {
        json!({
            "type": it["Type"].as_str().unwrap_or_default(),
            "value": number(it, "/Value").unwrap_or(0),
            "periodSeconds": number(it, "/PeriodSeconds").unwrap_or(0),
        })
    };
    let mut behavior = Map::new();
    for (name, old_name) in [("scaleUp", "/ScaleUp"), ("scaleDown", "/ScaleDown")] {
        let Some(rules) = at(old, old_name) else { continue };
        let mut out = Map::new();
        for (name, old_name) in [
            ("stabilizationWindowSeconds", "/StabilizationWindowSeconds"),
            ("selectPolicy", "/SelectPolicy"),
            ("tolerance", "/Tolerance"),
        ] {
            out.extend(at(rules, old_name).map(|it| (name.to_owned(), it.clone())));
        }
        let policies = items(rules, "/Policies");
        if !policies.is_empty() {
            out.insert("policies".to_owned(), policies.iter().map(policy).collect());
        }
        behavior.insert(name.to_owned(), out.into());
    }
    behavior.into()
}
