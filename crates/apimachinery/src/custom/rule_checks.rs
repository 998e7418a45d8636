//! The checks of the rules of a definition (`x-kubernetes-validations`): their fields, whether
//! their expressions compile, and what these may cost.
//!
//! Mirrors k8s.io/apiextensions-apiserver v0.36.4
//! pkg/apis/apiextensions/validation/{validation,cel_validation}.go with its messages.

use std::sync::Arc;

use serde_json::Value;

use super::go_format::{quoted, quoted_list};
use super::internal::{self, SharedByVersions};
use super::keywords::{flag, listed, named, text};
use super::rule_types::declared_type;
use super::rules::{BUDGET, Rule, RuleTree, normalized_path};
use super::schema_path::SchemaPath;
use super::structural::Structural;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::cel::{DeclaredType, MAX_REQUEST_SIZE};
use crate::field_errors::FieldErrors;

/// The largest estimated cost of one expression: `StaticEstimatedCostLimit`.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// The largest estimated cost of all expressions of a schema: `StaticEstimatedCRDCostLimit`.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// The number of the most expensive rules that are named.
const MOST_EXPENSIVE: usize = 4;
/// The number of rules that the versions of a definition may have. kube-apiserver has no limit.
/// Compiling one takes in the order of a millisecond.
const MAX_RULES: usize = 5_000;
/// The number of bytes that all expressions of a definition may have. kube-apiserver has no limit.
const MAX_EXPRESSIONS: usize = 1024 * 1024;

/// The memory that the compiled rules of a schema may take, in bytes: a macro can repeat its
/// operand, and a regular expression of a few bytes can become a million. kube-apiserver has no
/// limit.
const MAX_COMPILED: usize = 64 << 20;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Returns the problems of the rules of a definition whose schemas have no other problem. Schemas
/// that `old` has as well are not checked again.
pub(crate) fn problems(definition: &Value, old: Option<&Value>) -> FieldErrors {
    let mut problems = FieldErrors::new();
    let versions = listed(&definition["spec"], "versions");
    let shared = SharedByVersions::of(versions).schema;
    let old_versions = old.map(|it| listed(&it["spec"], "versions")).unwrap_or_default();
    let count = if shared { versions.len().min(1) } else { versions.len() };
    let mut totals = (0, 0);
    for (index, version) in versions.iter().take(count).enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        let unchanged = old_versions
            .iter()
            .any(|it| it["name"] == version["name"] && it["schema"]["openAPIV3Schema"] == *schema);
        if unchanged {
            continue;
        }
        let path =
            if shared { "spec.validation".to_owned() } else { format!("spec.versions[{index}].schema") };
        let path = format!("{path}.openAPIV3Schema");
        count_rules(schema, &mut totals);
        if totals.0 > MAX_RULES || totals.1 > MAX_EXPRESSIONS {
            let detail = format!(
                "must have at most {MAX_RULES} rules with at most {MAX_EXPRESSIONS} bytes of expressions in all versions \
                 (a limit of this server)"
            );
            problems.push(FieldError::new(path, FieldErrorKind::TooMany, &detail));
            return problems;
        }
        if totals.0 > 0 {
            check_schema(schema, &path, &mut problems);
        }
    }
    problems
}

/// Counts the rules of a schema and the bytes of their expressions.
fn count_rules(schema: &Value, totals: &mut (usize, usize)) {
    for rule in listed(schema, "x-kubernetes-validations") {
        totals.0 += 1;
        totals.1 += text(rule, "rule").len() + text(rule, "messageExpression").len();
    }
    for key in ["items", "additionalProperties"] {
        schema.get(key).into_iter().for_each(|it| count_rules(it, totals));
    }
    named(schema, "properties").for_each(|(_, it)| count_rules(it, totals));
}

fn check_schema(schema: &Value, path: &str, problems: &mut FieldErrors) {
    let structural = Structural::parse(schema);
    let declared = Arc::new(declared_type(&structural, true).named("selfType"));
    let mut walker = Walker {
        form_problems: FieldErrors::new(),
        problems: FieldErrors::new(),
        total: 0,
        expensive: Vec::new(),
        default_budget: Some(BUDGET),
        rules_of_defaults: (0, 0),
        compiled: 0,
    };
    let node = Node {
        schema,
        structural: &structural,
        declared: Some(&declared),
        cardinality: Some(1),
        uncorrelatable: None,
    };
    let root = SchemaPath::root(path);
    walker.node(&node, &root);
    let Walker { form_problems, problems: found, total, mut expensive, .. } = walker;
    let is_form_sound = form_problems.is_empty();
    problems.append(form_problems);
    if !is_form_sound {
        // Costs are those of sound rules.
        return;
    }
    problems.append(found);
    if total > SCHEMA_LIMIT {
        expensive.sort_by(|(_, one), (_, two)| two.cmp(one));
        for (path, _) in expensive.into_iter().take(MOST_EXPENSIVE) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            problems.push(FieldError::new(path, FieldErrorKind::Forbidden, detail));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = too_expensive(name, total, SCHEMA_LIMIT);
        problems.push(FieldError::new(path, FieldErrorKind::Forbidden, &detail));
    }
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// A part of a schema.
struct Node<'a> {
    schema: &'a Value,
    structural: &'a Structural,
    /// The type of the values; `None` if expressions cannot read them.
    declared: Option<&'a Arc<DeclaredType>>,
    /// The number of values of this part that an object can have; `None` if it has no limit.
    cardinality: Option<u64>,
    /// The part around this one whose items have no former state.
    uncorrelatable: Option<SchemaPath>,
}

