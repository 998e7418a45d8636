//! Validation of limit ranges and quotas.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{FieldErrors, duplicate, forbidden, immutable, invalid, invalid_string, required};
use crate::kinds::json_access::{at, entries, items, text};
use crate::kinds::names;
use crate::kinds::quantity::Quantity;
use crate::{FieldError, FieldErrorKind};

/// The resources that a quota with the scope `BestEffort` can limit.
const BEST_EFFORT: &[&str] = &["pods"];

/// The resources without a domain that a quota can limit.
const STANDARD_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// The resources of pods, for which a quota may have a scope.
const OF_PODS: &[&str] =
    &["pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
/// The resources that are numbers of objects.
const WHOLE: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// The number of errors about one selected scope, and of scopes that such an error shows.
const MAX_SCOPE_ERRORS: usize = 20;
/// The resources of claims that a quota with the scope `VolumeAttributesClass` can limit.
const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];

/// Validates a limit range.
pub(in crate::kinds) fn range(out: &mut FieldErrors, object: &Value) {
    let limits = items(object, "/spec/limits");
    let mut kinds_before = HashSet::new();
    for (index, limit) in limits.iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = text(limit, "/type");
        invalid_string(out, &format!("{path}.type"), kind, names::qualified(kind));
        if !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
            let detail = "must be a standard limit type or fully qualified";
            invalid(out, &format!("{path}.type"), &kind.into(), detail);
        }
        if !kinds_before.insert(kind) {
            duplicate(out, &format!("{path}.type"), &kind.into());
        }
        match kind {
            "Pod" => {
                for part in
                    ["default", "defaultRequest"].into_iter().filter(|part| limit.get(*part).is_some())
                {
                    let detail = "may not be specified when `type` is 'Pod'";
                    forbidden(out, &format!("{path}.{part}"), detail);
                }
            }
            "PersistentVolumeClaim"
                if at(limit, "/min/storage").is_none() && at(limit, "/max/storage").is_none() =>
            {
                let detail = "either minimum or maximum storage value is required, but neither was provided";
                required(out, &format!("{path}.limits"), detail);
            }
            _ => {}
        }
        let mut seen: Vec<&str> = Vec::new();
        for part in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            seen.extend(entries(limit, &format!("/{part}")).map(|(name, _)| name));
        }
        seen.sort_unstable();
        seen.dedup();
        seen.into_iter().for_each(|name| amounts(out, limit, name, &path));
    }
}

/// Checks the quantities of one resource, which must be ordered from the minimum to the maximum.
fn amounts(out: &mut FieldErrors, limit: &Value, name: &str, path: &str) {
    let of = |part: &str| limit.get(part).and_then(|it| it.get(name)).and_then(Quantity::read);
    let (least, most) = (of("min"), of("max"));
    let (request, default) = (of("defaultRequest"), of("default"));
    // The smaller and the larger quantity, the field, their names in the message, and the quantity
    // that is shown.
    let orders = [
        (least, most, "min", "min value", "max value", least),
        (least, request, "defaultRequest", "min value", "default request value", request),
        (least, default, "default", "min value", "default value", least),
        (request, most, "defaultRequest", "default request value", "max value", request),
        (request, default, "defaultRequest", "default request value", "default limit value", request),
        (default, most, "default", "default value", "max value", most),
    ];
    for (small, large, field, small_name, large_name, shown) in orders {
        let (Some(small), Some(large), Some(shown)) = (small, large, shown) else { continue };
        if small.exceeds(large) {
            let detail = format!(
                "{small_name} {} is greater than {large_name} {}",
                small.canonical(),
                large.canonical()
            );
            invalid(out, &format!("{path}.{field}[{name}]"), &shown.canonical().into(), &detail);
        }
    }
    if let Some(ratio) = of("maxLimitRequestRatio").filter(|ratio| Quantity::count(1).exceeds(*ratio)) {
        let detail = format!("ratio {} is less than 1", ratio.canonical());
        invalid(out, &format!("{path}.maxLimitRequestRatio[{name}]"), &ratio.canonical().into(), &detail);
    }
}

