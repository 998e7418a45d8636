//! Resources inside resources (`x-kubernetes-embedded-resource`): each needs an `apiVersion` and a `kind`.

use serde_json::Value;

use super::Structural;
use super::label::label_faults;
use super::nodes::{child, nodes};
use super::printed::{quoted, shown};
use crate::refusal::{Problem, ProblemKind};

/// What is wrong with the resources embedded in a value at a path. The value itself counts as one if its schema says so.
pub(crate) fn problems(value: &Value, schema: &Structural, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for node in nodes(value, schema, path).into_iter().filter(|node| node.schema.embedded) {
        if let Value::Object(resource) = node.value {
            check_version(resource.get("apiVersion"), &child(&node.path, "apiVersion"), &mut problems);
            check_kind(resource.get("kind"), &child(&node.path, "kind"), &mut problems);
        }
    }
    problems
}

fn check_version(version: Option<&Value>, path: &str, problems: &mut Vec<Problem>) {
    if let Some(text) = text_of(version, path, problems)
        && text.matches('/').count() > 1
    {
        let detail = format!("unexpected GroupVersion string: {text}");
        problems.push(Problem::with_value(path, ProblemKind::Invalid, quoted(text), &detail));
    }
}

fn check_kind(kind: Option<&Value>, path: &str, problems: &mut Vec<Problem>) {
    let Some(text) = text_of(kind, path, problems) else { return };
    let faults = label_faults(&text.to_lowercase());
    if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        problems.push(Problem::with_value(path, ProblemKind::Invalid, quoted(text), &detail));
    }
}

fn text_of<'a>(value: Option<&'a Value>, path: &str, problems: &mut Vec<Problem>) -> Option<&'a str> {
    let problem = match value {
        None => Problem::new(path, ProblemKind::Required, ""),
        Some(Value::String(text)) if text.is_empty() => {
            Problem::with_value(path, ProblemKind::Invalid, "\"\"", "must not be empty")
        }
        Some(Value::String(text)) => return Some(text),
        Some(other) => Problem::with_value(path, ProblemKind::Invalid, shown(other), "must be a string"),
    };
    problems.push(problem);
    None
}
