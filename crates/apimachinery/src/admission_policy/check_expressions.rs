//! The validation of the expressions of policies and webhooks.

use std::collections::HashSet;

use serde_json::Value;

use crate::cel::is_reserved;
use crate::kinds::json_access::{at, items, text};
use crate::kinds::validate::check::{duplicate, invalid, invalid_string, required, unsupported};
use crate::{FieldError, FieldErrorKind, FieldErrors, names};

use super::expression::{Compiler, Declared, Returns};

/// The largest number of match conditions.
const MAX_CONDITIONS: usize = 64;

/// The largest number of audit annotations.
const MAX_ANNOTATIONS: usize = 20;

/// The length of the expression of an audit annotation, in bytes.
const MAX_ANNOTATION_EXPRESSION: usize = 5 * 1024;

/// Reports a problem of an expression.
fn problem(out: &mut FieldErrors, path: &str, source: &str, problem: Option<String>) {
    if let Some(problem) = problem {
        invalid(out, path, &source.into(), &problem);
    }
}

/// Compiles an expression and reports its problem.
pub(super) fn expression(
    out: &mut FieldErrors,
    compiler: &Compiler,
    (source, path): (&str, &str),
    returns: Returns,
    declared: Declared,
) {
    problem(out, path, source, compiler.compile(source, returns, declared).program.err());
}

/// Validates `matchConditions`.
pub(super) fn match_conditions(out: &mut FieldErrors, conditions: &[Value], path: &str, declared: Declared) {
    if conditions.len() > MAX_CONDITIONS {
        let detail = format!("must have at most {MAX_CONDITIONS} items");
        out.push_with(|| FieldError::with_value(path, FieldErrorKind::TooMany, conditions.len(), &detail));
    }
    let compiler = Compiler::stateless();
    let mut names_before = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let source = text(condition, "/expression").trim();
        let source_path = format!("{path}.expression");
        if source.is_empty() {
            required(out, &source_path, "");
        } else {
            expression(out, &compiler, (source, &source_path), Returns::Bool, declared);
        }
        let (name, name_path) = (text(condition, "/name"), format!("{path}.name"));
        if name.is_empty() {
            required(out, &name_path, "");
            continue;
        }
        invalid_string(out, &name_path, name, names::qualified(name));
        if !names_before.insert(name) {
            duplicate(out, &name_path, &name.into());
        }
    }
}

/// Validates `variables`, and adds them to a compiler.
pub(super) fn variables(
    out: &mut FieldErrors,
    compiler: &mut Compiler,
    variables: &[Value],
    declared: Declared,
) {
    for (index, variable) in variables.iter().enumerate() {
        let path = format!("spec.variables[{index}]");
        let (name, source) = (text(variable, "/name"), text(variable, "/expression"));
        if name.trim().is_empty() {
            required(out, &format!("{path}.name"), "name is not specified");
        } else if !is_identifier(name) {
            invalid(out, &format!("{path}.name"), &name.into(), "must be a valid CEL identifier");
        }
        let path = format!("{path}.expression");
        if source.trim().is_empty() {
            required(out, &path, "expression is not specified");
        } else {
            let found = compiler.add_variable(name, source, declared);
            problem(out, &path, source, found);
        }
    }
}

/// Validates `validations`.
pub(super) fn validations(
    out: &mut FieldErrors,
    compiler: &Compiler,
    validations: &[Value],
    declared: Declared,
) {
    for (index, validation) in validations.iter().enumerate() {
        let path = |field: &str| format!("spec.validations[{index}].{field}");
        let source = text(validation, "/expression");
        if source.trim().is_empty() {
            required(out, &path("expression"), "expression is not specified");
        } else {
            expression(out, compiler, (source, &path("expression")), Returns::Bool, declared);
        }
        let source = text(validation, "/messageExpression");
        if !source.is_empty() && source.trim().is_empty() {
            let detail = "must be non-empty if specified";
            invalid(out, &path("messageExpression"), &source.into(), detail);
        } else if !source.is_empty() {
            let declared = Declared { authorizer: false, ..declared };
            expression(out, compiler, (source, &path("messageExpression")), Returns::Text, declared);
        }
        let message = text(validation, "/message");
        if !message.is_empty() && message.trim().is_empty() {
            invalid(out, &path("message"), &message.into(), "must be non-empty if specified");
        } else if message.trim().contains(['\n', '\r']) {
            invalid(out, &path("message"), &message.into(), "must not contain line breaks");
        }
        let known = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        if let Some(reason) = at(validation, "/reason").filter(|it| !known.iter().any(|known| it == known)) {
            unsupported(out, &path("reason"), reason, &known);
        }
    }
}