/// Validates a quota.
pub(in crate::kinds) fn quota(out: &mut FieldErrors, object: &Value) {
    for (name, amount) in entries(object, "/spec/hard") {
        let field = format!("spec.hard[{name}]");
        invalid_string(out, &field, name, names::qualified(name));
        if !name.contains('/') && !is_standard(name) {
            invalid(out, &field, &name.into(), "must be a standard resource type or fully qualified");
            invalid(out, &field, &name.into(), "must be a standard resource for quota");
        }
        quantity(out, name, amount, &field);
    }
    let scopes = items(object, "/spec/scopes");
    // Counts of objects, such as `count/pods`, and extended resources are allowed with any scope.
    let beyond = |counts: &[&str]| {
        let names = entries(object, "/spec/hard").map(|(name, _)| name);
        names.filter(|it| is_standard(it) && !counts.contains(it)).count()
    };
    let (beyond_best_effort, beyond_pods) = (beyond(BEST_EFFORT), beyond(OF_PODS));
    let beyond_claims = beyond(OF_CLAIMS);
    for scope in scopes.iter().filter_map(Value::as_str) {
        let mut rest = match scope {
            "BestEffort" => beyond_best_effort,
            "Terminating"
            | "NotTerminating"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity" => beyond_pods,
            "VolumeAttributesClass" => beyond_claims,
            _ => {
                invalid(out, "spec.scopes", &object["spec"]["scopes"], "unsupported scope");
                continue;
            }
        };
        // One error for each resource, as in kube-apiserver.
        while rest > 0 && !out.is_full() {
            invalid(out, "spec.scopes", &object["spec"]["scopes"], "unsupported scope applied to resource");
            rest -= 1;
        }
        out.leave_out(rest);
    }
    let has = |scope: &str| scopes.iter().any(|it| it == scope);
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if has(one) && has(other) {
            invalid(out, "spec.scopes", &object["spec"]["scopes"], "conflicting scopes");
        }
    }
    scope_selector(out, object, &beyond);
}

/// Validates an amount in a quota.
fn quantity(out: &mut FieldErrors, name: &str, amount: &Value, field: &str) {
    let Some(amount) = Quantity::read(amount) else { return };
    if amount.is_negative() {
        invalid(out, field, &amount.canonical().into(), "must be greater than or equal to 0");
    }
    if is_whole(name) && !amount.is_whole() {
        invalid(out, field, &amount.canonical().into(), "must be an integer");
    }
}

/// Returns true for resources that are counted: those of objects, and extended ones.
fn is_whole(name: &str) -> bool {
    WHOLE.contains(&name)
        || (name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests."))
}

/// Validates the scopes that a quota selects. `beyond` returns the number of its resources that are
/// not among those of a scope.
fn scope_selector(out: &mut FieldErrors, object: &Value, beyond: &dyn Fn(&[&str]) -> usize) {
    const EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                          ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                          ResourceQuotaScopeCrossNamespacePodAffinity";
    let path = "spec.scopeSelector.matchExpressions";
    let expressions = items(object, "/spec/scopeSelector/matchExpressions");
    let shown = |it: &Value| {
        let part = |key: &str| Value::from(text(it, &format!("/{key}")));
        let values = at(it, "/values").cloned().unwrap_or_default();
        format!(
            "{{\"ScopeName\":{},\"Operator\":{},\"Values\":{values}}}",
            part("scopeName"),
            part("operator")
        )
    };
    for expression in expressions {
        let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
        let rest = match scope {
            "BestEffort" => beyond(BEST_EFFORT),
            "VolumeAttributesClass" => beyond(OF_CLAIMS),
            "Terminating"
            | "NotTerminating"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity" => beyond(OF_PODS),
            _ => {
                invalid(out, &format!("{path}.scopeName"), &scope.into(), "unsupported scope");
                // An unknown scope is valid for all resources (k8s.io/kubernetes v1.36.4
                // pkg/apis/core/helper/helpers.go, IsResourceQuotaScopeValidForResource).
                0
            }
        };
        for _ in 0..rest.min(MAX_SCOPE_ERRORS) {
            let all: Vec<_> = expressions.iter().take(MAX_SCOPE_ERRORS).map(shown).collect();
            let value = format!("{{\"MatchExpressions\":[{}]}}", all.join(","));
            let detail = "unsupported scope applied to resource";
            out.push_with(|| FieldError::with_value(path, FieldErrorKind::Invalid, value, detail));
        }
        if only_exists(scope) && operator != "Exists" {
            invalid(out, &format!("{path}.operator"), &operator.into(), EXISTS);
        }
        let values = items(expression, "/values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                required(out, &format!("{path}.values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                invalid(out, &format!("{path}.values"), &expression["values"], detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                invalid(out, &format!("{path}.operator"), &other.into(), "not a valid selector operator")
            }
        }
    }
    let has = |scope: &str| expressions.iter().any(|it| text(it, "/scopeName") == scope);
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if has(one) && has(other) {
            let scopes = at(object, "/spec/scopes").cloned().unwrap_or_default();
            invalid(out, path, &scopes, "conflicting scopes");
        }
    }
}

