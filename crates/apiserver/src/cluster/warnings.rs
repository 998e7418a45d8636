//! Warnings for the writer of an object: those of kube-apiserver, and those about objects that are
//! stored and have no effect here, because this server does not enforce admission policies.
//!
//! Of the second sort is the response to a write that would make kube-apiserver enforce something
//! new. Without the warning, a test of a policy that denies nothing would look like a test of a
//! policy that works.

use serde_json::Value;

use super::Cluster;
use super::write::Write;
use crate::custom;
use crate::kinds::json_access::{at, items, text};
use crate::kinds::{DEFINITION, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS};
use crate::registry::Kind;

const GROUP: &str = "admissionregistration.k8s.io";

impl Write<'_> {
    /// Adds the warnings about the object itself.
    pub(super) fn warn(&mut self) {
        let old = self.base.map(|it| it.object);
        self.warnings.extend(warnings(self.cluster, self.place.kind, &self.new, old));
    }
}

/// Returns the warnings for the writer of an object; `old` is its former state, if it had one.
fn warnings(cluster: &Cluster, kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = of_kind(kind, object, old);
    if kind.rules.counterpart.is_some() {
        warnings.extend(unenforced_policy(cluster, kind, object, old));
    } else if kind.is(&VALIDATING_WEBHOOKS) || kind.is(&MUTATING_WEBHOOKS) {
        warnings.extend(unevaluated_conditions(object, old));
    }
    warnings
}

/// Warns about an admission policy that has a binding, and about a binding whose policy exists:
/// it takes both for kube-apiserver to enforce anything.
fn unenforced_policy(cluster: &Cluster, kind: &Kind, object: &Value, old: Option<&Value>) -> Option<String> {
    if old.is_some_and(|old| old["spec"] == object["spec"]) {
        return None;
    }
    let name = text(object, "/metadata/name");
    let other = kind.rules.counterpart?;
    // A binding names its policy.
    let matches = |it: &Value| match at(object, "/spec/policyName") {
        Some(policy) => it["metadata"]["name"] == *policy,
        None => text(it, "/spec/policyName") == name,
    };
    let others = cluster.catalog().kind(GROUP, &kind.def.version, other)?;
    let in_force = cluster.list(&others, None).iter().any(|it| matches(&it.to_value()));
    in_force.then(|| {
        format!(
            "{} {name:?} is stored but not enforced: this server does not evaluate admission policies",
            kind.def.kind
        )
    })
}

/// Returns the warnings that kube-apiserver has too: `WarningsOnCreate` and `WarningsOnUpdate` of
/// the strategies in k8s.io/kubernetes v1.36.4 pkg/registry.
fn of_kind(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<String> {
    if kind.is(&DEFINITION) {
        custom::check::format_warnings(object, old)
    } else if kind.custom_version().is_some() {
        crate::kinds::warnings::custom(object, old)
    } else {
        crate::kinds::warnings::builtin(kind.rules, object, old)
    }
}

/// Warns about webhooks with match conditions that their former state did not have.
fn unevaluated_conditions(configuration: &Value, old: Option<&Value>) -> Vec<String> {
    let conditions = |webhook: &Value| at(webhook, "/matchConditions").cloned().unwrap_or_default();
    let before = |webhook: &Value| {
        let webhooks = old.map(|it| items(it, "/webhooks")).unwrap_or_default();
        webhooks.iter().find(|it| it["name"] == webhook["name"]).map(conditions)
    };
    let webhooks = items(configuration, "/webhooks").iter().enumerate();
    let unevaluated = webhooks.filter(|(_, webhook)| {
        !items(webhook, "/matchConditions").is_empty() && before(webhook) != Some(conditions(webhook))
    });
    unevaluated
        .map(|(index, _)| {
            format!(
                "webhooks[{index}].matchConditions are stored but not evaluated: this server calls the webhook for every \
                 request that its rules and selectors match"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhooks_with_conditions_are_warned_about_once() {
        let configuration = json!({ "webhooks": [{ "name": "a" },
            { "name": "b", "matchConditions": [{ "name": "c", "expression": "true" }] }] });
        let warnings = unevaluated_conditions(&configuration, None);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("webhooks[1].matchConditions"),
            "{warnings:?}"
        );
        assert!(unevaluated_conditions(&configuration, Some(&configuration)).is_empty());
    }
}
