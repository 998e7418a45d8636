//! Validation of HorizontalPodAutoscalers.

use serde_json::Value;

use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::names;
use crate::kinds::quantity::Quantity;
use crate::kinds::validate::check::{
    FieldErrors, forbidden, invalid, invalid_string, one_of, required, unsupported,
};

/// Validates the spec of an autoscaler.
pub(super) fn autoscaler(out: &mut FieldErrors, spec: &Value) {
    let least = number(spec, "/minReplicas");
    let most = number(spec, "/maxReplicas").unwrap_or(0);
    if let Some(least) = least.filter(|least| *least < 1) {
        invalid(out, "spec.minReplicas", &least.into(), "must be greater than or equal to 1");
    }
    if most < 1 {
        required(out, "spec.maxReplicas", "must be set and greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        invalid(out, "spec.maxReplicas", &most.into(), detail);
    }
    for key in ["kind", "name"] {
        let field = format!("spec.scaleTargetRef.{key}");
        match text(spec, &format!("/scaleTargetRef/{key}")) {
            "" => required(out, &field, ""),
            name => invalid_string(out, &field, name, names::path_segment(name)),
        }
    }
    let version = text(spec, "/scaleTargetRef/apiVersion");
    // The only kind of the core group that can be scaled (`AllowEmptyAPIGroup` in
    // k8s.io/kubernetes v1.36.4 pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go).
    let is_core = text(spec, "/scaleTargetRef/kind") == "ReplicationController";
    if !version.contains('/') && !is_core {
        let detail = "apiVersion must specify API group";
        invalid(out, "spec.scaleTargetRef.apiVersion", &version.into(), detail);
    }
    scaling_rules(out, spec);
    for (index, metric) in items(spec, "/metrics").iter().enumerate() {
        let path = format!("spec.metrics[{index}]");
        let source = match text(metric, "/type") {
            "" => {
                required(out, &format!("{path}.type"), "must specify a metric source type");
                continue;
            }
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            other => {
                let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
                unsupported(out, &format!("{path}.type"), &other.into(), &known);
                continue;
            }
        };
        if at(metric, &format!("/{source}")).is_none() {
            let detail = "must populate information for the given metric source";
            required(out, &format!("{path}.{source}"), detail);
        } else {
            let source_path = format!("{path}.{source}");
            let of_resource = source.ends_with("esource");
            if !of_resource && text(metric, &format!("/{source}/metric/name")).is_empty() {
                required(out, &format!("{source_path}.metric.name"), "must specify a metric name");
            }
            metric_target(out, &metric[source], &source_path, of_resource);
        }
    }
    let outside = items(spec, "/metrics").iter().any(|it| matches!(text(it, "/type"), "Object" | "External"));
    if least == Some(0) && !outside {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        forbidden(out, "spec.metrics", detail);
    }
}

fn metric_target(out: &mut FieldErrors, source: &Value, field: &str, of_resource: bool) {
    let (target, field) = (&source["target"], format!("{field}.target"));
    let kind = text(target, "/type");
    if kind.is_empty() {
        required(out, &format!("{field}.type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        invalid(out, &format!("{field}.type"), &kind.into(), detail);
    }
    for key in ["value", "averageValue"] {
        let amount = at(target, &format!("/{key}")).and_then(Quantity::read);
        if let Some(amount) = amount.filter(|it| it.is_zero() || it.is_negative()) {
            invalid(out, &format!("{field}.{key}"), &amount.canonical().into(), "must be positive");
        }
    }
    let used = number(target, "/averageUtilization");
    if let Some(used) = used.filter(|it| *it < 1) {
        invalid(out, &format!("{field}.averageUtilization"), &used.into(), "must be greater than 0");
    }
    match (used.is_some(), at(target, "/averageValue").is_some()) {
        (false, false) if of_resource => {
            let detail = "must set either a target raw value or a target utilization";
            required(out, &format!("{field}.averageUtilization"), detail);
        }
        (true, true) if of_resource => {
            let detail = "may not set both a target raw value and a target utilization";
            forbidden(out, &format!("{field}.averageValue"), detail);
        }
        _ => {}
    }
}

fn scaling_rules(out: &mut FieldErrors, spec: &Value) {
    for direction in ["scaleUp", "scaleDown"] {
        let path = format!("spec.behavior.{direction}.policies");
        let policies = items(spec, &format!("/behavior/{direction}/policies"));
        for (index, policy) in policies.iter().enumerate() {
            let path = format!("{path}[{index}]");
            one_of(out, policy, "/type", &format!("{path}.type"), &["Percent", "Pods"]);
            for key in ["value", "periodSeconds"] {
                let value = number(policy, &format!("/{key}")).unwrap_or(0);
                if value <= 0 {
                    invalid(out, &format!("{path}.{key}"), &value.into(), "must be greater than zero");
                }
                if key == "periodSeconds" && value > 1800 {
                    let detail = "must be less than or equal to 1800";
                    invalid(out, &format!("{path}.{key}"), &value.into(), detail);
                }
            }
        }
    }
}
