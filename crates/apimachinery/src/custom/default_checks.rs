//! Validation of the defaults of a schema: they must be valid, and have no fields that would be
//! pruned.

use serde_json::Value;

use super::Structural;
use super::go_format::shown;
use super::schema_path::SchemaPath;
use super::validate::CheckBudget;
use super::{embedded, metadata, prune, validate};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// Returns the problems of the defaults of a structural schema. All schemas of a definition share a
/// budget; the default that exceeds it is the last one to be checked.
pub(crate) fn problems(schema: Structural, path: &str, budget: &mut CheckBudget) -> FieldErrors {
    let mut problems = FieldErrors::new();
    // The root is validated like an embedded resource.
    let root = Structural { embedded: true, ..schema };
    visit(&root, &SchemaPath::root(path), false, budget, &mut problems);
    problems
}

fn visit(
    schema: &Structural,
    path: &SchemaPath,
    inside_meta: bool,
    budget: &mut CheckBudget,
    problems: &mut FieldErrors,
) {
    if budget.is_spent() {
        return;
    }
    let inside_meta = inside_meta && !schema.embedded;
    if let Some(default) = &schema.default {
        // The path is formatted only for a default with a problem.
        let mut found = FieldErrors::new();
        check(default, schema, "", inside_meta, budget, &mut found);
        if !found.is_empty() && problems.is_full() {
            problems.leave_out(found.count());
        } else if !found.is_empty() {
            let path = path.keyword("default").to_string();
            check(default, schema, &path, inside_meta, budget, problems);
        }
    }
    if let Some(items) = schema.items.as_deref() {
        visit(items, &path.keyword("items"), inside_meta, budget, problems);
    }
    for (name, property) in &schema.properties {
        let meta = inside_meta || (schema.embedded && prune::is_meta(name));
        visit(property, &path.property(name), meta, budget, problems);
    }
}

fn check(
    default: &Value,
    schema: &Structural,
    path: &str,
    inside_meta: bool,
    budget: &mut CheckBudget,
    problems: &mut FieldErrors,
) {
    let mut pruned = default.clone();
    if !inside_meta && !prune::prune_part(&mut pruned, schema).is_empty() {
        problems.push(FieldError::with_value(
            path,
            FieldErrorKind::Invalid,
            shown(default),
            "must not have unknown fields",
        ));
    }
    if let Err(words) = metadata::coerce_part(&mut pruned, schema, path) {
        let (field, message) = words.split_once(": ").unwrap_or((path, &words));
        problems.push(FieldError {
            field: field.to_owned(),
            kind: FieldErrorKind::Invalid,
            message: message.to_owned(),
        });
        return;
    }
    let found = embedded::problems(default, schema, path);
    if !found.is_empty() {
        problems.append(found);
        return;
    }
    problems.append(validate::validate_default(default, schema, path, budget));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_defaults_of_a_schema_share_the_checks_that_they_take() {
        let schema = |alternatives: usize| {
            // Only the last alternative is fulfilled by the items.
            let alternatives: Vec<Value> =
                (0..alternatives).rev().map(|least| json!({ "minimum": least })).collect();
            let items = json!({ "type": "integer", "anyOf": alternatives });
            let mut schema = json!({ "type": "array", "items": items, "default": vec![0; 100] });
            for _ in 0..40 {
                let default = json!({ "a": schema["default"] });
                schema = json!({ "type": "object", "default": default, "properties": { "a": schema } });
            }
            json!({ "type": "object", "properties": { "spec": schema } })
        };
        let found = |schema: &Value, budget: &mut CheckBudget| {
            let found = problems(Structural::parse(schema), "s", budget);
            found.into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect::<Vec<_>>()
        };
        let (small, large) = (schema(100), schema(2_000));
        let mut budget = CheckBudget::of(&small);
        assert_eq!(found(&small, &mut budget), [""; 0]);
        assert!(!budget.is_spent());
        let mut budget = CheckBudget::of(&large);
        let problems = found(&large, &mut budget);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        let words = "Too many: the alternatives and patterns in its schema take too many checks";
        assert!(problem.starts_with("s.properties[spec].") && problem.ends_with(words), "{problem}");
        assert_eq!(found(&small, &mut budget), [""; 0], "nothing else is checked");
    }
}
