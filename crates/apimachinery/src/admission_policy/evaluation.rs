//! The evaluation of the expressions of a policy for one request, within a budget.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/cel/{activation,condition,composition}.go.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use serde_json::Value as Json;

use crate::cel::{Activation, Authorize, EvaluationError, LazyVariables, Value};
use crate::kinds::json_access::text;

use super::expression::{Expression, Variable};

/// The cost that the expressions of one filter may have together: `RuntimeCELCostBudget` of
/// k8s.io/apiserver v0.36.4 pkg/apis/cel/config.go.
pub(super) const BUDGET: u64 = 10_000_000;

/// The cost that match conditions may have together: `RuntimeCELCostBudgetMatchConditions` of the
/// same file.
pub(super) const MATCH_BUDGET: u64 = 2_500_000;

/// The failure of all expressions when the budget is spent.
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The nesting of the expressions that are evaluated within one another, because a variable reads
/// another one. It is limited because the evaluation is recursive. kube-apiserver has no limit.
const MAX_DEPTH: usize = 400;

/// The values that the expressions of a policy read.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
    /// The object of the request in the version of the policy; `None` for a deletion.
    pub object: Option<&'a Json>,
    /// The object before the request.
    pub old_object: Option<&'a Json>,
    /// The parameter of the binding.
    pub params: Option<&'a Json>,
    /// The attributes of the request, as admission reviews have them.
    pub request: &'a Json,
    /// The namespace of the object.
    pub namespace: Option<&'a Json>,
    /// Answers questions about permissions.
    pub authorizer: &'a dyn Authorize,
}

/// The results of expressions: `None` where there is no expression.
pub(super) type Results<'a> = Vec<Option<Result<Value<'a>, String>>>;

/// The variables of one evaluation. A variable is evaluated when it is first read.
pub(super) struct Scope<'p, 'a> {
    activation: Activation<'a>,
    variables: &'p [Variable],
    known: RefCell<HashMap<&'p str, Result<Value<'a>, EvaluationError>>>,
    /// The cost of variables since it was last taken.
    cost: Cell<u64>,
    depth: Cell<usize>,
}

impl<'p, 'a> Scope<'p, 'a> {
    /// Returns the scope of expressions that may ask the authorizer.
    pub(super) fn new(input: &PolicyInput<'a>, variables: &'p [Variable]) -> Self {
        let request = |field: &str| text(input.request, field);
        let resource = (request("/requestResource/group"), request("/requestResource/resource"));
        let activation = activation(input).with_authorizer(
            input.authorizer,
            resource,
            request("/requestSubResource"),
            (request("/namespace"), request("/name")),
        );
        Self::of(activation, variables)
    }

    /// Returns the scope of expressions that may not ask the authorizer.
    pub(super) fn without_authorizer(input: &PolicyInput<'a>, variables: &'p [Variable]) -> Self {
        Self::of(activation(input), variables)
    }

    fn of(activation: Activation<'a>, variables: &'p [Variable]) -> Self {
        Self { activation, variables, known: RefCell::default(), cost: Cell::new(0), depth: Cell::new(0) }
    }

    /// Evaluates expressions one after the other. Returns their results and what is left of the
    /// budget.
    ///
    /// # Errors
    /// The failure of all of them if the budget is spent.
    pub(super) fn evaluate_all<'e>(
        &self,
        expressions: impl IntoIterator<Item = Option<&'e Expression>>,
        mut budget: u64,
    ) -> Result<(Results<'a>, u64), String> {
        let mut results = Results::new();
        for expression in expressions {
            results.push(match expression {
                Some(expression) => Some(self.evaluate(expression, &mut budget)?),
                None => None,
            });
        }
        Ok((results, budget))
    }

    /// Evaluates an expression and subtracts its cost from a budget.
    ///
    /// # Errors
    /// The outer error if the budget is spent.
    pub(super) fn evaluate(
        &self,
        expression: &Expression,
        budget: &mut u64,
    ) -> Result<Result<Value<'a>, String>, String> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(problem) => return Ok(Err(format!("compilation error: {problem}"))),
        };
        self.depth.set(program.depth());
        let evaluated = program.evaluate_with(&self.activation, self);
        let cost = evaluated.cost.saturating_add(self.cost.take());
        *budget = budget.checked_sub(cost).ok_or_else(|| OUT_OF_BUDGET.to_owned())?;
        Ok(evaluated
            .outcome
            .map_err(|error| format!("expression '{}' resulted in error: {error}", expression.source)))
    }

    fn evaluate_variable(&self, variable: &'p Variable) -> Result<Value<'a>, EvaluationError> {
        let (name, expression) = (&variable.name, &variable.expression);
        let program = match &expression.program {
            Ok(program) => program,
            Err(problem) => {
                let message = format!("composited variable {name:?} fails to compile: {problem}");
                return Err(EvaluationError::failed(message));
            }
        };
        let outer = self.depth.get();
        let depth = outer.saturating_add(program.depth());
        if depth > MAX_DEPTH {
            let message = format!(
                "composited variable {name:?} is nested too deeply: the expressions that read one another may have a \
                 depth of {MAX_DEPTH} together"
            );
            return Err(EvaluationError::failed(message));
        }
        self.depth.set(depth);
        let evaluated = program.evaluate_with(&self.activation, self);
        self.depth.set(outer);
        self.cost.set(self.cost.get().saturating_add(evaluated.cost));
        evaluated.outcome.map_err(|error| {
            let message = format!("composited variable {name:?} fails to evaluate: {error}");
            EvaluationError { message, ..error }
        })
    }
}

