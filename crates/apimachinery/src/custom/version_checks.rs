//! Validation of a version of a definition apart from its schema: deprecation, subresources,
//! columns, selectable fields; and of the conversion between versions.

use std::collections::HashSet;

use serde_json::Value;

use super::Structural;
use super::go_format::{json as compact, quoted, quoted_list};
use super::keywords::{flag, listed, text};
use super::scale;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// Checks the deprecation warning of a version.
pub(crate) fn check_deprecation(version: &Value, path: &str, problems: &mut FieldErrors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let field = format!("{path}.deprecationWarning");
    let unprintable = warning.char_indices().find(|(_, ch)| ch.is_control());
    let fault = match unprintable {
        _ if !flag(version, "deprecated") => "can only be set for deprecated versions".to_owned(),
        _ if warning.len() > 256 => "must be <= 256 characters long".to_owned(),
        _ if warning.is_empty() => "must not be an empty string".to_owned(),
        Some((at, _)) => {
            format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            )
        }
        None => return,
    };
    problems.push(invalid(&field, &quoted(warning), &fault));
}

/// Checks the paths of `scale`.
pub(crate) fn check_subresources(subresources: &Value, path: &str, problems: &mut FieldErrors) {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else { return };
    for (key, prefixes, words) in [
        ("specReplicasPath", &[".spec."] as &[&str], ".spec"),
        ("statusReplicasPath", &[".status."], ".status"),
        ("labelSelectorPath", &[".spec.", ".status."], "either .spec or .status"),
    ] {
        let value = text(scale, key);
        let field = format!("{path}.scale.{key}");
        if value.is_empty() {
            if key != "labelSelectorPath" {
                problems.push(FieldError::new(field, FieldErrorKind::Required, ""));
            }
        } else if !value.starts_with('.') {
            problems.push(invalid(&field, &quoted(value), "must be a simple json path starting with ."));
        } else if !prefixes.iter().any(|prefix| value.starts_with(prefix)) {
            problems.push(invalid(&field, &quoted(value), &format!("should be a json path under {words}")));
        } else if scale::is_too_deep(value) {
            // A write of the scale creates the objects on the path.
            let detail = format!("must have at most {} parts (a limit of this server)", scale::MAX_PARTS);
            problems.push(FieldError::new(field, FieldErrorKind::TooMany, &detail));
        }
    }
}

/// The number of columns that a version may have. kube-apiserver has no limit. Each row of a table
/// has a cell for each of them.
const MAX_COLUMNS: usize = 256;

/// Checks the columns of a version.
pub(crate) fn check_columns(version: &Value, path: &str, problems: &mut FieldErrors) {
    const KINDS: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let columns = listed(version, "additionalPrinterColumns");
    if columns.len() > MAX_COLUMNS {
        let detail = format!("must have at most {MAX_COLUMNS} items (a limit of this server)");
        let count = columns.len();
        return problems.push(FieldError::with_value(path, FieldErrorKind::TooMany, count, &detail));
    }
    for (index, column) in columns.iter().enumerate() {
        let field = |key: &str| format!("{path}[{index}].{key}");
        if text(column, "name").is_empty() {
            problems.push(FieldError::new(field("name"), FieldErrorKind::Required, ""));
        }
        let kind = text(column, "type");
        let detail = format!("must be one of {}", KINDS.join(","));
        if kind.is_empty() {
            problems.push(FieldError::new(field("type"), FieldErrorKind::Required, &detail));
        } else if !KINDS.contains(&kind) {
            problems.push(invalid(&field("type"), &quoted(kind), &detail));
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            problems.push(invalid(&field("format"), &quoted(format), &detail));
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            problems.push(FieldError::new(field("JSONPath"), FieldErrorKind::Required, ""));
        } else if !json_path.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            problems.push(invalid(&field("JSONPath"), &quoted(json_path), detail));
        }
    }
}