struct Walker {
    /// Problems of fields of rules.
    form_problems: FieldErrors,
    /// Problems of expressions.
    problems: FieldErrors,
    total: u64,
    expensive: Vec<(SchemaPath, u64)>,
    /// The cost that the rules of defaults may have.
    default_budget: Option<u64>,
    /// The rules that are compiled again for defaults.
    rules_of_defaults: (usize, usize),
    /// The memory of the compiled rules so far.
    compiled: usize,
}

impl Walker {
    fn node(&mut self, node: &Node<'_>, path: &SchemaPath) {
        let child_cardinality =
            node.cardinality.zip(max_elements(node.schema)).map(|(own, of)| own.saturating_mul(of));
        let part = |schema, structural, declared: Option<_>| Node {
            schema,
            structural,
            declared: declared.filter(|it: &&Arc<DeclaredType>| !it.is_hidden()),
            cardinality: child_cardinality,
            uncorrelatable: node.uncorrelatable.clone(),
        };
        let element = node.declared.and_then(|it| it.element());
        if let (Some(schema), Some(structural)) =
            (node.schema.get("additionalProperties"), node.structural.additional_schema())
        {
            self.node(&part(schema, structural, element), &path.keyword("additionalProperties"));
        }
        for (name, schema) in named(node.schema, "properties") {
            let Some(structural) = node.structural.properties.get(name) else { continue };
            let declared = node.declared.and_then(|it| it.field(name));
            self.node(&part(schema, structural, declared), &path.property(name));
        }
        if let (Some(schema), Some(structural)) = (node.schema.get("items"), node.structural.items.as_deref())
        {
            let mut items = part(schema, structural, element);
            // Only the items of lists of type `map` are known by their keys.
            if text(node.schema, "x-kubernetes-list-type") != "map" && items.uncorrelatable.is_none() {
                items.uncorrelatable = Some(path.clone());
            }
            self.node(&items, &path.keyword("items"));
        }
        for (index, rule) in listed(node.schema, "x-kubernetes-validations").iter().enumerate() {
            let path = path.item("x-kubernetes-validations", index);
            self.form(rule, node, &path);
            if self.form_problems.is_empty() && self.compiled <= MAX_COMPILED {
                self.rule(rule, node, &path);
            }
        }
        self.default(node, path);
    }

    /// Evaluates the rules of a default.
    fn default(&mut self, node: &Node<'_>, path: &SchemaPath) {
        let Some(declared) = node.declared.filter(|_| node.structural.default.is_some()) else { return };
        if !self.form_problems.is_empty() || !self.problems.is_empty() || !node.structural.has_rules() {
            return;
        }
        count_rules(node.schema, &mut self.rules_of_defaults);
        let path = path.keyword("default");
        if self.rules_of_defaults.0 > MAX_RULES || self.rules_of_defaults.1 > MAX_EXPRESSIONS {
            let detail = format!("must not have more than {MAX_RULES} rules in all (a limit of this server)");
            self.problems.push(FieldError::new(path, FieldErrorKind::TooMany, &detail));
            return;
        }
        let budget = &mut self.default_budget;
        let found = RuleTree::problems_of_default(node.structural, declared, &path.to_string(), budget);
        self.problems.append(found);
    }