impl<'a> LazyVariables<'a> for Scope<'_, 'a> {
    fn get(&self, name: &str) -> Option<Result<Value<'a>, EvaluationError>> {
        // Of variables with the same name, the last one counts.
        let variable = self.variables.iter().rev().find(|it| it.name == name)?;
        if let Some(known) = self.known.borrow().get(name) {
            return Some(known.clone());
        }
        let value = self.evaluate_variable(variable);
        self.known.borrow_mut().insert(&variable.name, value.clone());
        Some(value)
    }
}

fn activation<'a>(input: &PolicyInput<'a>) -> Activation<'a> {
    let value = |json: Option<&'a Json>| json.map_or(Value::Null, Value::of_json);
    Activation::new()
        .with("object", value(input.object))
        .with("oldObject", value(input.old_object))
        .with("params", value(input.params))
        .with("request", Value::of_json(input.request))
        .with("namespaceObject", value(input.namespace))
        .with("variables", Value::Lazy)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::expression::{Compiler, Declared, Returns};
    use super::*;
    use crate::cel::{AccessDecision, AccessQuestion, AccessSubject};

    /// Allows everything.
    #[derive(Debug)]
    pub(in crate::admission_policy) struct AllowAll;

    impl Authorize for AllowAll {
        fn decide(&self, _: &AccessSubject, _: &AccessQuestion, _: &str) -> AccessDecision {
            AccessDecision { allowed: true, ..AccessDecision::default() }
        }
    }

    const ALL: Declared = Declared { params: true, authorizer: true, patches: false };

    fn run(variables: &[(&str, &str)], source: &str, budget: &mut u64) -> String {
        let mut compiler = Compiler::composing();
        for (name, source) in variables {
            compiler.add_variable(name, source, ALL);
        }
        let expression = compiler.compile(source, Returns::Anything, ALL);
        let variables = compiler.into_variables();
        let request = json!({});
        let object = json!({ "list": [1, 2, 3] });
        let input = PolicyInput {
            object: Some(&object),
            old_object: None,
            params: None,
            request: &request,
            namespace: None,
            authorizer: &AllowAll,
        };
        let scope = Scope::new(&input, &variables);
        match scope.evaluate(&expression, budget) {
            Ok(Ok(value)) => value.to_json().unwrap().to_string(),
            Ok(Err(error)) | Err(error) => error,
        }
    }

    #[test]
    fn a_variable_is_evaluated_once_and_only_if_it_is_read() {
        let mut budget = 1_000;
        let variables =
            [("all", "object.list.map(i, i * 2)"), ("sum", "variables.all.sum()"), ("bad", "1 / 0")];
        assert_eq!(run(&variables, "variables.sum", &mut budget), "12");
        let once = 1_000 - budget;
        let mut budget = 1_000;
        assert_eq!(run(&variables, "variables.sum + variables.sum", &mut budget), "24");
        assert!(1_000 - budget < once * 2, "{budget} {once}");
        let failed = run(&variables, "variables.bad", &mut budget);
        assert_eq!(
            failed,
            "expression 'variables.bad' resulted in error: composited variable \"bad\" fails to evaluate: division by zero"
        );
        assert_eq!(run(&variables, "true || variables.bad == 1", &mut budget), "true");
        assert_eq!(run(&variables, "has(variables.sum)", &mut budget), "true");
    }

    #[test]
    fn the_cost_of_variables_counts() {
        let mut budget = 5;
        assert_eq!(run(&[("a", "object.list.map(i, i)")], "variables.a", &mut budget), OUT_OF_BUDGET);
    }

    #[test]
    fn chains_and_cycles_of_variables_end() {
        let names: Vec<String> = (0..500).map(|it| format!("v{it}")).collect();
        let sources: Vec<String> = (0..500)
            .map(|it| if it == 0 { "1".to_owned() } else { format!("variables.v{} + 1", it - 1) })
            .collect();
        let variables: Vec<(&str, &str)> =
            names.iter().zip(&sources).map(|(name, source)| (name.as_str(), source.as_str())).collect();
        let mut budget = BUDGET;
        assert_eq!(run(&variables, "variables.v50", &mut budget), "51");
        assert!(run(&variables, "variables.v499", &mut budget).contains("is nested too deeply"));
        let cycle = [("a", "1"), ("a", "variables.a + 1")];
        assert!(run(&cycle, "variables.a", &mut budget).contains("is nested too deeply"));
    }
}
