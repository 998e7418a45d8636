//! The validation of the bindings of policies, and of the parameters that they refer to.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{at, items, text};
use crate::kinds::validate::check::{duplicate, forbidden, invalid, invalid_string, required, unsupported};
use crate::kinds::validate::selector;
use crate::{FieldErrors, names};

use super::check_resources::{match_resources, mutable_operations};

/// Validates the spec of a binding.
pub(super) fn binding(out: &mut FieldErrors, binding: &Value, mutates: bool) {
    let policy = text(binding, "/spec/policyName");
    if policy.is_empty() {
        required(out, "spec.policyName", "");
    } else {
        invalid_string(out, "spec.policyName", policy, names::subdomain(policy));
    }
    if let Some(reference) = at(binding, "/spec/paramRef") {
        param_ref(out, reference);
    }
    if let Some(resources) = at(binding, "/spec/matchResources") {
        match_resources(out, resources, "spec.matchResources");
        if mutates {
            mutable_operations(out, resources, "spec.matchResources");
        }
    }
    if !mutates {
        validation_actions(out, items(binding, "/spec/validationActions"));
    }
}

/// Validates the `paramKind` of a policy.
pub(super) fn param_kind(out: &mut FieldErrors, kind: &Value) {
    let (path, version) = ("spec.paramKind.apiVersion", text(kind, "/apiVersion"));
    let parts: Vec<&str> = version.split('/').collect();
    match parts.as_slice() {
        [""] => required(out, path, ""),
        [version] => group_version(out, path, "", version, version),
        ["", ""] => group_version(out, path, "", "", version),
        [group, plain] => group_version(out, path, group, plain, version),
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            invalid(out, path, &version.into(), &detail);
        }
    }
    let (path, kind) = ("spec.paramKind.kind", text(kind, "/kind"));
    let reasons = names::label_1035(&kind.to_lowercase());
    if kind.is_empty() {
        required(out, path, "");
    } else if !reasons.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", reasons.join(","));
        invalid(out, path, &kind.into(), &detail);
    }
}

fn group_version(out: &mut FieldErrors, path: &str, group: &str, version: &str, whole: &str) {
    let reasons = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
    if !reasons.is_empty() {
        invalid(out, path, &group.into(), &reasons.join(","));
    }
    let reasons = names::label_1035(version);
    if version.is_empty() {
        invalid(out, path, &whole.into(), "version must be specified");
    } else if !reasons.is_empty() {
        invalid(out, path, &version.into(), &reasons.join(","));
    }
}

fn param_ref(out: &mut FieldErrors, reference: &Value) {
    let (name, chosen) = (text(reference, "/name"), at(reference, "/selector"));
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        invalid_string(out, "spec.paramRef.name", name, names::path_segment(name));
        if chosen.is_some() {
            forbidden(out, "spec.paramRef.name", exclusive);
        }
    }
    if let Some(chosen) = chosen {
        selector::check(out, chosen, "spec.paramRef.selector");
        if !name.is_empty() {
            forbidden(out, "spec.paramRef.selector", exclusive);
        }
    }
    if name.is_empty() && chosen.is_none() {
        required(out, "spec.paramRef", "one of name or selector must be specified");
    }
    let path = "spec.paramRef.parameterNotFoundAction";
    match text(reference, "/parameterNotFoundAction") {
        "" => required(out, path, ""),
        "Deny" | "Allow" => {}
        other => unsupported(out, path, &other.into(), &["Deny", "Allow"]),
    }
}

fn validation_actions(out: &mut FieldErrors, actions: &[Value]) {
    let path = "spec.validationActions";
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = action.as_str().unwrap_or_default();
        if !["Deny", "Warn", "Audit"].contains(&name) {
            unsupported(out, &path, action, &["Audit", "Deny", "Warn"]);
        }
        if !seen.insert(name) {
            duplicate(out, &path, action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in \
                      the API response and headers serves no purpose)";
        invalid(out, path, &actions.to_vec().into(), detail);
    }
    if seen.is_empty() {
        required(out, path, "at least one validation action is required");
    }
}
