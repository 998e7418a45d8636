//! The rules of a schema (`x-kubernetes-validations`), compiled, and their evaluation for an
//! object.
//!
//! Mirrors k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/schema/cel/validation.go with its
//! messages. The budget is that of kube-apiserver: an object whose rules exceed it is rejected.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::go_format::{quoted, shown};
use super::rule_types::declared_type;
use super::structural::Structural;
use super::validate::NOWHERE;
use super::value_path::ValuePath;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::cel::{
    Activation, DeclaredType, Environment, EvaluationErrorKind, Program, Type, Value as Evaluated,
};
use crate::field_errors::FieldErrors;
use crate::schema::Topology;

/// The cost that all rules of one object may have: `RuntimeCELCostBudget` of k8s.io/apiserver
/// v0.36.4 pkg/apis/cel/config.go.
pub(crate) const BUDGET: u64 = 10_000_000;

/// The length of a message that an expression makes: `MaxEvaluatedMessageExpressionSizeBytes` of
/// the same file.
const MAX_MESSAGE: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The rules of a part of a schema and of everything in it.
#[derive(Debug)]
pub(crate) struct RuleTree {
    rules: Vec<Rule>,
    declared: Arc<DeclaredType>,
    /// The type of the value, as messages show it in place of the value.
    kind: &'static str,
    items: Option<Box<Self>>,
    properties: BTreeMap<String, Self>,
    additional: Option<Box<Self>>,
    /// The keys of a list of type `map`, whose items have former items.
    list_keys: Option<Vec<String>>,
}

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The program, or the reason why there is none.
    pub(crate) program: Result<Program, String>,
    pub(crate) message_program: Option<Result<Program, String>>,
    text: String,
    message: String,
    reason: String,
    /// The path below the value at which to report the error.
    field_path: String,
    pub(crate) optional_old: Option<bool>,
}

impl Rule {
    /// Compiles a rule of a part with this type and schema; `None` if it has no expression.
    pub(crate) fn compile(rule: &Value, declared: &Arc<DeclaredType>, schema: &Structural) -> Option<Self> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        let expression = text("rule");
        if expression.trim().is_empty() {
            return None;
        }
        let optional_old = rule.get("optionalOldSelf").and_then(Value::as_bool);
        let environment = Environment::new().variable("self", declared);
        let environment = if optional_old == Some(true) {
            environment.optional_variable("oldSelf", declared)
        } else {
            environment.variable("oldSelf", declared)
        };
        let program = Program::compile(expression, &environment)
            .map_err(|error| format!("compilation failed: {error}"))
            .and_then(|it| match it.result_type() {
                Type::Bool => Ok(it),
                _ => Err("cel expression must evaluate to a bool".to_owned()),
            });
        let message_expression = text("messageExpression");
        let message_program = (program.is_ok() && !message_expression.is_empty()).then(|| {
            Program::compile(message_expression, &environment)
                .map_err(|error| format!("messageExpression compilation failed: {error}"))
                .and_then(|it| match it.result_type() {
                    Type::String => Ok(it),
                    _ => Err("messageExpression must evaluate to a string".to_owned()),
                })
        });
        Some(Self {
            program,
            message_program,
            text: expression.trim().to_owned(),
            message: text("message").trim().to_owned(),
            reason: text("reason").to_owned(),
            field_path: normalized_path(text("fieldPath"), schema).unwrap_or_default(),
            optional_old,
        })
    }

    /// Returns the approximate memory of the compiled expressions, in bytes.
    pub(crate) fn size(&self) -> usize {
        let of = |it: &Result<Program, String>| it.as_ref().map_or(0, Program::size);
        of(&self.program).saturating_add(self.message_program.as_ref().map_or(0, of))
    }

    pub(crate) fn uses_old(&self) -> bool {
        self.program.as_ref().is_ok_and(|it| it.uses("oldSelf"))
    }

    /// Returns the text by which messages name the rule.
    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }
}