    fn form(&mut self, rule: &Value, node: &Node<'_>, path: &SchemaPath) {
        let has_line_break = |it: &str| it.contains(['\n', '\r']);
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        let mut report = |key: &str, kind: FieldErrorKind, value: Option<&str>, detail: &str| {
            let field = path.keyword(key);
            self.form_problems.push_with(|| match value {
                Some(value) => FieldError::with_value(field, kind, quoted(value), detail),
                None => FieldError::new(field, kind, detail),
            });
        };
        let (invalid, required) = (FieldErrorKind::Invalid, FieldErrorKind::Required);
        if expression.is_empty() {
            report("rule", required, None, "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            report("message", invalid, Some(message), "must be non-empty if specified");
        } else if has_line_break(message.trim()) {
            report("message", invalid, Some(message), "must not contain line breaks");
        } else if has_line_break(expression) && message.trim().is_empty() {
            report("message", required, None, "message must be specified if rule contains line breaks");
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            report("messageExpression", required, None, detail);
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !REASONS.contains(&reason)
        {
            let detail = format!("supported values: {}", quoted_list(REASONS));
            report("reason", FieldErrorKind::NotSupported, Some(reason), &detail);
        }
        let field_path = text(rule, "fieldPath");
        if !field_path.is_empty() {
            if field_path.trim().is_empty() {
                report("fieldPath", invalid, Some(field_path), "must be non-empty if specified");
            }
            if has_line_break(field_path) {
                report("fieldPath", invalid, Some(field_path), "must not contain line breaks");
            }
            if normalized_path(field_path, node.structural).is_none() {
                report("fieldPath", invalid, Some(field_path), "must be a valid path");
            }
        }
    }

    fn rule(&mut self, rule: &Value, node: &Node<'_>, path: &SchemaPath) {
        let Some(declared) = node.declared else {
            let detail = "unable to convert structural schema to CEL declarations";
            let field = path.keyword("rule");
            self.problems.push_with(|| {
                FieldError::with_value(field, FieldErrorKind::Invalid, internal::rule(rule), detail)
            });
            return;
        };
        let Some(compiled) = Rule::compile(rule, declared, node.structural) else { return };
        self.compiled = self.compiled.saturating_add(compiled.size());
        if self.compiled > MAX_COMPILED {
            let mib = MAX_COMPILED >> 20;
            let detail =
                format!("the rules up to this one take more than {mib} MiB (a limit of this server)");
            let field = path.keyword("rule");
            self.problems.push_with(|| FieldError::new(field, FieldErrorKind::TooMany, &detail));
            return;
        }
        // Without limits around it, as many values as fit into a request.
        let fitting = MAX_REQUEST_SIZE / declared.min_serialized().saturating_add(1);
        let cardinality = node.cardinality.unwrap_or(fitting);
        match &compiled.program {
            Err(detail) => {
                let field = path.keyword("rule");
                self.problems.push_with(|| {
                    FieldError::with_value(field, FieldErrorKind::Invalid, internal::rule(rule), detail)
                });
            }
            Ok(program) => {
                let cost = program.estimated_cost(declared).saturating_mul(cardinality);
                self.charge(path.keyword("rule"), "estimated rule cost", cost);
            }
        }
        match &compiled.message_program {
            Some(Err(detail)) => {
                let field = path.keyword("messageExpression");
                self.problems.push_with(|| {
                    FieldError::with_value(field, FieldErrorKind::Invalid, internal::rule(rule), detail)
                });
            }
            Some(Ok(program)) => {
                let cost = program.estimated_cost(declared);
                self.charge(path.keyword("messageExpression"), "estimated messageExpression cost", cost);
            }
            None => {}
        }
        if compiled.uses_old() {
            if let Some(within) = &node.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                let field = path.keyword("rule");
                let shown = quoted(text(rule, "rule"));
                self.problems
                    .push_with(|| FieldError::with_value(field, FieldErrorKind::Invalid, shown, &detail));
            }
        } else if rule.get("optionalOldSelf").is_some_and(|it| !it.is_null()) {
            let field = path.keyword("optionalOldSelf");
            let shown = flag(rule, "optionalOldSelf");
            let detail = "may not be set if oldSelf is not used in rule";
            self.problems.push_with(|| FieldError::with_value(field, FieldErrorKind::Invalid, shown, detail));
        }
    }

    fn charge(&mut self, path: SchemaPath, name: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost > EXPRESSION_LIMIT {
            let detail = too_expensive(name, cost, EXPRESSION_LIMIT);
            let field = path.clone();
            self.problems.push_with(|| FieldError::new(field, FieldErrorKind::Forbidden, &detail));
        }
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((path, cost));
        }
    }
}