/// Validates `auditAnnotations` of a policy of this name.
pub(super) fn audit_annotations(
    out: &mut FieldErrors,
    compiler: &Compiler,
    (policy, annotations): (&str, &[Value]),
    declared: Declared,
) {
    if annotations.len() > MAX_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        invalid(out, "spec.auditAnnotations", &annotations.to_vec().into(), &detail);
    }
    let mut keys_before = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = |field: &str| format!("spec.auditAnnotations[{index}].{field}");
        let key = text(annotation, "/key");
        if policy.is_empty() {
            invalid(out, &path("key"), &key.into(), "requires metadata.name be non-empty");
        } else {
            let qualified = format!("{policy}/{key}");
            invalid_string(out, &path("key"), &qualified, names::qualified(&qualified));
        }
        let (source, value_path) = (text(annotation, "/valueExpression"), path("valueExpression"));
        match source.trim() {
            "" => required(out, &value_path, "valueExpression is not specified"),
            long if long.len() > MAX_ANNOTATION_EXPRESSION => {
                let detail = format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length");
                required(out, &value_path, &detail);
            }
            trimmed => {
                let found = compiler.compile(trimmed, Returns::TextOrNull, declared).program.err();
                problem(out, &value_path, source, found);
            }
        }
        if !keys_before.insert(key) {
            duplicate(out, &path("key"), &key.into());
        }
    }
}

/// Validates `mutations`.
pub(super) fn mutations(out: &mut FieldErrors, compiler: &Compiler, mutations: &[Value], declared: Declared) {
    let declared = Declared { patches: true, ..declared };
    for (index, mutation) in mutations.iter().enumerate() {
        let path = |field: &str| format!("spec.mutations[{index}].{field}");
        let (own, other, returns) = match at(mutation, "/patchType") {
            None => {
                required(out, &path("patchType"), "");
                continue;
            }
            Some(kind) if kind == "" => {
                required(out, &path("patchType"), "");
                continue;
            }
            Some(kind) if kind == "JSONPatch" => ("jsonPatch", "applyConfiguration", Returns::Patches),
            Some(kind) if kind == "ApplyConfiguration" => {
                ("applyConfiguration", "jsonPatch", Returns::Object)
            }
            Some(kind) => {
                unsupported(out, &path("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        let kind = text(mutation, "/patchType");
        match at(mutation, &format!("/{own}")) {
            None => {
                let detail = format!("must be specified when patchType is {kind}");
                required(out, &path(own), &detail);
            }
            Some(patch) => {
                let (source, path) = (text(patch, "/expression").trim(), path(&format!("{own}.expression")));
                if source.is_empty() {
                    required(out, &path, "");
                } else {
                    expression(out, compiler, (source, &path), returns, declared);
                }
            }
        }
        if at(mutation, &format!("/{other}")).is_some() {
            let detail = format!("must not be specified when patchType is {kind}");
            invalid(out, &path(other), &format!("{{{other}}}").into(), &detail);
        }
    }
}

/// Returns true if nothing has changed that could make match conditions invalid.
pub(super) fn keeps_conditions(new: &Value, old: Option<&Value>) -> bool {
    let same = |old: &Value, pointer: &str| at(new, pointer) == at(old, pointer);
    let same_conditions =
        |old: &Value| items(new, "/spec/matchConditions") == items(old, "/spec/matchConditions");
    old.is_some_and(|old| same(old, "/spec/paramKind") && same_conditions(old))
}

fn is_identifier(name: &str) -> bool {
    let is_start = |it: char| it == '_' || it.is_ascii_alphabetic();
    name.starts_with(is_start)
        && name.chars().all(|it| is_start(it) || it.is_ascii_digit())
        && !is_reserved(name)
}
