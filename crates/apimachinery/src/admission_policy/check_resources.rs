//! The validation of the requests that a policy or a binding selects: rules and selectors.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{at, items, text};
use crate::kinds::validate::check::{duplicate, invalid, invalid_string, required, unsupported};
use crate::kinds::validate::selector;
use crate::{FieldErrors, names};

/// Validates `matchConstraints` or `matchResources`.
pub(super) fn match_resources(out: &mut FieldErrors, resources: &Value, path: &str) {
    one_of(out, resources, "/matchPolicy", &format!("{path}.matchPolicy"), &["Equivalent", "Exact"]);
    for name in ["namespaceSelector", "objectSelector"] {
        let path = format!("{path}.{name}");
        match at(resources, &format!("/{name}")) {
            None => required(out, &path, ""),
            Some(value) => selector::check(out, value, &path),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(resources, &format!("/{name}")).iter().enumerate() {
            named_rule(out, rule, &format!("{path}.{name}[{index}]"));
        }
    }
}

/// Validates a required field that has one of some values.
pub(super) fn one_of(out: &mut FieldErrors, object: &Value, pointer: &str, path: &str, known: &[&str]) {
    match at(object, pointer) {
        None => required(out, path, ""),
        Some(value) if known.iter().any(|it| value == it) => {}
        Some(value) => unsupported(out, path, value, known),
    }
}

/// Validates that rules select no deletions, which have no object to change.
pub(super) fn mutable_operations(out: &mut FieldErrors, resources: &Value, path: &str) {
    let known = ["*", "CONNECT", "CREATE", "UPDATE"];
    for rule in items(resources, "/resourceRules") {
        for operation in items(rule, "/operations") {
            if !known.iter().any(|it| operation == it) {
                unsupported(out, &format!("{path}.resourceRules.operations"), operation, &known);
            }
        }
    }
}

fn named_rule(out: &mut FieldErrors, rule: &Value, path: &str) {
    let mut names_before = HashSet::new();
    for (index, name) in items(rule, "/resourceNames").iter().enumerate() {
        let path = format!("{path}.resourceNames[{index}]");
        let name = name.as_str().unwrap_or_default();
        invalid_string(out, &path, name, names::path_segment(name));
        if !names_before.insert(name) {
            duplicate(out, &path, &name.into());
        }
    }
    rule_with_operations(out, rule, path);
}

/// Validates a rule of a policy or a webhook.
pub(super) fn rule_with_operations(out: &mut FieldErrors, rule: &Value, path: &str) {
    operations(out, rule, path);
    wildcard(out, rule, "apiGroups", path, "if '*' is present, must not specify other API groups");
    wildcard(out, rule, "apiVersions", path, "if '*' is present, must not specify other API versions");
    for (index, version) in items(rule, "/apiVersions").iter().enumerate() {
        if version == "" {
            required(out, &format!("{path}.apiVersions[{index}]"), "");
        }
    }
    resources(out, rule, &format!("{path}.resources"));
    let scope = text(rule, "/scope");
    if !scope.is_empty() && !["*", "Cluster", "Namespaced"].contains(&scope) {
        unsupported(out, &format!("{path}.scope"), &scope.into(), &["*", "Cluster", "Namespaced"]);
    }
}

fn operations(out: &mut FieldErrors, rule: &Value, path: &str) {
    wildcard(out, rule, "operations", path, "if '*' is present, must not specify other operations");
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (index, operation) in items(rule, "/operations").iter().enumerate() {
        if !known.iter().any(|it| operation == it) {
            unsupported(out, &format!("{path}.operations[{index}]"), operation, &known);
        }
    }
}

/// Validates a list that has items, of which `*` must be the only one.
fn wildcard(out: &mut FieldErrors, rule: &Value, name: &str, path: &str, detail: &str) {
    let list = items(rule, &format!("/{name}"));
    let path = format!("{path}.{name}");
    if list.is_empty() {
        required(out, &path, "");
    } else if list.len() > 1 && list.iter().any(|it| it == "*") {
        invalid(out, &path, &list.to_vec().into(), detail);
    }
}

fn resources(out: &mut FieldErrors, rule: &Value, path: &str) {
    let list = items(rule, "/resources");
    if list.is_empty() {
        required(out, path, "");
    }
    let (mut all_parts, mut of_all) = (HashSet::new(), HashSet::new());
    let (mut has_single, mut has_plain) = (false, false);
    for (index, resource) in list.iter().enumerate() {
        let resource = resource.as_str().unwrap_or_default();
        let path = format!("{path}[{index}]");
        if resource.is_empty() {
            required(out, &path, "");
            continue;
        }
        has_single |= resource == "*";
        let Some((plain, part)) = resource.split_once('/') else {
            has_plain = resource != "*";
            continue;
        };
        let value = Value::from(resource);
        if all_parts.contains(plain) {
            let detail = format!("if '{plain}/*' is present, must not specify {resource}");
            invalid(out, &path, &value, &detail);
        }
        if of_all.contains(part) {
            let detail = format!("if '*/{part}' is present, must not specify {resource}");
            invalid(out, &path, &value, &detail);
        }
        if part == "*" {
            all_parts.insert(plain);
        }
        if plain == "*" {
            of_all.insert(part);
        }
    }
    let shown = || Value::from(list.to_vec());
    if list.len() > 1 && list.iter().any(|it| it == "*/*") {
        invalid(out, path, &shown(), "if '*/*' is present, must not specify other resources");
    }
    if has_single && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        invalid(out, path, &shown(), detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_complete_and_without_overlaps() {
        let rule = json!({ "operations": ["*", "CREATE"], "apiGroups": ["", "*"], "apiVersions": [],
            "resources": ["pods/*", "pods/status", "*", "pods"], "resourceNames": ["a", "a", "a/b"], "scope": "All" });
        let mut out = FieldErrors::new();
        match_resources(&mut out, &json!({ "resourceRules": [rule], "matchPolicy": "Some" }), "spec");
        let found: Vec<String> = out.iter().map(ToString::to_string).collect();
        for expected in [
            "spec.matchPolicy: Unsupported value: \"Some\": supported values: \"Equivalent\", \"Exact\"",
            "spec.namespaceSelector: Required value",
            "spec.resourceRules[0].resourceNames[1]: Duplicate value: \"a\"",
            "spec.resourceRules[0].resourceNames[2]: Invalid value: \"a/b\": may not contain '/'",
            "spec.resourceRules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify \
             other operations",
            "spec.resourceRules[0].apiVersions: Required value",
            "spec.resourceRules[0].resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not \
             specify pods/status",
            "spec.resourceRules[0].scope: Unsupported value: \"All\": supported values: \"*\", \"Cluster\", \
             \"Namespaced\"",
        ] {
            assert!(found.iter().any(|it| it == expected), "{expected} is not in {found:#?}");
        }
    }
}