/// Returns a path of a rule as error messages show it, if it is one of a field of the schema.
pub(crate) fn normalized_path(path: &str, schema: &Structural) -> Option<String> {
    let mut schema = schema;
    let mut shown = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix("['") {
            Some(quoted) => {
                let end = quoted.match_indices("']").find(|(at, _)| !quoted[..*at].ends_with('\\'))?.0;
                (quoted.get(..end)?.replace("\\'", "'"), quoted.get(end + 2..)?)
            }
            None => {
                let plain = rest.strip_prefix('.')?;
                let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
                let (name, after) = plain.split_at(end);
                (name.to_owned(), after)
            }
        };
        if name.is_empty() {
            return None;
        }
        schema = match (schema.properties.is_empty(), schema.additional_schema()) {
            (true, Some(values)) => {
                shown.push_str(&format!("[{name}]"));
                values
            }
            _ => {
                let dot = if shown.is_empty() { "" } else { "." };
                shown.push_str(&format!("{dot}{name}"));
                schema.properties.get(&name)?
            }
        };
        rest = after;
    }
    (!shown.is_empty()).then_some(shown)
}

impl RuleTree {
    /// Compiles the rules of a schema; `None` if it has none.
    pub(crate) fn compile(schema: &Structural) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let declared = Arc::new(declared_type(schema, true).named("selfType"));
        Self::part(schema, &declared)
    }

    fn part(schema: &Structural, declared: &Arc<DeclaredType>) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        // Fields without a type have no rules: kube-apiserver leaves them out as well.
        let of = |inner: &Structural, declared: Option<&Arc<DeclaredType>>| {
            declared.filter(|it| !it.is_hidden()).and_then(|it| Self::part(inner, it))
        };
        let items = schema.items.as_deref().and_then(|it| of(it, declared.element()));
        let properties = schema.properties.iter().filter_map(|(name, inner)| {
            let rules = of(inner, declared.field(name))?;
            Some((name.clone(), rules))
        });
        Some(Self {
            rules: schema.rules.iter().filter_map(|it| Rule::compile(it, declared, schema)).collect(),
            declared: Arc::clone(declared),
            kind: schema.kind.map_or("", |it| it.name()),
            items: items.map(Box::new),
            properties: properties.collect(),
            additional: schema.additional_schema().and_then(|it| of(it, declared.element())).map(Box::new),
            list_keys: match &schema.list {
                Some(Topology::Map(keys)) => Some(keys.clone()),
                _ => None,
            },
        })
    }

    /// Returns the rules that an object breaks.
    pub(crate) fn problems(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        self.problems_within(BUDGET, object, old)
    }

    fn problems_within(&self, budget: u64, object: &Value, old: Option<&Value>) -> FieldErrors {
        let mut run = Run::within(Some(budget));
        let ratchet = Ratchet { current: old.map(|old| (object, old)), parent: None };
        run.node(self, &ValuePath::Root(""), object, old, ratchet);
        run.problems
    }

    /// Returns the rules that the default of a part of a schema breaks, and subtracts their cost
    /// from a budget. The default counts as its own former state, and as a new value
    /// (k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/schema/defaulting/validation.go).
    pub(crate) fn problems_of_default(
        schema: &Structural,
        declared: &Arc<DeclaredType>,
        path: &str,
        budget: &mut Option<u64>,
    ) -> FieldErrors {
        let (Some(default), Some(tree)) = (&schema.default, Self::part(schema, declared)) else {
            return FieldErrors::new();
        };
        let mut run = Run::within(*budget);
        let no_ratchet = Ratchet { current: None, parent: None };
        run.node(&tree, &ValuePath::Root(path), default, Some(default), no_ratchet);
        if run.problems.is_empty() {
            run.node(&tree, &ValuePath::Root(path), default, None, no_ratchet);
        }
        *budget = run.budget;
        run.problems
    }
}

/// The former state of a value, for errors that unchanged values may keep
/// (`CRDValidationRatcheting`).
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    /// The value and its former one, if there is one.
    current: Option<(&'a Value, &'a Value)>,
    /// The nearest value around it that has a former one.
    parent: Option<(&'a Value, &'a Value)>,
}

