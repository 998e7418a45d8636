//! Compiled expressions, and the variables that they read.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::meta::Regex;

use super::ast::{Expr, ExprKind};
use super::authorization::{Authorization, Authorize, ResourceQuestion};
use super::checker::{Checked, Declarations, check, type_of_declared};
use super::cost;
use super::declared::DeclaredType;
use super::error::{CompileError, EvaluationError, Issue};
use super::format_checks;
use super::functions::{authorizer_type, resource_check_type};
use super::interpreter::{Interpreter, LazyVariables};
use super::meter::{Meter, PER_CALL_LIMIT};
use super::moments;
use super::parser::parse;
use super::regexes;
use super::types::Type;
use super::value::Value;

/// The variable with the question about the resource of the request.
const REQUEST_RESOURCE: &str = "authorizer.requestResource";
/// The memory of a node with its type and its overloads, in bytes.
const BYTES_PER_NODE: usize = 200;

/// The variables that expressions can use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: HashMap<Arc<str>, Type>,
    has_patch_types: bool,
    mixed_literals: bool,
}

impl Environment {
    /// Creates an environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable of a declared type.
    #[must_use]
    pub fn variable(mut self, name: &str, declared: &Arc<DeclaredType>) -> Self {
        self.variables.insert(name.into(), type_of_declared(declared));
        self
    }

    /// Adds a variable with a value that may be absent.
    #[must_use]
    pub fn optional_variable(mut self, name: &str, declared: &Arc<DeclaredType>) -> Self {
        self.variables.insert(name.into(), type_of_declared(declared).optional());
        self
    }

    /// Adds a variable whose type is only known at run time.
    #[must_use]
    pub fn dynamic_variable(mut self, name: &str) -> Self {
        self.variables.insert(name.into(), Type::Dyn);
        self
    }

    /// Adds a variable of a type.
    #[must_use]
    pub fn typed_variable(mut self, name: &str, of: Type) -> Self {
        self.variables.insert(name.into(), of);
        self
    }

    /// Adds the variables `authorizer` and `authorizer.requestResource`.
    #[must_use]
    pub fn authorizer(self) -> Self {
        self.typed_variable("authorizer", authorizer_type())
            .typed_variable(REQUEST_RESOURCE, resource_check_type())
    }

    /// Adds the types `Object` and `JSONPatch`, of which patches are made, and
    /// `jsonpatch.escapeKey`.
    #[must_use]
    pub fn patch_types(self) -> Self {
        Self { has_patch_types: true, ..self }
    }

    /// Allows items of different types in a literal: `{"a": 1, "b": "x"}`. kube-apiserver does not.
    #[must_use]
    pub fn mixed_literals(self) -> Self {
        Self { mixed_literals: true, ..self }
    }
}

/// An expression that has been parsed and checked.
#[derive(Debug)]
pub struct Program {
    source: Arc<str>,
    expr: Expr,
    checked: Checked,
    regexes: HashMap<Arc<str>, Regex>,
}

/// The values of the variables of one evaluation.
#[derive(Clone, Debug)]
pub struct Activation<'a> {
    variables: Vec<(Arc<str>, Value<'a>)>,
    limit: u64,
}

/// The result of an evaluation, with its cost.
#[derive(Clone, Debug)]
pub struct Evaluated<'a> {
    /// The value or the failure.
    pub outcome: Result<Value<'a>, EvaluationError>,
    /// The cost as kube-apiserver counts it.
    pub cost: u64,
}

impl Default for Activation<'_> {
    fn default() -> Self {
        Self { variables: Vec::new(), limit: PER_CALL_LIMIT }
    }
}

impl<'a> Activation<'a> {
    /// Creates an activation without variables, with the limit of [`PER_CALL_LIMIT`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value<'a>) -> Self {
        self.variables.push((name.into(), value));
        self
    }

    /// Sets a variable to a value that may be absent.
    #[must_use]
    pub fn with_optional(self, name: &str, value: Option<Value<'a>>) -> Self {
        self.with(name, Value::Optional(value.map(Arc::new)))
    }

    /// Sets the variables `authorizer` and `authorizer.requestResource`.
    #[must_use]
    pub fn with_authorizer(
        self,
        authorizer: &'a dyn Authorize,
        (group, resource): (&str, &str),
        subresource: &str,
        (namespace, name): (&str, &str),
    ) -> Self {
        let question = ResourceQuestion {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let all = Authorization::of(authorizer);
        let one = all.about(question);
        self.with("authorizer", Value::Authorization(Arc::new(all)))
            .with(REQUEST_RESOURCE, Value::Authorization(Arc::new(one)))
    }

    /// Sets the largest cost.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }
}

impl Program {
    /// Parses and checks an expression.
    ///
    /// # Errors
    /// All problems of the expression.
    pub fn compile(source: &str, environment: &Environment) -> Result<Self, CompileError> {
        let failed = |issues| CompileError::new(source, issues);
        let (mut expr, ids) = parse(source).map_err(|issue| failed(vec![issue]))?;
        let declarations =
            Declarations { variables: &environment.variables, has_patch_types: environment.has_patch_types };
        let checked = check(&mut expr, ids, &declarations).map_err(failed)?;
        let mut regexes = HashMap::new();
        let mut issues = Vec::new();
        check_literals(&expr, &mut regexes, &mut issues);
        format_checks::check(&expr, &checked, &mut issues);
        if !environment.mixed_literals {
            check_items(&expr, &checked, &mut issues);
        }
        if !issues.is_empty() {
            return Err(failed(issues));
        }
        Ok(Self { source: source.into(), expr, checked, regexes })
    }

