//! Match conditions, which exclude requests from a policy or a webhook.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/webhook/matchconditions/matcher.go.

use serde_json::Value as Json;

use crate::cel::Value;
use crate::kinds::json_access::{items, text};

use super::evaluation::{MATCH_BUDGET, PolicyInput, Scope};
use super::expression::{Compiler, Declared, Expression, Returns, Variable};

/// The compiled match conditions of a webhook or a policy.
#[derive(Debug, Default)]
pub struct MatchConditions {
    conditions: Vec<Expression>,
    ignores_errors: bool,
}

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook.
    pub fn of_webhook(webhook: &Json) -> Self {
        let declared = Declared { params: false, authorizer: true, patches: false };
        let ignores_errors = text(webhook, "/failurePolicy") == "Ignore";
        Self::compile(items(webhook, "/matchConditions"), &Compiler::stateless(), declared, ignores_errors)
    }

    pub(super) fn compile(
        conditions: &[Json],
        compiler: &Compiler,
        declared: Declared,
        ignores_errors: bool,
    ) -> Self {
        let compile = |it| compiler.compile(text(it, "/expression"), Returns::Bool, declared);
        Self { conditions: conditions.iter().map(compile).collect(), ignores_errors }
    }

    /// Returns true if there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns true if a request matches: no condition is false, and none fails.
    ///
    /// # Errors
    /// The failures, unless a condition is false or the failure policy ignores them.
    pub fn matches(&self, input: &PolicyInput<'_>) -> Result<bool, String> {
        self.matches_with(input, &[])
    }

    pub(super) fn matches_with(
        &self,
        input: &PolicyInput<'_>,
        variables: &[Variable],
    ) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let failed = |error: String| if self.ignores_errors { Ok(false) } else { Err(error) };
        // Conditions never see the namespace, as in kube-apiserver.
        let input = PolicyInput { namespace: None, ..*input };
        let scope = Scope::new(&input, variables);
        let results = match scope.evaluate_all(self.conditions.iter().map(Some), MATCH_BUDGET) {
            Ok((results, _)) => results,
            Err(error) => return failed(error),
        };
        let mut errors = Vec::new();
        for result in results.into_iter().flatten() {
            match result {
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        match aggregate(errors) {
            None => Ok(true),
            Some(error) => failed(error),
        }
    }
}

/// Returns the message of several errors (`NewAggregate` of k8s.io/apimachinery v0.36.4
/// pkg/util/errors).
fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut unique: Vec<String> = Vec::new();
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    match unique.len() {
        0 => None,
        1 => unique.pop(),
        _ => Some(format!("[{}]", unique.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evaluation::tests::AllowAll;
    use super::*;

    fn matches(policy: &str, conditions: &[&str]) -> Result<bool, String> {
        let conditions: Vec<Json> =
            conditions.iter().map(|it| json!({ "name": "a", "expression": it })).collect();
        let webhook = json!({ "failurePolicy": policy, "matchConditions": conditions });
        let (object, request) = (json!({ "a": 1 }), json!({ "operation": "CREATE" }));
        MatchConditions::of_webhook(&webhook).matches(&PolicyInput {
            object: Some(&object),
            old_object: None,
            params: None,
            request: &request,
            namespace: None,
            authorizer: &AllowAll,
        })
    }

    #[test]
    fn a_false_condition_decides_over_failures() {
        assert_eq!(matches("Fail", &[]), Ok(true));
        assert_eq!(matches("Fail", &["object.a == 1", "request.operation == 'CREATE'"]), Ok(true));
        assert_eq!(matches("Fail", &["object.b == 1", "false"]), Ok(false));
        assert_eq!(matches("Ignore", &["object.b == 1"]), Ok(false));
        assert_eq!(
            matches("Fail", &["object.b == 1", "object.b == 1", "object.c == 1"]),
            Err("[expression 'object.b == 1' resulted in error: no such key: b, \
                 expression 'object.c == 1' resulted in error: no such key: c]"
                .to_owned())
        );
    }

    #[test]
    fn conditions_have_a_budget_of_their_own() {
        let list = "[1,2,3,4,5,6,7,8,9,10]";
        let costly =
            format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, a + b > 0)))))");
        let error = matches("Fail", &[&costly, &costly, &costly, &costly]).unwrap_err();
        assert!(error.starts_with("validation failed due to running out of cost budget"), "{error}");
        assert_eq!(matches("Ignore", &[&costly, &costly, &costly, &costly]), Ok(false));
    }
}