impl<'a> Ratchet<'a> {
    fn key(self, name: &str) -> Self {
        let Some((new, old)) = self.current else { return self };
        // The version of the former object may be another one.
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self { current: None, parent: None };
        }
        Self { current: new.get(name).zip(old.get(name)), parent: self.current }
    }

    fn item(self, new: &'a Value, old: Option<&'a Value>) -> Self {
        if self.current.is_none() {
            return self;
        }
        Self { current: old.map(|old| (new, old)), parent: self.current }
    }
}

/// The evaluation of the rules of one object.
struct Run<'a, 't> {
    /// The cost that is left; `None` after the rule that exceeded it.
    budget: Option<u64>,
    problems: FieldErrors,
    /// The values that were compared with their former ones. All items of a list without keys are
    /// compared by the list.
    compared: HashMap<(*const Value, *const Value), bool>,
    /// The former lists by their address. Several items with the same keys have the same former
    /// item, with all lists in it.
    former: HashMap<*const Value, Rc<FormerItems<'a, 't>>>,
}

impl<'a, 't> Run<'a, 't> {
    fn within(budget: Option<u64>) -> Self {
        let problems = FieldErrors::new();
        Self { budget, problems, compared: HashMap::new(), former: HashMap::new() }
    }

    /// Returns true if an error of a value is one that it had before.
    fn is_unchanged(&mut self, ratchet: Ratchet<'a>) -> bool {
        let Some((new, old)) = ratchet.current.or(ratchet.parent) else { return false };
        let is_same = || new == old;
        *self.compared.entry((std::ptr::from_ref(new), std::ptr::from_ref(old))).or_insert_with(is_same)
    }

    /// Returns the former items of a list of type `map`.
    fn former_items(&mut self, old: Option<&'a Value>, keys: &'t [String]) -> Rc<FormerItems<'a, 't>> {
        let Some(list) = old else { return Rc::new(FormerItems::of(None, keys)) };
        let known = self.former.entry(std::ptr::from_ref(list));
        Rc::clone(known.or_insert_with(|| Rc::new(FormerItems::of(Some(list), keys))))
    }

    fn node(
        &mut self,
        tree: &'t RuleTree,
        path: &ValuePath<'_>,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        // Rules on a null are those of the value around it.
        if value.is_null() {
            return;
        }
        let old = old.filter(|it| !it.is_null());
        self.rules(tree, path, value, old, ratchet);
        match value {
            Value::Array(items) => {
                let Some(rules) = &tree.items else { return };
                let keys = tree.list_keys.as_ref().filter(|_| !items.is_empty());
                let former = keys.map(|keys| self.former_items(old, keys));
                for (index, item) in items.iter().enumerate() {
                    if self.budget.is_none() {
                        return;
                    }
                    let old_item = former.as_ref().and_then(|it| it.of_item(item));
                    let ratchet = ratchet.item(item, old_item);
                    self.node(rules, &ValuePath::Item(path, index), item, old_item, ratchet);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    if self.budget.is_none() {
                        return;
                    }
                    let old_field = old.and_then(|it| it.get(name));
                    if let Some(rules) = &tree.additional {
                        self.node(rules, &ValuePath::Key(path, name), field, old_field, ratchet.key(name));
                    }
                    if let Some(rules) = tree.properties.get(name) {
                        self.node(rules, &ValuePath::Field(path, name), field, old_field, ratchet.key(name));
                    }
                }
            }
            _ => {}
        }
    }

    /// Reports an error of the rules themselves, which shows the type in place of the value.
    fn refuse(&mut self, path: &ValuePath<'_>, kind: &str, detail: &str) {
        self.problems.push_with(|| {
            FieldError::with_value(field(path, ""), FieldErrorKind::Invalid, quoted(kind), detail)
        });
    }

