//! The scopes of a quota, which select the objects of a kind that it counts.

use std::cell::OnceCell;

use serde_json::Value;

use super::usage::CountedKind;
use crate::kinds::core::pod::qos_class;
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::rules::Accounting;

/// Returns true if an object is in all scopes of a quota. Kinds without scopes are in none.
pub(super) fn covers(quota: &Value, kind: CountedKind<'_>, object: &Value) -> bool {
    let pod = PodScopes { pod: object, is_best_effort: OnceCell::new(), crosses_namespaces: OnceCell::new() };
    let inside = |scope: &str, operator: &str, values: &[Value]| match kind.accounting {
        Accounting::Pod => pod.are_in(scope, operator, values),
        Accounting::Claim => claim_is_in(object, scope, operator, values),
        _ => false,
    };
    let plain = items(quota, "/spec/scopes").iter().filter_map(Value::as_str);
    let chosen = items(quota, "/spec/scopeSelector/matchExpressions");
    plain.into_iter().all(|it| inside(it, "Exists", &[]))
        && chosen.iter().all(|it| inside(text(it, "/scopeName"), text(it, "/operator"), items(it, "/values")))
}

/// The scopes of a pod. Those that depend on all of its containers are computed once, because a
/// quota can name a scope any number of times.
struct PodScopes<'a> {
    pod: &'a Value,
    is_best_effort: OnceCell<bool>,
    crosses_namespaces: OnceCell<bool>,
}

impl PodScopes<'_> {
    fn are_in(&self, scope: &str, operator: &str, values: &[Value]) -> bool {
        let pod = self.pod;
        let is_best_effort = || *self.is_best_effort.get_or_init(|| qos_class(pod) == "BestEffort");
        match scope {
            "Terminating" => is_terminating(pod),
            "NotTerminating" => !is_terminating(pod),
            "BestEffort" => is_best_effort(),
            "NotBestEffort" => !is_best_effort(),
            "PriorityClass" => {
                let class = text(pod, "/spec/priorityClassName");
                selects(operator, values, Some(class).filter(|it| !it.is_empty()))
            }
            "CrossNamespacePodAffinity" => {
                *self.crosses_namespaces.get_or_init(|| has_cross_namespace_affinity(pod))
            }
            _ => false,
        }
    }
}

fn claim_is_in(claim: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    if scope != "VolumeAttributesClass" {
        return false;
    }
    let names = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let named: Vec<_> = names.iter().map(|it| text(claim, it)).filter(|it| !it.is_empty()).collect();
    match named.as_slice() {
        [] => selects(operator, values, None),
        some => some.iter().any(|it| selects(operator, values, Some(it))),
    }
}

/// Returns true if a pod has an active deadline.
pub(super) fn is_terminating(pod: &Value) -> bool {
    number(pod, "/spec/activeDeadlineSeconds").is_some_and(|it| it >= 0)
}

fn selects(operator: &str, values: &[Value], value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| values.iter().any(|it| it == value));
    match operator {
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "In" => listed(),
        "NotIn" => !listed(),
        _ => false,
    }
}

/// Returns true if an affinity term of a pod selects pods of other namespaces.
fn has_cross_namespace_affinity(pod: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let list = |kind: &str| {
            items(pod, &format!("/spec/affinity/{side}/{kind}DuringSchedulingIgnoredDuringExecution"))
        };
        let required = list("required").iter();
        let preferred = list("preferred").iter().filter_map(|it| it.get("podAffinityTerm"));
        required
            .chain(preferred)
            .any(|term| !items(term, "/namespaces").is_empty() || at(term, "/namespaceSelector").is_some())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_select_pods() {
        let busy = json!({ "spec": { "activeDeadlineSeconds": 5, "priorityClassName": "high",
            "containers": [{ "resources": { "requests": { "cpu": 1 } } }],
            "affinity": { "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "podAffinityTerm": { "namespaces": ["x"] } }] } } } });
        let idle = json!({ "spec": { "containers": [{}] } });
        let chosen = |operator: &str| {
            json!({ "scopeSelector": { "matchExpressions": [
            { "scopeName": "PriorityClass", "operator": operator, "values": ["high"] }] } })
        };
        for (spec, of_busy, of_idle) in [
            (json!({}), true, true),
            (json!({ "scopes": ["Terminating"] }), true, false),
            (json!({ "scopes": ["NotTerminating"] }), false, true),
            (json!({ "scopes": ["BestEffort"] }), false, true),
            (json!({ "scopes": ["NotBestEffort", "Terminating"] }), true, false),
            (json!({ "scopes": ["PriorityClass"] }), true, false),
            (json!({ "scopes": ["CrossNamespacePodAffinity"] }), true, false),
            (chosen("In"), true, false),
            (chosen("NotIn"), false, true),
            (chosen("DoesNotExist"), false, true),
        ] {
            let (quota, pods) = (json!({ "spec": spec }), CountedKind::of("", "pods"));
            assert_eq!(
                (covers(&quota, pods, &busy), covers(&quota, pods, &idle)),
                (of_busy, of_idle),
                "{quota}"
            );
        }
        let scoped = json!({ "spec": { "scopes": ["Terminating"] } });
        assert!(!covers(&scoped, CountedKind::of("", "secrets"), &json!({})));
    }
}
