//! Validating admission policies: decisions about a request, and annotations for its audit event.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/policy/validating/validator.go.

use serde_json::Value as Json;

use crate::cel::Value;
use crate::kinds::json_access::{at, items, text};

use super::evaluation::{BUDGET, OUT_OF_BUDGET, PolicyInput, Scope};
use super::expression::{Compiler, Declared, Expression, Returns, Variable};
use super::match_conditions::MatchConditions;

/// The longest message that an expression makes, in bytes:
/// `MaxEvaluatedMessageExpressionSizeBytes` of k8s.io/apiserver v0.36.4 pkg/apis/cel/config.go.
const MAX_MESSAGE: usize = 5 * 1024;

/// A validating admission policy, compiled.
///
/// ```
/// use dogwatch_apimachinery::admission_policy::{Outcome, PolicyInput, ValidatingPolicy};
/// use dogwatch_apimachinery::cel::{AccessDecision, AccessQuestion, AccessSubject, Authorize};
/// use serde_json::json;
///
/// #[derive(Debug)]
/// struct DenyAll;
///
/// impl Authorize for DenyAll {
///     fn decide(&self, _: &AccessSubject, _: &AccessQuestion, _: &str) -> AccessDecision {
///         AccessDecision::default()
///     }
/// }
///
/// let policy = json!({ "spec": { "validations": [{ "expression": "object.replicas < 5" }] } });
/// let (object, request) = (json!({ "replicas": 7 }), json!({ "operation": "CREATE" }));
/// let verdict = ValidatingPolicy::compile(&policy).decide(&PolicyInput {
///     object: Some(&object),
///     old_object: None,
///     params: None,
///     request: &request,
///     namespace: None,
///     authorizer: &DenyAll,
/// });
/// assert_eq!(verdict.decisions[0].outcome, Outcome::Deny);
/// assert_eq!(verdict.decisions[0].message, "failed expression: object.replicas < 5");
/// ```
#[derive(Debug)]
pub struct ValidatingPolicy {
    variables: Vec<Variable>,
    conditions: MatchConditions,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
    ignores_errors: bool,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message_expression: Option<Expression>,
    message: String,
    reason: String,
}

/// The findings of a policy about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// One decision for each validation, or one for a failure of all of them. Empty if the match
    /// conditions exclude the request.
    pub decisions: Vec<Decision>,
    /// The annotations for the audit event of the request.
    pub annotations: Vec<AuditAnnotation>,
}

/// The decision of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// The message of a denial.
    pub message: String,
    /// The reason of a denial, such as `Forbidden`; empty for a failure.
    pub reason: String,
}

/// The outcome of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request is accepted, also because a failure is ignored.
    Admit,
    /// The request is denied, also because of a failure.
    Deny,
}

/// An annotation for the audit event of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAnnotation {
    /// The key, to which the name of the policy is added.
    pub key: String,
    /// The value, or a failure, which denies the request.
    pub value: Result<String, String>,
}

impl Decision {
    fn failure(ignores_errors: bool, message: String) -> Self {
        let outcome = if ignores_errors { Outcome::Admit } else { Outcome::Deny };
        Self { outcome, message, reason: String::new() }
    }
}

impl ValidatingPolicy {
    /// Compiles a policy. Expressions that do not compile fail when they are evaluated; policies
    /// with such expressions are rejected when they are written, so this is about policies that
    /// were stored otherwise.
    pub fn compile(policy: &Json) -> Self {
        let declared =
            Declared { params: at(policy, "/spec/paramKind").is_some(), authorizer: true, patches: false };
        let messages = Declared { authorizer: false, ..declared };
        let ignores_errors = text(policy, "/spec/failurePolicy") == "Ignore";
        let mut compiler = Compiler::composing();
        for variable in items(policy, "/spec/variables") {
            compiler.add_variable(text(variable, "/name"), text(variable, "/expression"), declared);
        }
        let validation = |it: &Json| {
            let message_expression = text(it, "/messageExpression");
            Validation {
                expression: compiler.compile(text(it, "/expression"), Returns::Bool, declared),
                message_expression: (!message_expression.is_empty())
                    .then(|| compiler.compile(message_expression, Returns::Text, messages)),
                message: text(it, "/message").to_owned(),
                reason: text(it, "/reason").to_owned(),
            }
        };
        let annotation = |it: &Json| {
            let value = compiler.compile(text(it, "/valueExpression"), Returns::TextOrNull, declared);
            (text(it, "/key").to_owned(), value)
        };
        let conditions = items(policy, "/spec/matchConditions");
        Self {
            conditions: MatchConditions::compile(conditions, &compiler, declared, ignores_errors),
            validations: items(policy, "/spec/validations").iter().map(validation).collect(),
            annotations: items(policy, "/spec/auditAnnotations").iter().map(annotation).collect(),
            ignores_errors,
            variables: compiler.into_variables(),
        }
    }

    /// Returns true if failures are ignored.
    pub fn ignores_errors(&self) -> bool {
        self.ignores_errors
    }

