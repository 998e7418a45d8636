//! Validation of the defaults of a schema: they must be valid, and have no fields that would be
//! pruned.

use serde_json::Value;

use super::Structural;
use super::go_format::shown;
use super::schema_path::SchemaPath;
use super::{embedded, metadata, prune, validate};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// Returns the problems of the defaults of a structural schema.
pub(crate) fn problems(schema: Structural, path: &str) -> FieldErrors {
    let mut problems = FieldErrors::new();
    // The root is validated like an embedded resource.
    let root = Structural { embedded: true, ..schema };
    visit(&root, &SchemaPath::root(path), false, &mut problems);
    problems
}

fn visit(schema: &Structural, path: &SchemaPath, inside_meta: bool, problems: &mut FieldErrors) {
    let inside_meta = inside_meta && !schema.embedded;
    if let Some(default) = &schema.default {
        // The path is formatted only for a default with a problem.
        let mut found = FieldErrors::new();
        check(default, schema, "", inside_meta, &mut found);
        if !found.is_empty() && problems.is_full() {
            problems.leave_out(found.count());
        } else if !found.is_empty() {
            check(default, schema, &path.keyword("default").to_string(), inside_meta, problems);
        }
    }
    if let Some(items) = schema.items.as_deref() {
        visit(items, &path.keyword("items"), inside_meta, problems);
    }
    for (name, property) in &schema.properties {
        let meta = inside_meta || (schema.embedded && prune::is_meta(name));
        visit(property, &path.property(name), meta, problems);
    }
}

fn check(default: &Value, schema: &Structural, path: &str, inside_meta: bool, problems: &mut FieldErrors) {
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
    problems.append(validate::validate_part(default, None, schema, path));
}
