//! Validation of the defaults of a schema: they must be valid, and have no fields that would be
//! pruned.

use serde_json::Value;

use super::Structural;
use super::go_format::shown;
use super::keywords;
use super::{embedded, metadata, prune, validate};
use crate::api_error::{FieldError, FieldErrorKind};

/// Returns the problems of the defaults of a structural schema.
pub(crate) fn problems(schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut problems = Vec::new();
    // The root is validated like an embedded resource.
    let root = Structural { embedded: true, ..schema.clone() };
    visit(&root, path, false, &mut problems);
    problems
}

fn visit(schema: &Structural, path: &str, inside_meta: bool, problems: &mut Vec<FieldError>) {
    let inside_meta = inside_meta && !schema.embedded;
    if let Some(default) = &schema.default {
        check(default, schema, &format!("{path}.default"), inside_meta, problems);
    }
    if let Some(items) = schema.items.as_deref() {
        visit(items, &format!("{path}.items"), inside_meta, problems);
    }
    for (name, property) in &schema.properties {
        let meta = inside_meta || (schema.embedded && prune::is_meta(name));
        visit(property, &keywords::property(path, name), meta, problems);
    }
}

fn check(
    default: &Value,
    schema: &Structural,
    path: &str,
    inside_meta: bool,
    problems: &mut Vec<FieldError>,
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
        problems.extend(found);
        return;
    }
    problems.extend(validate::validate_part(default, None, schema, path));
}