    fn rules(
        &mut self,
        tree: &RuleTree,
        path: &ValuePath<'_>,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        if tree.rules.is_empty() {
            return;
        }
        let Some(mut budget) = self.budget else { return };
        if budget == 0 {
            self.refuse(path, tree.kind, OUT_OF_BUDGET);
            self.budget = None;
            return;
        }
        for rule in &tree.rules {
            let program = match &rule.program {
                Ok(program) => program,
                Err(error) => {
                    self.refuse(path, tree.kind, &format!("rule compile error: {error}"));
                    continue;
                }
            };
            let uses_old = rule.uses_old();
            let is_optional = rule.optional_old == Some(true);
            if uses_old && old.is_none() && !is_optional {
                continue;
            }
            let activation = match activation(tree, value, old.filter(|_| uses_old), is_optional) {
                Ok(activation) => activation,
                Err(error) => {
                    self.refuse(path, tree.kind, &format!("{error} evaluating rule: {}", rule.shown()));
                    continue;
                }
            };
            let evaluated = program.evaluate(&activation);
            let stopped =
                matches!(&evaluated.outcome, Err(it) if it.kind == EvaluationErrorKind::LimitExceeded);
            match budget.checked_sub(evaluated.cost) {
                Some(left) => budget = left,
                None => {
                    self.refuse(path, tree.kind, OUT_OF_BUDGET);
                    self.budget = None;
                    return;
                }
            }
            self.budget = Some(budget);
            match evaluated.outcome {
                Ok(Evaluated::Bool(true)) => {}
                Ok(_) => {
                    if !uses_old && self.is_unchanged(ratchet) {
                        continue;
                    }
                    if !self.broken(tree, rule, path, value, &activation) {
                        return;
                    }
                    budget = self.budget.unwrap_or(0);
                }
                Err(error) if stopped => {
                    let detail = format!(
                        "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        rule.shown()
                    );
                    self.refuse(path, tree.kind, &detail);
                    self.budget = None;
                    return;
                }
                Err(error) if error.kind == EvaluationErrorKind::NoSuchOverload => {
                    let detail = format!(
                        "'{error}': call arguments did not match a supported operator, function or macro signature for \
                         rule: {}",
                        rule.shown()
                    );
                    self.refuse(path, tree.kind, &detail);
                }
                Err(error) => {
                    self.refuse(path, tree.kind, &format!("{error} evaluating rule: {}", rule.shown()));
                }
            }
        }
    }

    /// Reports a broken rule. Returns false if no further rules are evaluated.
    fn broken(
        &mut self,
        tree: &RuleTree,
        rule: &Rule,
        path: &ValuePath<'_>,
        value: &Value,
        activation: &Activation<'_>,
    ) -> bool {
        let mut detail = None;
        if let Some(Ok(program)) = &rule.message_program {
            let evaluated = program.evaluate(activation);
            let left = self.budget.and_then(|it| it.checked_sub(evaluated.cost));
            let failure = match (&evaluated.outcome, left) {
                (_, None) => Some(
                    "messageExpression evaluation failed due to running out of cost budget, no further validation \
                     rules will be run"
                        .to_owned(),
                ),
                (Err(it), _) if it.kind == EvaluationErrorKind::LimitExceeded => Some(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    quoted(program.source())
                )),
                _ => None,
            };
            if let Some(failure) = failure {
                let at = field(path, &rule.field_path);
                self.problems.push_with(|| {
                    FieldError::with_value(at, FieldErrorKind::Invalid, quoted(tree.kind), &failure)
                });
                self.budget = None;
                return false;
            }
            self.budget = left;
            // A message that cannot be used is replaced with that of the rule.
            if let Ok(Evaluated::String(text)) = &evaluated.outcome {
                let text = text.trim();
                let is_usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                detail = is_usable.then(|| text.to_owned());
            }
        }
        let detail = detail.unwrap_or_else(|| {
            if rule.message.is_empty() { format!("failed rule: {}", rule.text) } else { rule.message.clone() }
        });
        let shows_value = !matches!(tree.kind, "object" | "array");
        let at = field(path, &rule.field_path);
        self.problems.push_with(|| match rule.reason.as_str() {
            "FieldValueForbidden" => FieldError::new(at, FieldErrorKind::Forbidden, &detail),
            "FieldValueRequired" => FieldError::new(at, FieldErrorKind::Required, &detail),
            "FieldValueDuplicate" if shows_value => {
                FieldError::with_value(at, FieldErrorKind::Duplicate, shown(value), "")
            }
            "FieldValueDuplicate" => FieldError::new(at, FieldErrorKind::Duplicate, ""),
            _ if shows_value => FieldError::with_value(at, FieldErrorKind::Invalid, shown(value), &detail),
            _ => FieldError::new(at, FieldErrorKind::Invalid, &detail),
        });
        true
    }
}

