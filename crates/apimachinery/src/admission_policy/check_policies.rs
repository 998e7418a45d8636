//! The validation of policies.

use serde_json::Value;

use crate::FieldErrors;
use crate::kinds::json_access::{at, items, text};
use crate::kinds::validate::check::required;

use super::check_bindings::param_kind;
use super::check_expressions::{
    audit_annotations, keeps_conditions, match_conditions, mutations, validations, variables,
};
use super::check_resources::{match_resources, mutable_operations, one_of};
use super::expression::{Compiler, Declared};

/// Validates a validating policy, given also its former state.
pub(super) fn validating(out: &mut FieldErrors, policy: &Value, old: Option<&Value>) {
    let declared = common(out, policy, old, false);
    let all = items(policy, "/spec/variables");
    let mut compiler = if all.is_empty() { Compiler::stateless() } else { Compiler::composing() };
    variables(out, &mut compiler, all, declared);
    let (rules, annotations) = (items(policy, "/spec/validations"), items(policy, "/spec/auditAnnotations"));
    if rules.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        required(out, "spec.validations", detail);
        required(out, "spec.auditAnnotations", detail);
    }
    validations(out, &compiler, rules, declared);
    audit_annotations(out, &compiler, (text(policy, "/metadata/name"), annotations), declared);
}

/// Validates a mutating policy, given also its former state.
pub(super) fn mutating(out: &mut FieldErrors, policy: &Value, old: Option<&Value>) {
    let declared = common(out, policy, old, true);
    let mut compiler = Compiler::composing();
    variables(out, &mut compiler, items(policy, "/spec/variables"), declared);
    let all = items(policy, "/spec/mutations");
    if all.is_empty() {
        required(out, "spec.mutations", "mutations must contain at least one item");
    }
    mutations(out, &compiler, all, declared);
    let known = ["IfNeeded", "Never"];
    match text(policy, "/spec/reinvocationPolicy") {
        "" => required(out, "spec.reinvocationPolicy", ""),
        _ => one_of(out, policy, "/spec/reinvocationPolicy", "spec.reinvocationPolicy", &known),
    }
}

/// Validates what both kinds of policies have. Returns the declarations of their expressions.
fn common(out: &mut FieldErrors, policy: &Value, old: Option<&Value>, mutates: bool) -> Declared {
    one_of(out, policy, "/spec/failurePolicy", "spec.failurePolicy", &["Fail", "Ignore"]);
    let kind = at(policy, "/spec/paramKind");
    if let Some(kind) = kind {
        param_kind(out, kind);
    }
    let path = "spec.matchConstraints";
    match at(policy, "/spec/matchConstraints") {
        None => required(out, path, ""),
        Some(constraints) => {
            match_resources(out, constraints, path);
            if items(constraints, "/resourceRules").is_empty() {
                required(out, &format!("{path}.resourceRules"), "");
            }
            if mutates {
                mutable_operations(out, constraints, path);
            }
        }
    }
    let declared = Declared { params: kind.is_some(), authorizer: true, patches: false };
    if !keeps_conditions(policy, old) {
        match_conditions(out, items(policy, "/spec/matchConditions"), "spec.matchConditions", declared);
    }
    declared
}
