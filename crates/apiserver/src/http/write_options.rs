//! The options of a write: read from the query and validated with kube-apiserver's messages
//! (k8s.io/apimachinery v0.36.4 pkg/apis/meta/v1/validation/validation.go).

use http::HeaderMap;
use http::header::USER_AGENT;

use super::query::Query;
use crate::cluster::{FieldValidation, RefusedWarnings, Writer};
use crate::kinds::validate::field_manager;
use crate::strconv;
use crate::user::User;
use crate::{ApiError, FieldError, FieldErrorKind};

/// The type of the options, which decides their name and validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Options {
    /// The options of a create.
    Create,
    /// The options of an update.
    Update,
    /// The options of a patch.
    Patch,
    /// The options of a server-side apply.
    Apply,
}

/// Returns the user, field manager and mode of a write, from the query and the headers.
///
/// # Errors
///
/// Returns 422 with one cause for each invalid option.
pub(super) fn writer(
    options: Options,
    query: &Query,
    headers: &HeaderMap,
    user: User,
) -> Result<Writer, ApiError> {
    let given = query.get("fieldManager").unwrap_or_default();
    let mut problems = Vec::new();
    match options {
        Options::Patch if query.flag("force").is_some() => {
            let detail = "may not be specified for non-apply patch";
            problems.push(FieldError::new("force", FieldErrorKind::Forbidden, detail));
        }
        Options::Apply if given.is_empty() => {
            problems.push(FieldError::new(
                "fieldManager",
                FieldErrorKind::Required,
                "is required for apply patch",
            ));
        }
        _ => {}
    }
    problems.extend(field_manager::problems("fieldManager", given));
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    problems.extend(dry_run_problem(&dry_run));
    let validation = match query.get("fieldValidation").unwrap_or_default() {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let detail = r#"supported values: "", "Ignore", "Strict", "Warn""#;
            let value = format_args!("{other:?}");
            problems.push(FieldError::with_value(
                "fieldValidation",
                FieldErrorKind::NotSupported,
                value,
                detail,
            ));
            FieldValidation::default()
        }
    };
    if !problems.is_empty() {
        return Err(ApiError::invalid("meta.k8s.io", options.kind(), "", &problems));
    }
    let manager = if given.is_empty() { manager_of_agent(headers) } else { given.to_owned() };
    let refused_warnings = RefusedWarnings::default();
    Ok(Writer { user, manager, dry_run: !dry_run.is_empty(), validation, refused_warnings })
}

/// Returns the problem of a `dryRun` parameter; only `All` is supported.
pub(super) fn dry_run_problem(dry_run: &[&str]) -> Option<FieldError> {
    let unknown = dry_run.iter().any(|it| *it != "All");
    let shown = || serde_json::json!(dry_run);
    unknown.then(|| {
        FieldError::with_value("dryRun", FieldErrorKind::NotSupported, shown(), r#"supported values: "All""#)
    })
}

/// Returns the default field manager: the `User-Agent` up to the first slash, as
/// `prefixFromUserAgent` in k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/create.go.
pub(super) fn manager_of_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let mut manager = agent.split('/').next().unwrap_or_default().to_owned();
    manager.retain(strconv::is_printable);
    let end = (0..=field_manager::MAX_LENGTH.min(manager.len()))
        .rev()
        .find(|it| manager.is_char_boundary(*it))
        .unwrap_or(0);
    manager.truncate(end);
    manager
}

impl Options {
    /// Returns the kind name in error messages.
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: Options, query: &str) -> Result<Writer, String> {
        let headers = HeaderMap::from_iter([(USER_AGENT, "kubectl/v1.36 (linux)".parse().expect("a value"))]);
        writer(options, &Query::parse(Some(query)), &headers, User::admin())
            .map_err(|it| it.0.message.clone())
    }

    #[test]
    fn options_come_from_the_query_and_the_manager_defaults_to_the_user_agent() {
        let writer = read(Options::Create, "dryRun=All&fieldValidation=Strict").expect("valid");
        assert_eq!((writer.manager.as_str(), writer.dry_run), ("kubectl", true));
        assert_eq!(writer.validation, FieldValidation::Strict);
        let writer = read(Options::Apply, "fieldManager=me&force=true").expect("valid");
        assert_eq!((writer.manager.as_str(), writer.dry_run), ("me", false));
        assert_eq!(writer.validation, FieldValidation::Warn);
    }

    #[test]
    fn every_invalid_option_has_the_message_of_kube_apiserver() {
        let long = format!("fieldManager={}", "m".repeat(129));
        for (options, query, problem) in [
            (
                Options::Create,
                "dryRun=Some",
                r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#,
            ),
            (
                Options::Update,
                "dryRun=All&dryRun=Some",
                r#"dryRun: Unsupported value: ["All","Some"]: supported values: "All""#,
            ),
            (
                Options::Create,
                "fieldValidation=Maybe",
                r#"fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn""#,
            ),
            (Options::Patch, "force=abc", "force: Forbidden: may not be specified for non-apply patch"),
            (
                Options::Patch,
                "fieldManager=bad%0Aname",
                r#"fieldManager: Invalid value: "bad\nname": invalid character U+000A (at position 3)"#,
            ),
            (Options::Apply, "", "fieldManager: Required value: is required for apply patch"),
            (Options::Apply, &long, "fieldManager: Too long: may not be more than 128 bytes"),
            (
                Options::Create,
                "dryRun=Some&fieldManager=a%0Ab&fieldValidation=X",
                "[fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1), dryRun: Unsupported \
                 value: [\"Some\"]: supported values: \"All\", fieldValidation: Unsupported value: \"X\": supported values: \
                 \"\", \"Ignore\", \"Strict\", \"Warn\"]",
            ),
        ] {
            let expected = format!("{}.meta.k8s.io \"\" is invalid: {problem}", options.kind());
            assert_eq!(read(options, query).expect_err(query), expected);
        }
    }
}