    /// Decides about a request that the rules of the policy match.
    pub fn decide(&self, input: &PolicyInput<'_>) -> Verdict {
        let failure = |message| Verdict {
            decisions: vec![Decision::failure(self.ignores_errors, message)],
            annotations: Vec::new(),
        };
        match self.conditions.matches_with(input, &self.variables) {
            Err(message) => return failure(message),
            Ok(false) => return Verdict::default(),
            Ok(true) => {}
        }
        let scope = Scope::new(input, &self.variables);
        let expressions = self.validations.iter().map(|it| Some(&it.expression));
        let (results, budget) = match scope.evaluate_all(expressions, BUDGET) {
            Ok(evaluated) => evaluated,
            Err(message) => return failure(message),
        };
        let scope = Scope::without_authorizer(input, &self.variables);
        let expressions = self.validations.iter().map(|it| it.message_expression.as_ref());
        let messages = scope.evaluate_all(expressions, budget).map(|(messages, _)| messages);
        let mut decisions = Vec::with_capacity(self.validations.len());
        for (index, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            let made = messages.as_ref().map(|it| it.get(index).and_then(Option::as_ref));
            decisions.push(match (result, made) {
                (Some(Err(message)), _) => Decision::failure(self.ignores_errors, message),
                (_, Err(_)) => {
                    let message = format!("failed messageExpression: {OUT_OF_BUDGET}");
                    Decision::failure(self.ignores_errors, message)
                }
                (Some(Ok(Value::Bool(true))), _) => {
                    Decision { outcome: Outcome::Admit, message: String::new(), reason: String::new() }
                }
                (_, Ok(made)) => validation.denial(made),
            });
        }
        match self.annotate(input) {
            Ok(annotations) => Verdict { decisions, annotations },
            Err(message) => failure(message),
        }
    }

    fn annotate(&self, input: &PolicyInput<'_>) -> Result<Vec<AuditAnnotation>, String> {
        let scope = Scope::without_authorizer(input, &self.variables);
        let expressions = self.annotations.iter().map(|(_, value)| Some(value));
        let (results, _) = scope.evaluate_all(expressions, BUDGET)?;
        let mut annotations = Vec::new();
        for ((key, _), result) in self.annotations.iter().zip(results) {
            let value = match result {
                Some(Ok(Value::String(text))) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
                Some(Err(error)) if !self.ignores_errors => Err(error),
                _ => continue,
            };
            annotations.push(AuditAnnotation { key: key.clone(), value });
        }
        Ok(annotations)
    }
}

impl Validation {
    /// Returns the denial of a request for which the expression is not true.
    fn denial(&self, made: Option<&Result<Value<'_>, String>>) -> Decision {
        let made = match made {
            Some(Ok(Value::String(text))) => text.trim(),
            _ => "",
        };
        let is_fit = made.len() <= MAX_MESSAGE && !made.contains('\n');
        let message = match (made, self.message.trim()) {
            (made, _) if is_fit && !made.is_empty() => made.to_owned(),
            (_, "") => format!("failed expression: {}", self.expression.source.trim()),
            (_, message) => message.to_owned(),
        };
        let reason = if self.reason.is_empty() { "Invalid" } else { &self.reason };
        Decision { outcome: Outcome::Deny, message, reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evaluation::tests::AllowAll;
    use super::*;

    fn decide(spec: Json) -> Verdict {
        let policy = json!({ "spec": spec });
        let (object, request) = (json!({ "a": 1, "name": "web" }), json!({ "operation": "CREATE" }));
        ValidatingPolicy::compile(&policy).decide(&PolicyInput {
            object: Some(&object),
            old_object: None,
            params: None,
            request: &request,
            namespace: None,
            authorizer: &AllowAll,
        })
    }

    fn messages(spec: Json) -> Vec<String> {
        let denied = |it: Decision| (it.outcome == Outcome::Deny).then_some(it.message);
        decide(spec).decisions.into_iter().filter_map(denied).collect()
    }

    #[test]
    fn the_message_comes_from_the_expression_or_the_text_or_the_rule() {
        let validation = |message: &str, expression: &str| {
            json!({ "validations": [{ "expression": " object.a > 1 ", "message": message,
                "messageExpression": expression }] })
        };
        for (message, expression, expected) in [
            ("", "", "failed expression: object.a > 1"),
            (" too small ", "", "too small"),
            ("too small", "object.name + ' is too small '", "web is too small"),
            ("too small", "object.b", "too small"),
            ("too small", "'a\\nb'", "too small"),
            ("", "' '", "failed expression: object.a > 1"),
        ] {
            assert_eq!(messages(validation(message, expression)), [expected], "{message} {expression}");
        }
    }

    #[test]
    fn failures_deny_unless_the_policy_ignores_them() {
        let validations =
            json!([{ "expression": "object.b > 1" }, { "expression": "false", "reason": "Forbidden" }]);
        let denied = messages(json!({ "validations": validations }));
        assert_eq!(
            denied,
            ["expression 'object.b > 1' resulted in error: no such key: b", "failed expression: false"]
        );
        let ignored = decide(json!({ "failurePolicy": "Ignore", "validations": validations }));
        let outcomes: Vec<Outcome> = ignored.decisions.iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Outcome::Admit, Outcome::Deny]);
        assert_eq!(ignored.decisions[1].reason, "Forbidden");
    }

    #[test]
    fn annotations_are_texts_and_their_failures_deny() {
        let verdict = decide(json!({ "auditAnnotations": [
            { "key": "name", "valueExpression": "' ' + object.name" },
            { "key": "none", "valueExpression": "null" },
            { "key": "bad", "valueExpression": "object.b" }] }));
        let found: Vec<_> =
            verdict.annotations.iter().map(|it| (it.key.as_str(), it.value.is_ok())).collect();
        assert_eq!(found, [("name", true), ("bad", false)]);
        assert_eq!(verdict.annotations[0].value, Ok("web".to_owned()));
    }

    #[test]
    fn conditions_exclude_requests() {
        let conditions = |expression: &str| {
            json!({ "validations": [{ "expression": "false" }], "variables": [{ "name": "a", "expression": "object.a" }],
                "matchConditions": [{ "name": "c", "expression": expression }] })
        };
        assert_eq!(decide(conditions("variables.a == 2")), Verdict::default());
        assert_eq!(messages(conditions("variables.a == 1")), ["failed expression: false"]);
        assert_eq!(
            messages(conditions("object.b")),
            ["compilation error: must evaluate to bool but got dyn"]
        );
    }
}
