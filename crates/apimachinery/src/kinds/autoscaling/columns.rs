//! Table cells of HorizontalPodAutoscalers and of the Scale of other kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::conversion::to_v2;
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{items, number, text};

/// Returns the cells of an autoscaler of either version.
pub(super) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
    if object["apiVersion"] == "autoscaling/v1" {
        autoscaler(&to_v2(object), age)
    } else {
        autoscaler(object, age)
    }
}

/// Returns the cells of a Scale.
pub fn scale_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |pointer: &str| Value::from(number(object, pointer).unwrap_or(0));
    let (wanted, there) = (count("/spec/replicas"), count("/status/replicas"));
    vec![cells::name(object), wanted, there, age::since_creation(object, now)]
}

fn autoscaler(object: &Value, age: Value) -> Vec<Value> {
    let target = text(object, "/spec/scaleTargetRef/kind");
    let target = format!("{target}/{}", text(object, "/spec/scaleTargetRef/name"));
    let least = number(object, "/spec/minReplicas").map_or("<unset>".to_owned(), |it| it.to_string());
    vec![
        cells::name(object),
        target.into(),
        metrics(object).into(),
        least.into(),
        number(object, "/spec/maxReplicas").unwrap_or(0).into(),
        number(object, "/status/currentReplicas").unwrap_or(0).into(),
        age,
    ]
}

fn metrics(object: &Value) -> String {
    let specs = items(object, "/spec/metrics");
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let now = items(object, "/status/currentMetrics");
    let list: Vec<String> =
        specs.iter().enumerate().map(|(index, spec)| metric(spec, now.get(index))).collect();
    match list.as_slice() {
        [a, b, rest @ ..] if !rest.is_empty() => format!("{a}, {b} + {} more...", rest.len()),
        all => all.join(", "),
    }
}

/// Formats one metric: its current value and its target.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (field, named) = match text(spec, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |value: &str| text(spec, &format!("/{field}/target/{value}"));
    let current = |value: &str| {
        let found = status.map_or("", |status| text(status, &format!("/{field}/current/{value}")));
        cells::non_empty_or(found, "<unknown>").to_owned()
    };
    let average = wanted("averageValue");
    if named {
        let name = text(spec, &format!("/{field}/name"));
        if !average.is_empty() {
            return format!("{name}: {}/{average}", current("averageValue"));
        }
        let percent = |value: Option<i64>, none: &str| value.map_or(none.to_owned(), |it| format!("{it}%"));
        let used = status.and_then(|it| number(it, &format!("/{field}/current/averageUtilization")));
        let target = number(spec, &format!("/{field}/target/averageUtilization"));
        return format!("{name}: {}/{}", percent(used, "<unknown>"), percent(target, "<auto>"));
    }
    match (field, average.is_empty()) {
        ("pods", _) => format!("{}/{average}", current("averageValue")),
        (_, false) => format!("{}/{average} (avg)", current("averageValue")),
        (_, true) => format!("{}/{}", current("value"), wanted("value")),
    }
}
