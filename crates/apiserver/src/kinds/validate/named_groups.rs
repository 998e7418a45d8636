//! Validation of the kinds outside the core group that run no pods.

use serde_json::Value;

use super::check::{
    FieldErrors, at_most_100_percent, forbidden, immutable, invalid, invalid_string, number_or_percent,
    one_of, required, unsupported,
};
use super::infrastructure;
use super::metadata::labels;
use super::network;
use super::pod;
use super::selector;
use crate::kinds::json_access::{at, flag, items, number, text};
use crate::kinds::names;
use crate::kinds::quantity::Quantity;
use crate::{FieldError, FieldErrorKind};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Validates a new object of one of these kinds.
pub(super) fn create(out: &mut FieldErrors, group: &str, kind: &str, object: &Value) {
    match (group, kind) {
        ("networking.k8s.io", "Ingress") => network::ingress(out, &object["spec"]),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(out, &object["spec"]),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(out, object),
        ("coordination.k8s.io", "Lease") => super::core_group::lease(out, object),
        ("policy", "PodDisruptionBudget") => disruption_budget(out, &object["spec"]),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(out, &object["spec"]),
        (RBAC, "Role" | "ClusterRole") => role(out, object, kind == "Role"),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => binding(out, object, kind),
        ("storage.k8s.io", "StorageClass") => storage_class(out, object),
        ("scheduling.k8s.io", "PriorityClass") => priority_class(out, object),
        ("node.k8s.io", "RuntimeClass") => {
            match text(object, "/handler") {
                "" => required(out, "handler", ""),
                handler => invalid_string(out, "handler", handler, names::label(handler)),
            }
            labels(out, object, "/scheduling/nodeSelector", "scheduling.nodeSelector");
            pod::tolerations(out, &object["scheduling"], "scheduling");
        }
        ("networking.k8s.io", "ServiceCIDR") => network::service_range(out, object),
        ("networking.k8s.io", "IPAddress") => network::allocated_address(out, object),
        _ => infrastructure::create(out, kind, object),
    }
}

/// Validates the new state of an object of one of these kinds.
pub(super) fn update(out: &mut FieldErrors, group: &str, kind: &str, new: &Value, old: &Value) {
    match (group, kind) {
        // After a change of the address type, all old addresses are invalid; only the change itself
        // is reported.
        ("discovery.k8s.io", "EndpointSlice") if new["addressType"] != old["addressType"] => {}
        _ => create(out, group, kind, new),
    }
    match (group, kind) {
        ("discovery.k8s.io", "EndpointSlice") => immutable(out, new, old, "/addressType", "addressType"),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") if new.get("roleRef") != old.get("roleRef") => {
            let part = |key: &str| Value::from(text(new, &format!("/roleRef/{key}")));
            let shown = format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                part("apiGroup"),
                part("kind"),
                part("name")
            );
            out.push(FieldError::with_value(
                "roleRef",
                FieldErrorKind::Invalid,
                shown,
                "cannot change roleRef",
            ));
        }
        ("storage.k8s.io", "StorageClass") => {
            for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
                immutable(out, new, old, &format!("/{key}"), key);
            }
            if new.get("parameters").is_none() {
                immutable(out, new, old, "/parameters", "parameters");
            } else if new.get("parameters") != old.get("parameters") {
                forbidden(out, "parameters", "updates to parameters are forbidden.");
            }
        }
        ("scheduling.k8s.io", "PriorityClass") if new.get("value") != old.get("value") => {
            forbidden(out, "value", "may not be changed in an update.");
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            immutable(out, new, old, "/preemptionPolicy", "preemptionPolicy");
        }
        ("node.k8s.io", "RuntimeClass") => immutable(out, new, old, "/handler", "handler"),
        ("networking.k8s.io", "IPAddress") if at(new, "/spec/parentRef") != at(old, "/spec/parentRef") => {
            let part = |key: &str| Value::from(text(new, &format!("/spec/parentRef/{key}")));
            let shown = format!(
                "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
                part("group"),
                part("resource"),
                part("namespace"),
                part("name")
            );
            let detail = "field is immutable";
            out.push(FieldError::with_value("spec.parentRef", FieldErrorKind::Invalid, shown, detail));
        }
        _ => infrastructure::changes(out, kind, new, old),
    }
}