/// Returns the variables of a rule.
fn activation<'a>(
    tree: &'a RuleTree,
    value: &'a Value,
    old: Option<&'a Value>,
    is_optional: bool,
) -> Result<Activation<'a>, crate::cel::EvaluationError> {
    let activation = Activation::new().with("self", Evaluated::of_declared(value, &tree.declared)?);
    let old = old.map(|old| Evaluated::of_declared(old, &tree.declared)).transpose()?;
    Ok(match (old, is_optional) {
        (old, true) => activation.with_optional("oldSelf", old),
        (Some(old), false) => activation.with("oldSelf", old),
        (None, false) => activation,
    })
}

/// Returns the path of an error, as kube-apiserver formats it.
fn field(path: &ValuePath<'_>, below: &str) -> String {
    match (path.is_empty(), below.is_empty()) {
        (true, true) => NOWHERE.to_owned(),
        (true, false) => below.to_owned(),
        (false, true) => path.to_string(),
        (false, false) => format!("{path}.{below}"),
    }
}

/// The former items of a list of type `map`, by their keys.
struct FormerItems<'a, 't> {
    keys: &'t [String],
    items: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> FormerItems<'a, '_> {
    fn of<'t>(old: Option<&'a Value>, keys: &'t [String]) -> FormerItems<'a, 't> {
        let items = old.and_then(Value::as_array).into_iter().flatten();
        FormerItems { keys, items: items.map(|it| (key_of(it, keys), it)).collect() }
    }