/// Returns the factor by which a schema multiplies the number of values below it; `None` if it has
/// no limit.
fn max_elements(schema: &Value) -> Option<u64> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_i64).map(|it| u64::try_from(it).unwrap_or(0));
    match text(schema, "type") {
        "object" if schema.get("additionalProperties").is_some_and(|it| !it.is_null()) => {
            limit("maxProperties")
        }
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(schema: Value) -> Vec<String> {
        let version = json!({ "name": "v1", "schema": { "openAPIV3Schema": schema } });
        let definition = json!({ "spec": { "versions": [version] } });
        assert!(
            problems(&definition, Some(&definition)).is_empty(),
            "unchanged schemas are not checked again"
        );
        problems(&definition, None).iter().map(|it| it.to_string()).collect()
    }

    fn with_rule(field: Value, rule: Value) -> Value {
        let mut field = field;
        field["x-kubernetes-validations"] = json!([rule]);
        json!({ "type": "object", "properties": { "f": field } })
    }

    const AT: &str = "spec.validation.openAPIV3Schema.properties[f].x-kubernetes-validations[0]";

    #[test]
    fn fields_of_rules_have_their_forms() {
        let field = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        for (rule, expected) in [
            (json!({ "rule": " " }), ".rule: Required value: rule is not specified"),
            (
                json!({ "rule": "true", "message": " " }),
                ".message: Invalid value: \" \": must be non-empty if specified",
            ),
            (
                json!({ "rule": "true\n" , "message": "a\nb" }),
                ".message: Invalid value: \"a\\nb\": must not contain line breaks",
            ),
            (
                json!({ "rule": "true ||\ntrue" }),
                ".message: Required value: message must be specified if rule contains line breaks",
            ),
            (
                json!({ "rule": "true", "reason": "No" }),
                ".reason: Unsupported value: \"No\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
            ),
            (
                json!({ "rule": "true", "fieldPath": ".b" }),
                ".fieldPath: Invalid value: \".b\": must be a valid path",
            ),
            (
                json!({ "rule": "true", "optionalOldSelf": true }),
                ".optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            ),
        ] {
            assert_eq!(found(with_rule(field.clone(), rule)), [format!("{AT}{expected}")]);
        }
        assert_eq!(found(with_rule(field, json!({ "rule": "self.a != ''", "fieldPath": ".a" }))), [""; 0]);
    }

    #[test]
    fn an_expression_that_does_not_compile_is_refused_with_its_place() {
        let problems = found(with_rule(json!({ "type": "integer" }), json!({ "rule": "self == 'a'" })));
        assert_eq!(
            problems,
            [format!(
                "{AT}.rule: Invalid value: {{\"Rule\":\"self == 'a'\",\"Message\":\"\",\"MessageExpression\":\"\",\
             \"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}: compilation failed: ERROR: <input>:1:6: found no \
             matching overload for '_==_' applied to '(int, string)'\n | self == 'a'\n | .....^"
            )]
        );
        let problems = found(with_rule(json!({ "type": "integer" }), json!({ "rule": "self + 1" })));
        assert!(problems[0].ends_with("cel expression must evaluate to a bool"), "{problems:?}");
    }

    #[test]
    fn rules_that_may_cost_too_much_are_refused() {
        let list = |limit: Value| {
            let mut list = json!({ "type": "array", "items": { "type": "string" } });
            list["maxItems"] = limit;
            with_rule(list, json!({ "rule": "self.all(x, self.all(y, x == y))" }))
        };
        let hint = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                    strings are declared)";
        let problems = found(list(Value::Null));
        assert_eq!(
            problems[0],
            format!(
                "{AT}.rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {hint}"
            )
        );
        assert_eq!(problems.len(), 3, "{problems:?}");
        let limited =
            json!({ "type": "array", "maxItems": 10, "items": { "type": "string", "maxLength": 20 } });
        let rule = json!({ "rule": "self.all(x, self.all(y, x == y))" });
        assert_eq!(found(with_rule(limited, rule)), [""; 0]);
    }

    /// Regression test: the rules of one definition could take gigabytes, and minutes to compile.
    #[test]
    fn rules_that_take_too_much_memory_when_they_are_compiled_are_refused() {
        let repeated = |name: usize| format!("self{}.hasValue() || {name} > 0", ".optMap(x, x)".repeat(12));
        let rules = |count: usize, text: &dyn Fn(usize) -> String| {
            let rules: Vec<Value> = (0..count)
                .map(|it| json!({ "rule": text(it).replace("self", "oldSelf"), "optionalOldSelf": true }))
                .collect();
            let field = json!({ "type": "string", "maxLength": 10, "x-kubernetes-validations": rules });
            found(json!({ "type": "object", "properties": { "f": field } }))
        };
        let start = cpu_time::ThreadTime::now();
        assert_eq!(rules(2, &repeated), [""; 0]);
        let problems = rules(100, &repeated);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("take more than 64 MiB"), "{problems:?}");
        assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
    }

    #[test]
    fn items_without_keys_have_no_former_state_and_defaults_follow_the_rules() {
        let items = json!({ "type": "integer", "x-kubernetes-validations": [{ "rule": "self >= oldSelf" }] });
        let schema = json!({ "type": "object", "properties": {
            "f": { "type": "array", "maxItems": 5, "items": items } } });
        let problems = found(schema);
        assert!(problems[0].contains(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[f]"
        ), "{problems:?}");
        let problems =
            found(with_rule(json!({ "type": "integer", "default": 1 }), json!({ "rule": "self > 1" })));
        assert_eq!(
            problems,
            [
                "spec.validation.openAPIV3Schema.properties[f].default: Invalid value: 1: failed rule: self > 1"
            ]
        );
    }
}