/// Returns true for the scopes that have no values to select.
fn only_exists(scope: &str) -> bool {
    matches!(
        scope,
        "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
    )
}

/// Validates the status of a quota.
pub(in crate::kinds) fn quota_status(out: &mut FieldErrors, object: &Value) {
    for part in ["hard", "used"] {
        for (name, amount) in entries(object, &format!("/status/{part}")) {
            let field = format!("status.{part}[{name}]");
            invalid_string(out, &field, name, names::qualified(name));
            if !name.contains('/') && !is_standard(name) {
                invalid(out, &field, &name.into(), "must be a standard resource type or fully qualified");
                invalid(out, &field, &name.into(), "must be a standard resource for quota");
            }
            quantity(out, name, amount, &field);
        }
    }
}

/// Returns true for the resources that quotas know by name.
fn is_standard(name: &str) -> bool {
    let is_of_huge_pages = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    STANDARD_RESOURCES.contains(&name) || is_of_huge_pages
}

/// Validates the new state of a quota: its scopes are immutable.
pub(in crate::kinds) fn quota_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    quota(out, new);
    immutable(out, new, old, "/spec/scopes", "spec.scopes");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_must_be_ordered_from_the_minimum_to_the_maximum() {
        let found = |limit: Value| {
            let mut out = FieldErrors::new();
            range(&mut out, &json!({"spec": {"limits": [limit]}}));
            out.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found(json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}})).is_empty());
        assert_eq!(
            found(json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}})),
            ["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"]
        );
        assert_eq!(
            found(json!({"type": "Pod", "default": {"cpu": "1"}})),
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"]
        );
    }

    #[test]
    fn a_quota_limits_known_resources_and_a_scope_only_those_of_pods() {
        let mut out = FieldErrors::new();
        let spec = json!({"hard": {"pods": "1", "requests.cpu": "-1", "foo": "1", "count/x.y": "2"}, "scopes": ["BestEffort"]});
        quota(&mut out, &json!({ "spec": spec }));
        let fields: Vec<&str> = out.iter().map(|it| it.field.as_str()).collect();
        let counted = |field: &str| fields.iter().filter(|it| **it == field).count();
        assert_eq!(
            (counted("spec.hard[foo]"), counted("spec.hard[requests.cpu]"), counted("spec.scopes")),
            (2, 1, 1),
            "{fields:?}"
        );
        let scoped = |hard: Value, scope: &str| {
            let mut out = FieldErrors::new();
            quota(&mut out, &json!({ "spec": { "hard": hard, "scopes": [scope] } }));
            out.count()
        };
        let counted = json!({ "count/pods": "1", "requests.nvidia.com/gpu": "1" });
        assert_eq!(scoped(counted, "NotTerminating"), 0);
        let claims = json!({ "persistentvolumeclaims": "1", "requests.storage": "1Gi" });
        assert_eq!((scoped(claims.clone(), "VolumeAttributesClass"), scoped(claims, "Terminating")), (0, 2));
        assert_eq!(
            (
                scoped(json!({ "pods": "1500m" }), "BestEffort"),
                scoped(json!({ "a.b/c": "1m" }), "BestEffort")
            ),
            (1, 1)
        );
    }

    #[test]
    fn a_selected_scope_has_the_operator_and_the_values_that_it_needs() {
        let found = |scope: &str, operator: &str, values: &[&str]| {
            let mut out = FieldErrors::new();
            let selector = json!({ "matchExpressions": [{ "scopeName": scope, "operator": operator, "values": values }] });
            quota(&mut out, &json!({ "spec": { "hard": { "pods": "1" }, "scopeSelector": selector } }));
            out.iter()
                .map(|it| it.field.trim_start_matches("spec.scopeSelector.matchExpressions").to_owned())
                .collect::<Vec<_>>()
        };
        assert!(
            found("PriorityClass", "In", &["a"]).is_empty() && found("BestEffort", "Exists", &[]).is_empty()
        );
        assert_eq!(found("PriorityClass", "In", &[]), [".values"]);
        assert_eq!(found("PriorityClass", "Exists", &["a"]), [".values"]);
        assert_eq!(found("BestEffort", "In", &["a"]), [".operator"]);
        assert_eq!(found("PriorityClass", "Equals", &[]), [".operator"]);
        assert_eq!(found("Other", "Exists", &[]), [".scopeName"]);
    }
}