fn disruption_budget(out: &mut FieldErrors, spec: &Value) {
    let part = |key: &str| at(spec, &format!("/{key}")).cloned().unwrap_or_default();
    if at(spec, "/minAvailable").is_some() && at(spec, "/maxUnavailable").is_some() {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy"),
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        out.push(FieldError::with_value("spec", FieldErrorKind::Invalid, shown, detail));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        number_or_percent(out, spec, &format!("/{key}"), &format!("spec.{key}"));
        at_most_100_percent(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    if let Some(chosen) = at(spec, "/selector") {
        selector::check(out, chosen, "spec.selector");
    }
    if at(spec, "/unhealthyPodEvictionPolicy").is_some() {
        let (field, known) = ("spec.unhealthyPodEvictionPolicy", ["AlwaysAllow", "IfHealthyBudget"]);
        one_of(out, spec, "/unhealthyPodEvictionPolicy", field, &known);
    }
}

fn autoscaler(out: &mut FieldErrors, spec: &Value) {
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
    if !version.contains('/') {
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

fn role(out: &mut FieldErrors, object: &Value, namespaced: bool) {
    for (index, chosen) in items(object, "/aggregationRule/clusterRoleSelectors").iter().enumerate() {
        let (field, before) = (format!("aggregationRule.clusterRoleSelectors[{index}]"), out.count());
        selector::check(out, chosen, &field);
        if out.count() > before {
            invalid(out, &field, &Value::Null, "invalid label selector.");
        }
    }
    if at(object, "/aggregationRule").is_some_and(|it| items(it, "/clusterRoleSelectors").is_empty()) {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        required(out, "aggregationRule.clusterRoleSelectors", detail);
    }
    for (index, rule) in items(object, "/rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        let has = |key: &str| !items(rule, &format!("/{key}")).is_empty();
        if !has("verbs") {
            required(out, &format!("{path}.verbs"), "verbs must contain at least one value");
        }
        if has("nonResourceURLs") {
            let field = format!("{path}.nonResourceURLs");
            let urls = &rule["nonResourceURLs"];
            if namespaced {
                invalid(out, &field, urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                invalid(
                    out,
                    &field,
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if !has("apiGroups") {
            required(out, &format!("{path}.apiGroups"), "resource rules must supply at least one api group");
        }
        if !has("resources") {
            required(out, &format!("{path}.resources"), "resource rules must supply at least one resource");
        }
    }
}

fn binding(out: &mut FieldErrors, object: &Value, kind: &str) {
    let group = text(object, "/roleRef/apiGroup");
    if group != RBAC {
        unsupported(out, "roleRef.apiGroup", &group.into(), &[RBAC]);
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    one_of(out, object, "/roleRef/kind", "roleRef.kind", kinds);
    match text(object, "/roleRef/name") {
        "" => required(out, "roleRef.name", ""),
        name => invalid_string(out, "roleRef.name", name, names::path_segment(name)),
    }
    for (index, subject) in items(object, "/subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        let name = text(subject, "/name");
        if name.is_empty() {
            required(out, &format!("{path}.name"), "");
        }
        let group = text(subject, "/apiGroup");
        match text(subject, "/kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    invalid_string(out, &format!("{path}.name"), name, names::subdomain(name));
                }
                if !group.is_empty() {
                    unsupported(out, &format!("{path}.apiGroup"), &group.into(), &[""]);
                }
                if kind == "ClusterRoleBinding" && text(subject, "/namespace").is_empty() {
                    required(out, &format!("{path}.namespace"), "");
                }
            }
            "User" | "Group" => {
                if group != RBAC {
                    unsupported(out, &format!("{path}.apiGroup"), &group.into(), &[RBAC]);
                }
            }
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                unsupported(out, &format!("{path}.kind"), &other.into(), &known);
            }
        }
    }
}

fn storage_class(out: &mut FieldErrors, object: &Value) {
    match text(object, "/provisioner").to_lowercase().as_str() {
        "" => required(out, "provisioner", ""),
        provisioner => invalid_string(out, "provisioner", provisioner, names::qualified(provisioner)),
    }
    for (index, term) in items(object, "/allowedTopologies").iter().enumerate() {
        for (at, expression) in items(term, "/matchLabelExpressions").iter().enumerate() {
            let path = format!("allowedTopologies[{index}].matchLabelExpressions[{at}]");
            if items(expression, "/values").is_empty() {
                required(out, &format!("{path}.values"), "");
            }
            let key = text(expression, "/key");
            invalid_string(out, &format!("{path}.key"), key, names::qualified(key));
        }
    }
    one_of(out, object, "/reclaimPolicy", "reclaimPolicy", &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    one_of(out, object, "/volumeBindingMode", "volumeBindingMode", &modes);
}

fn priority_class(out: &mut FieldErrors, object: &Value) {
    let name = text(object, "/metadata/name");
    let system = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    let value = number(object, "/value").unwrap_or(0);
    if name.starts_with("system-") {
        let known = system.contains(&(name, value)) && !flag(object, "/globalDefault");
        if !known {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {name} is not a known system priority class"
            );
            forbidden(out, "metadata.name", &detail);
        }
    } else if value > 1_000_000_000 {
        forbidden(out, "value", "maximum allowed value of a user defined priority is 1000000000");
    }
    if at(object, "/preemptionPolicy").is_some() {
        let policies = ["PreemptLowerPriority", "Never"];
        one_of(out, object, "/preemptionPolicy", "preemptionPolicy", &policies);
    }
}