    /// Returns the text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the approximate memory of the compiled expression, in bytes: that of its nodes, and
    /// of its regular expressions with what is kept to search for them.
    pub fn size(&self) -> usize {
        let nodes = self.checked.types.len().saturating_mul(BYTES_PER_NODE);
        let regexes = self.regexes.values().map(|it| it.memory_usage().saturating_add(regexes::CACHE_SIZE));
        regexes.fold(nodes, usize::saturating_add)
    }

    /// Returns the type of the result.
    pub fn result_type(&self) -> &Type {
        self.checked.type_of(&self.expr)
    }

    /// Returns the nesting of the expression.
    pub fn depth(&self) -> usize {
        depth_of(&self.expr)
    }

    /// Returns true if the expression reads a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.variables.iter().any(|it| &**it == variable)
    }

    /// Returns the largest cost that the expression can have for variables of a declared type, as
    /// kube-apiserver estimates it for the rules of definitions.
    pub fn estimated_cost(&self, root: &DeclaredType) -> u64 {
        cost::estimate(&self.expr, &self.checked, root)
    }

    /// Evaluates the expression. The cost, the work and the memory that this takes are limited.
    pub fn evaluate<'a>(&self, activation: &Activation<'a>) -> Evaluated<'a> {
        self.run(activation, None)
    }

    /// Evaluates the expression like [`Self::evaluate`], with fields of the variable `variables`
    /// that are computed when the expression selects them.
    pub fn evaluate_with<'a>(
        &self,
        activation: &Activation<'a>,
        lazy: &dyn LazyVariables<'a>,
    ) -> Evaluated<'a> {
        self.run(activation, Some(lazy))
    }

    fn run<'a>(&self, activation: &Activation<'a>, lazy: Option<&dyn LazyVariables<'a>>) -> Evaluated<'a> {
        let meter = Meter::new(activation.limit);
        let mut interpreter = Interpreter {
            lazy,
            variables: &activation.variables,
            regexes: &self.regexes,
            meter: &meter,
            locals: Vec::new(),
        };
        let outcome = interpreter.eval(&self.expr);
        Evaluated { outcome, cost: meter.cost() }
    }
}

/// Returns the nesting of an expression, which the parser has limited.
fn depth_of(expr: &Expr) -> usize {
    let mut deepest = 0;
    expr.for_each_part(&mut |part| deepest = deepest.max(depth_of(part)));
    deepest.saturating_add(1)
}

/// Checks the literal arguments of some functions (cel-go v0.26.0 cel/validator.go), and compiles
/// regular expressions.
fn check_literals(expr: &Expr, compiled: &mut HashMap<Arc<str>, Regex>, issues: &mut Vec<Issue>) {
    if let ExprKind::Call(call) = &expr.kind {
        let literal = call.args.last().and_then(|it| it.literal_text().map(|text| (it.at, text)));
        if let Some((at, text)) = literal {
            let is_valid = match (&*call.function, call.args.len()) {
                ("duration", 1) => moments::parse_duration(text).is_some(),
                ("timestamp", 1) => moments::parse_timestamp(text).is_some(),
                ("matches", 1 | 2) | ("find" | "findAll", 1) => {
                    let regex = regexes::compile(text).ok();
                    let is_valid = regex.is_some();
                    compiled.extend(regex.map(|it| (Arc::clone(text), it)));
                    is_valid
                }
                _ => true,
            };
            if !is_valid {
                issues.push(Issue { at, message: format!("invalid {} argument", call.function) });
            }
        }
    }
    expr.for_each_part(&mut |part| check_literals(part, compiled, issues));
}

/// Checks that the items of literals have one type, except for those that a text is formatted from
/// (`ValidateHomogeneousAggregateLiterals` of cel-go v0.26.0 cel/validator.go).
fn check_items(expr: &Expr, checked: &Checked, issues: &mut Vec<Issue>) {
    let plain = |expr: &Expr, is_optional: bool| match checked.type_of(expr) {
        Type::Optional(inner) if is_optional => (**inner).clone(),
        other => other.clone(),
    };
    let mut first_differs = |items: &mut dyn Iterator<Item = (&Expr, bool)>| {
        let Some((first, is_optional)) = items.next() else { return };
        let expected = plain(first, is_optional);
        let differing = items.map(|(it, is_optional)| (it, plain(it, is_optional)));
        if let Some((item, found)) = differing.into_iter().find(|(_, found)| !expected.is_same(found)) {
            let message = format!("expected type '{expected}' but found '{found}'");
            issues.push(Issue { at: item.at, message });
        }
    };
    match &expr.kind {
        ExprKind::Call(call) if &*call.function == "format" => return,
        ExprKind::List(items) => first_differs(&mut items.iter().map(|it| (&it.value, it.is_optional))),
        ExprKind::Map(entries) => {
            first_differs(&mut entries.iter().map(|it| (&it.key, false)));
            first_differs(&mut entries.iter().map(|it| (&it.value, it.is_optional)));
        }
        _ => {}
    }
    expr.for_each_part(&mut |part| check_items(part, checked, issues));
}
