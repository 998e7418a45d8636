//! The validation of policies, bindings and webhook configurations when they are written.
//!
//! An object whose expressions do not compile is rejected, so that nothing is stored that is not
//! enforced. The paths and messages are those of k8s.io/kubernetes v1.36.4
//! pkg/apis/admissionregistration/validation/validation.go.

use serde_json::Value;

use crate::FieldErrors;
use crate::kinds::json_access::{at, items};
use crate::kinds::validate::selector;

use super::check_bindings::binding;
use super::check_expressions::match_conditions;
use super::check_policies::{mutating, validating};
use super::check_resources::rule_with_operations;
use super::expression::Declared;

/// Returns the problems of a ValidatingAdmissionPolicy, given also its former state.
///
/// ```
/// use dogwatch_apimachinery::admission_policy::check;
/// use serde_json::json;
///
/// let policy = json!({ "metadata": { "name": "small" }, "spec": { "failurePolicy": "Fail",
///     "matchConstraints": { "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
///         "resourceRules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
///             "resources": ["configmaps"] }] },
///     "validations": [{ "expression": "object.size <" }] } });
/// let problems = check::validating_policy(&policy, None);
/// assert_eq!(problems.len(), 1);
/// assert!(problems[0].to_string().starts_with("spec.validations[0].expression: Invalid value"));
/// ```
pub fn validating_policy(policy: &Value, old: Option<&Value>) -> FieldErrors {
    collected(|out| validating(out, policy, old))
}

/// Returns the problems of a MutatingAdmissionPolicy, given also its former state.
pub fn mutating_policy(policy: &Value, old: Option<&Value>) -> FieldErrors {
    collected(|out| mutating(out, policy, old))
}

/// Returns the problems of a ValidatingAdmissionPolicyBinding.
pub fn validating_binding(new: &Value) -> FieldErrors {
    collected(|out| binding(out, new, false))
}

/// Returns the problems of a MutatingAdmissionPolicyBinding.
pub fn mutating_binding(new: &Value) -> FieldErrors {
    collected(|out| binding(out, new, true))
}

/// Returns the problems of the rules, the selectors and the match conditions of a webhook
/// configuration, given also its former state.
pub fn webhook_configuration(configuration: &Value, old: Option<&Value>) -> FieldErrors {
    let webhooks = items(configuration, "/webhooks");
    let before = old.map(|it| items(it, "/webhooks"));
    let conditions = |it: &Value| items(it, "/matchConditions").to_vec();
    let keeps_conditions = before.is_some_and(|before| {
        before.len() == webhooks.len()
            && before.iter().zip(webhooks).all(|(old, new)| conditions(old) == conditions(new))
    });
    let declared = Declared { params: false, authorizer: true, patches: false };
    collected(|out| {
        for (index, webhook) in webhooks.iter().enumerate() {
            let path = format!("webhooks[{index}]");
            for (index, rule) in items(webhook, "/rules").iter().enumerate() {
                rule_with_operations(out, rule, &format!("{path}.rules[{index}]"));
            }
            for name in ["namespaceSelector", "objectSelector"] {
                if let Some(value) = at(webhook, &format!("/{name}")) {
                    selector::check(out, value, &format!("{path}.{name}"));
                }
            }
            if !keeps_conditions {
                let path = format!("{path}.matchConditions");
                match_conditions(out, items(webhook, "/matchConditions"), &path, declared);
            }
        }
    })
}

