//! Roles and ClusterRoles.

use serde_json::Value;

use crate::kinds::cells;
use crate::kinds::json_access::{at, items, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, NameRule};
use crate::kinds::validate::check::{FieldErrors, invalid, required};
use crate::kinds::validate::selector;

/// The rules of the kind Role.
pub static ROLE: KindRules = KindRules {
    group: "rbac.authorization.k8s.io",
    kind: "Role",
    plural: "roles",
    traits: KindTraits { allow_create_on_update: true, name: NameRule::PathSegment, ..KindTraits::COMMON },
    validate_create: |out, object| role(out, object, true),
    cells: |object, _| vec![cells::name(object), text(object, "/metadata/creationTimestamp").into()],
    ..COMMON
};

/// The rules of the kind ClusterRole.
pub static CLUSTER_ROLE: KindRules = KindRules {
    group: "rbac.authorization.k8s.io",
    kind: "ClusterRole",
    plural: "clusterroles",
    traits: KindTraits { allow_create_on_update: true, name: NameRule::PathSegment, ..KindTraits::COMMON },
    validate_create: |out, object| role(out, object, false),
    cells: |object, _| vec![cells::name(object), text(object, "/metadata/creationTimestamp").into()],
    ..COMMON
};

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