/// Checks the selectable fields of a version: known scalars outside of `metadata`, at most eight.
pub(crate) fn check_selectable(version: &Value, path: &str, problems: &mut FieldErrors) {
    let fields = listed(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let schema = Structural::parse(&version["schema"]["openAPIV3Schema"]);
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let json_path = text(field, "jsonPath");
        let field = format!("{path}[{index}].jsonPath");
        if json_path.is_empty() {
            problems.push(FieldError::new(field, FieldErrorKind::Required, ""));
            continue;
        }
        let found = match field_schema(json_path, &schema) {
            Ok(found) => found,
            Err(why) => {
                problems.push(invalid(&field, &quoted(json_path), &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if json_path.starts_with(".metadata.") || json_path == ".metadata" {
            problems.push(invalid(&field, &quoted(json_path), "must not point to fields in metadata"));
        }
        let kind = found.and_then(|found| found.kind);
        if !matches!(kind.map(|kind| kind.name()), Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                          formats are allowed.";
            problems.push(invalid(&field, &quoted(json_path), detail));
        }
        if !seen.insert(json_path) {
            problems.push(FieldError::with_value(field, FieldErrorKind::Duplicate, quoted(json_path), ""));
        }
    }
    if seen.len() > 8 {
        problems.push(FieldError::with_value(
            path,
            FieldErrorKind::TooMany,
            seen.len(),
            "must have at most 8 items",
        ));
    }
}

/// Returns the schema of the field that a path names; `None` for an entry of an object that may
/// have any. `ValidFieldPath` without array notation, in k8s.io/apiextensions-apiserver v0.36.4
/// pkg/apiserver/schema/cel/validation.go.
///
/// # Errors
/// The reason why the path does not name a field.
fn field_schema<'a>(path: &str, root: &'a Structural) -> Result<Option<&'a Structural>, String> {
    const UNKNOWN: &str = "does not refer to a valid field";
    let (mut schema, mut rest) = (Some(root), path);
    while !rest.is_empty() {
        match next_token(&mut rest) {
            "[" => return Err("array notation is not allowed".to_owned()),
            "." if rest.is_empty() => return Err("unexpected end of JSON path".to_owned()),
            "." => {
                let name = next_token(&mut rest);
                // kube-apiserver panics below an object that may have any entries.
                let outer = schema.ok_or(UNKNOWN)?;
                schema = match &outer.additional {
                    Some(_) if outer.properties.is_empty() => outer.additional_schema(),
                    _ => Some(outer.properties.get(name).ok_or(UNKNOWN)?),
                };
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(schema)
}

/// Removes the first token of a path that is not empty: a delimiter, or the text up to the next
/// one. A text in single quotes contains delimiters.
fn next_token<'a>(rest: &mut &'a str) -> &'a str {
    let is_delimiter = |it: char| matches!(it, '.' | '[' | ']');
    let end = if rest.starts_with('\'') {
        let closing = rest.match_indices('\'').skip(1).find(|(at, _)| !rest[..*at].ends_with('\\'));
        closing.map(|(at, _)| at + 1)
    } else if rest.starts_with(is_delimiter) {
        Some(1)
    } else {
        rest.find(is_delimiter)
    };
    let (token, behind) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = behind;
    token
}

/// Checks the conversion between versions.
pub(crate) fn check_conversion(spec: &Value, problems: &mut FieldErrors) {
    let conversion = &spec["conversion"];
    let strategy = text(conversion, "strategy");
    if strategy != "None" && flag(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        problems.push(invalid("spec.conversion.strategy", &quoted(strategy), detail));
    }
    check_choice("spec.conversion.strategy", strategy, &["None", "Webhook"], problems);
    let webhook = &conversion["webhook"];
    let (config, reviews) =
        ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    let client = webhook.get("clientConfig").filter(|client| client.is_object());
    let accepted = listed(webhook, "conversionReviewVersions");
    if strategy != "Webhook" {
        for (field, there) in [(config, client.is_some()), (reviews, !accepted.is_empty())] {
            if there {
                problems.push(forbidden(field, "should not be set when strategy is not set to Webhook"));
            }
        }
        return;
    }
    match client {
        None => problems.push(FieldError::new(
            config,
            FieldErrorKind::Required,
            "required when strategy is set to Webhook",
        )),
        Some(client) if client["url"].is_string() == client["service"].is_object() => {
            problems.push(FieldError::new(
                config,
                FieldErrorKind::Required,
                "exactly one of url or service is required",
            ));
        }
        Some(_) => {}
    }
    if accepted.is_empty() {
        problems.push(FieldError::new(reviews, FieldErrorKind::Required, ""));
    } else if !accepted.iter().any(|version| version == "v1" || version == "v1beta1") {
        let value = compact(&Value::Array(accepted.to_vec()));
        problems.push(invalid(reviews, &value, "must include at least one of v1, v1beta1"));
    }
}

/// Checks a value against the supported ones.
pub(crate) fn check_choice(field: &str, value: &str, choices: &[&str], problems: &mut FieldErrors) {
    if value.is_empty() {
        problems.push(FieldError::new(field, FieldErrorKind::Required, ""));
    } else if !choices.contains(&value) {
        let detail = format!("supported values: {}", quoted_list(choices));
        problems.push(FieldError::with_value(field, FieldErrorKind::NotSupported, quoted(value), &detail));
    }
}

/// Returns the problem of an invalid value.
pub(crate) fn invalid(field: &str, value: &str, detail: &str) -> FieldError {
    FieldError::with_value(field, FieldErrorKind::Invalid, value, detail)
}

/// Returns the problem of a forbidden field.
pub(crate) fn forbidden(field: &str, detail: &str) -> FieldError {
    FieldError::new(field, FieldErrorKind::Forbidden, detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::custom::scale::{ScalePaths, apply_scale};

    /// Regression test: a write of the scale created an object of this depth, which ended the
    /// process.
    #[test]
    fn a_scale_path_is_not_deeper_than_an_object() {
        let problems = |parts: usize| {
            let path = format!(".spec{}", ".a".repeat(parts - 1));
            let subresources =
                json!({ "scale": { "specReplicasPath": path, "statusReplicasPath": ".status.n" } });
            let mut problems = FieldErrors::new();
            check_subresources(&subresources, "p", &mut problems);
            problems.into_iter().map(|it| it.field).collect::<Vec<_>>()
        };
        assert_eq!(problems(scale::MAX_PARTS), [""; 0]);
        for parts in [scale::MAX_PARTS + 1, 50_000] {
            assert_eq!(problems(parts), ["p.scale.specReplicasPath"]);
        }
        let path = |parts: usize| ScalePaths {
            spec_replicas: format!(".spec{}", ".a".repeat(parts - 1)),
            status_replicas: ".status.n".to_owned(),
            selector: None,
        };
        let new = json!({ "spec": { "replicas": 3 } });
        let mut object = json!({ "spec": {} });
        assert!(apply_scale(&mut object, &new, &path(50_000)).is_err());
        assert!(apply_scale(&mut object, &new, &path(scale::MAX_PARTS)).is_ok());
        assert!(!crate::depth::is_exceeded_by(&object));
    }

    /// Any number of leading dots was ignored, so one field could be listed any number of times.
    #[test]
    fn each_selectable_field_has_one_path() {
        let found = |paths: &[&str]| {
            let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
                "a": { "type": "string" }, "any": { "type": "object", "additionalProperties": true },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } } } } } });
            let fields: Vec<Value> = paths.iter().map(|it| json!({ "jsonPath": it })).collect();
            let version = json!({ "schema": { "openAPIV3Schema": schema }, "selectableFields": fields });
            let mut problems = FieldErrors::new();
            check_selectable(&version, "f", &mut problems);
            problems.into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[".spec.a", ".spec.labels.x", ".spec.labels.y"]), [""; 0]);
        let twice = found(&[".spec.a", ".spec.a"]);
        assert_eq!(twice, [r#"f[1].jsonPath: Duplicate value: ".spec.a""#]);
        let unknown = "does not refer to a valid field";
        for (path, why) in [
            ("..spec.a", unknown),
            ("...spec.a", unknown),
            (".spec..a", unknown),
            (".spec.b", unknown),
            (".spec.'a.b'", unknown),
            (".spec.any.a.b", unknown),
            (".spec.a.b", unknown),
            (".spec.a.", "unexpected end of JSON path"),
            (".", "unexpected end of JSON path"),
            (".spec['a']", "array notation is not allowed"),
            (".spec.a]", "expected [ or . but got: ]"),
            ("spec.a", "expected [ or . but got: spec"),
            ("a-b.c", "expected [ or . but got: a-b"),
        ] {
            let expected = format!("f[0].jsonPath: Invalid value: {path:?}: is an invalid path: {why}");
            assert_eq!(found(&[path]), [expected], "{path}");
        }
        let expected = "f[0].jsonPath: Invalid value: \".spec.any.a\": must point to a field of type string, boolean \
                        or integer. Enum string fields and strings with formats are allowed.";
        assert_eq!(found(&[".spec.any.a"]), [expected]);
    }

    #[test]
    fn a_version_has_at_most_256_columns() {
        let found = |count: usize| {
            let column = json!({ "name": "c", "type": "string", "jsonPath": ".spec.a" });
            let mut problems = FieldErrors::new();
            let version = json!({ "additionalPrinterColumns": vec![column; count] });
            check_columns(&version, "columns", &mut problems);
            problems.into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect::<Vec<_>>()
        };
        assert_eq!(found(256), [""; 0]);
        let expected = "columns: Too many: 257: must have at most 256 items (a limit of this server)";
        assert_eq!(found(257), [expected]);
    }
}