    fn of_item(&self, item: &'a Value) -> Option<&'a Value> {
        self.items.get(&key_of(item, self.keys)).copied()
    }
}

fn key_of<'a>(item: &'a Value, keys: &[String]) -> Vec<&'a Value> {
    keys.iter().map(|key| item.get(key).unwrap_or(&Value::Null)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn broken(schema: Value, object: Value, old: Option<Value>) -> Vec<String> {
        let tree = RuleTree::compile(&Structural::parse(&schema)).unwrap();
        tree.problems(&object, old.as_ref()).iter().map(ToString::to_string).collect()
    }

    fn rule(text: &str) -> Value {
        json!([{ "rule": text }])
    }

    #[test]
    fn errors_are_those_of_kube_apiserver() {
        let schema = json!({ "type": "object",
            "x-kubernetes-validations": [
                { "rule": "self.min <= self.max", "message": "min is more than max", "fieldPath": ".min" },
                { "rule": "self.metadata.name == 'w'", "messageExpression": "'the name is ' + self.metadata.name",
                  "reason": "FieldValueForbidden" }],
            "properties": {
                "min": { "type": "integer" }, "max": { "type": "integer" },
                "names": { "type": "array", "items": { "type": "string", "x-kubernetes-validations":
                    [{ "rule": "self.size() > 1", "reason": "FieldValueDuplicate" }] } },
                "map": { "type": "object", "additionalProperties": { "type": "integer",
                    "x-kubernetes-validations": rule("10 / self > 1") } },
                "any": { "x-kubernetes-int-or-string": true, "x-kubernetes-validations": rule("self > 1") } } });
        let object = json!({ "metadata": { "name": "v" }, "min": 3, "max": 2, "names": ["ab", "c"],
            "map": { "a": 0 }, "any": "x" });
        assert_eq!(
            broken(schema, object, None),
            [
                "min: Invalid value: min is more than max",
                "<nil>: Forbidden: the name is v",
                "any: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or \
             macro signature for rule: self > 1",
                "map[a]: Invalid value: \"integer\": division by zero evaluating rule: 10 / self > 1",
                "names[1]: Duplicate value: \"c\"",
            ]
        );
    }

    #[test]
    fn transition_rules_compare_values_that_were_there_before() {
        let item = json!({ "type": "object", "properties": { "key": { "type": "string" },
            "size": { "type": "integer", "x-kubernetes-validations": rule("self >= oldSelf") } } });
        let schema = json!({ "type": "object", "properties": {
            "once": { "type": "string", "x-kubernetes-validations": [
                { "rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": true }] },
            "list": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
                "items": item } } });
        let old = json!({ "once": "a", "list": [{ "key": "a", "size": 2 }, { "key": "b", "size": 5 }] });
        let new = json!({ "once": "b", "list": [{ "key": "c", "size": 1 }, { "key": "b", "size": 4 }] });
        assert_eq!(broken(schema.clone(), new.clone(), None), [""; 0]);
        let found = broken(schema, new, Some(old));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("list[1].size: Invalid value: 4: failed rule: self >= oldSelf"),
            "{found:?}"
        );
        assert!(found[1].starts_with("once: Invalid value: \"b\""), "{found:?}");
    }

    #[test]
    fn an_unchanged_value_keeps_breaking_a_rule() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "object", "x-kubernetes-validations": rule("self.n > 1"),
                "properties": { "n": { "type": "integer" } } },
            "b": { "type": "integer" } } });
        let old = json!({ "a": { "n": 0 }, "b": 1 });
        assert_eq!(broken(schema.clone(), json!({ "a": { "n": 0 }, "b": 2 }), Some(old.clone())), [""; 0]);
        assert_eq!(
            broken(schema, json!({ "a": { "n": 1 }, "b": 2 }), Some(old)),
            ["a: Invalid value: failed rule: self.n > 1"]
        );
    }

    fn seconds(start: cpu_time::ThreadTime) -> u64 {
        start.elapsed().as_secs()
    }

    /// Regression test: the whole lists were compared for each invalid item.
    #[test]
    fn the_unchanged_items_of_a_long_list_are_compared_once() {
        let schema = json!({ "type": "object", "properties": { "l": { "type": "array", "items": {
            "type": "integer", "x-kubernetes-validations": rule("self > 7") } } } });
        let old = json!({ "l": vec![1; 100_000] });
        let mut new = old.clone();
        new["l"][99_999] = json!(2);
        let tree = RuleTree::compile(&Structural::parse(&schema)).unwrap();
        let start = cpu_time::ThreadTime::now();
        assert_eq!(tree.problems(&new, Some(&old)).count(), 100_000);
        assert!(tree.problems(&old, Some(&old.clone())).is_empty());
        assert!(seconds(start) < 60, "{:?}", start.elapsed());
    }

    /// Regression test: the old list was searched for each of the new items with the same keys.
    #[test]
    fn the_former_lists_of_items_with_the_same_keys_are_read_once() {
        let keyed = |items: Value| {
            json!({ "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"], "items": items })
        };
        let inner = json!({ "type": "object", "x-kubernetes-validations": rule("has(self.k)"),
            "properties": { "k": { "type": "string" } } });
        let outer =
            json!({ "type": "object", "properties": { "k": { "type": "string" }, "l": keyed(inner) } });
        let schema = json!({ "type": "object", "properties": { "a": keyed(outer) } });
        let many: Vec<Value> = (0..20_000).map(|it| json!({ "k": it.to_string() })).collect();
        let old = json!({ "a": [{ "k": "", "l": many }] });
        let new = json!({ "a": vec![json!({ "k": "", "l": [{ "k": "0" }] }); 20_000] });
        let tree = RuleTree::compile(&Structural::parse(&schema)).unwrap();
        let start = cpu_time::ThreadTime::now();
        assert!(tree.problems(&new, Some(&old)).is_empty());
        assert!(seconds(start) < 60, "{:?}", start.elapsed());
    }

    #[test]
    fn all_rules_of_an_object_share_a_budget() {
        let schema = json!({ "type": "object", "properties": { "l": { "type": "array", "items": {
            "type": "object", "properties": { "m": { "type": "array", "items": { "type": "integer" },
                "x-kubernetes-validations": rule("self.all(x, self.all(y, x + y >= 0))") } } } } } });
        let inner: Vec<u32> = (0..30).collect();
        let object = json!({ "l": vec![json!({ "m": inner }); 60] });
        let tree = RuleTree::compile(&Structural::parse(&schema)).unwrap();
        assert!(tree.problems(&object, None).is_empty());
        let found = tree.problems_within(100_000, &object, None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.ends_with(OUT_OF_BUDGET), "{found:?}");
    }
}