fn collected(validate: impl FnOnce(&mut FieldErrors)) -> FieldErrors {
    let mut out = FieldErrors::new();
    validate(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn constraints() -> Value {
        json!({ "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "resourceRules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"], "scope": "*" }] })
    }

    fn shown(problems: &FieldErrors) -> Vec<String> {
        let first_line = |it: String| it.lines().next().unwrap_or_default().to_owned();
        problems.iter().map(|it| first_line(it.to_string())).collect()
    }

    #[test]
    fn each_expression_of_a_policy_is_compiled_with_what_it_may_use() {
        let policy = json!({ "metadata": { "name": "p" }, "spec": { "failurePolicy": "Fail",
            "matchConstraints": constraints(),
            "matchConditions": [{ "name": "c", "expression": "variables.a" }],
            "variables": [{ "name": "a", "expression": "params.b" }, { "name": "namespace", "expression": " " }],
            "validations": [{ "expression": "object.a", "messageExpression": "authorizer", "message": "a\nb",
                "reason": "Gone" }],
            "auditAnnotations": [{ "key": "k", "valueExpression": "1" }, { "key": "k", "valueExpression": "" }] } });
        assert_eq!(
            shown(&validating_policy(&policy, None)),
            [
                "spec.matchConditions[0].expression: Invalid value: \"variables.a\": compilation failed: ERROR: \
                 <input>:1:1: undeclared reference to 'variables' (in container '')",
                "spec.variables[0].expression: Invalid value: \"params.b\": compilation failed: ERROR: <input>:1:1: \
                 undeclared reference to 'params' (in container '')",
                "spec.variables[1].name: Invalid value: \"namespace\": must be a valid CEL identifier",
                "spec.variables[1].expression: Required value: expression is not specified",
                "spec.validations[0].expression: Invalid value: \"object.a\": must evaluate to bool but got dyn",
                "spec.validations[0].messageExpression: Invalid value: \"authorizer\": compilation failed: ERROR: \
                 <input>:1:1: undeclared reference to 'authorizer' (in container '')",
                "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
                "spec.validations[0].reason: Unsupported value: \"Gone\": supported values: \"Forbidden\", \
                 \"Invalid\", \"RequestEntityTooLarge\"",
                "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string \
                 null_type] but got int",
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                "spec.auditAnnotations[1].key: Duplicate value: \"k\"",
            ]
        );
        // Conditions that have not changed are not compiled again.
        assert!(shown(&validating_policy(&policy, Some(&policy))).len() == 10);
    }

    #[test]
    fn a_mutation_has_the_patch_of_its_type() {
        let policy = json!({ "spec": { "failurePolicy": "Fail", "matchConstraints": constraints(),
            "mutations": [
                { "patchType": "JSONPatch", "applyConfiguration": { "expression": "Object{}" } },
                { "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object.spec{}" } },
                { "patchType": "Merge" }] } });
        assert_eq!(
            shown(&mutating_policy(&policy, None)),
            [
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified \
                 when patchType is JSONPatch",
                "spec.mutations[1].applyConfiguration.expression: Invalid value: \"Object.spec{}\": must evaluate to \
                 Object but got Object.spec",
                "spec.mutations[2].patchType: Unsupported value: \"Merge\": supported values: \"ApplyConfiguration\", \
                 \"JSONPatch\"",
                "spec.reinvocationPolicy: Required value",
            ]
        );
    }

    #[test]
    fn bindings_name_a_policy_and_its_parameters() {
        let binding = json!({ "spec": { "policyName": "", "paramRef": { "name": "a", "selector": {} },
            "validationActions": ["Deny", "Warn", "Warn", "Log"] } });
        assert_eq!(
            shown(&validating_binding(&binding)),
            [
                "spec.policyName: Required value",
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Required value",
                "spec.validationActions[2]: Duplicate value: \"Warn\"",
                "spec.validationActions[3]: Unsupported value: \"Log\": supported values: \"Audit\", \"Deny\", \"Warn\"",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Warn\",\"Log\"]: must not contain both \
                 Deny and Warn (repeating the same validation failure information in the API response and headers \
                 serves no purpose)",
            ]
        );
    }

    #[test]
    fn webhooks_have_rules_and_conditions_that_can_be_evaluated() {
        let configuration = json!({ "webhooks": [{ "name": "a.b.c", "rules": [{ "operations": ["CREATE"] }],
            "matchConditions": [{ "name": "", "expression": "object" }, { "name": "x", "expression": "params" }] }] });
        assert_eq!(
            shown(&webhook_configuration(&configuration, None)),
            [
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources: Required value",
                "webhooks[0].matchConditions[0].expression: Invalid value: \"object\": must evaluate to bool but got dyn",
                "webhooks[0].matchConditions[0].name: Required value",
                "webhooks[0].matchConditions[1].expression: Invalid value: \"params\": compilation failed: ERROR: \
                 <input>:1:1: undeclared reference to 'params' (in container '')",
            ]
        );
    }
}
