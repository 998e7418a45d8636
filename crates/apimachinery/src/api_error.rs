//! Error responses: [`ApiError`], a [`Status`] whose message copies the wording of
//! k8s.io/apimachinery v0.36.4 pkg/api/errors/errors.go.
//!
//! Every layer returns a [`ApiError`]; only the HTTP layer turns it into a response.

use std::collections::HashSet;
use std::fmt;

use dogwatch_core::{Cause, Details, Reason, Status};

use crate::strconv::quote;

/// A rejected request. Boxed, because the error is the rare case of every result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiError(pub Box<Status>);

/// One validation error of an object: a field, the type of the error, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// The type of the error.
    pub kind: FieldErrorKind,
    /// The message without the field path, for example
    /// `Required value: name or generateName is required`.
    pub message: String,
}

/// The types of validation errors that the API distinguishes.
///
/// Mirrors `ErrorType` of k8s.io/apimachinery v0.36.4 pkg/util/validation/field/errors.go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// A required value is missing.
    Required,
    /// A value is malformed or not allowed here.
    Invalid,
    /// A value is not one of the supported values.
    NotSupported,
    /// A value must not be set, or must not be changed.
    Forbidden,
    /// A value occurs more than once.
    Duplicate,
    /// A value refers to something that does not exist.
    NotFound,
    /// A string is too long.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// A value has the wrong type.
    TypeInvalid,
    /// The check itself failed.
    Internal,
}

impl FieldErrorKind {
    /// Returns the `reason` of the cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    /// Returns the text that a message of this type begins with.
    pub fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

impl FieldError {
    /// Creates an error that shows no value: `Required value: detail`, or `Required value` if
    /// `detail` is empty.
    pub fn new(field: impl Into<String>, kind: FieldErrorKind, detail: &str) -> Self {
        let words = kind.words();
        let message = if detail.is_empty() { words.to_owned() } else { format!("{words}: {detail}") };
        Self { field: field.into(), kind, message }
    }

    /// Creates an error that shows the value: `Invalid value: "x": detail`.
    pub fn with_value(
        field: impl Into<String>,
        kind: FieldErrorKind,
        value: impl fmt::Display,
        detail: &str,
    ) -> Self {
        let words = kind.words();
        let message = if detail.is_empty() {
            format!("{words}: {value}")
        } else {
            format!("{words}: {value}: {detail}")
        };
        Self { field: field.into(), kind, message }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl ApiError {
    /// Creates an error with a reason and a message only; the status code follows from the reason.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let mut status = Status::failure(reason, message);
        status.details = Some(Details::default());
        Self(Box::new(status))
    }

    /// Creates a 400 with this message.
    pub fn bad_request(message: impl Into<String>) -> Self {
        let mut refusal = Self::new(Reason::BadRequest, message);
        // `NewBadRequest` of k8s.io/apimachinery v0.36.4 pkg/api/errors/errors.go sets no details.
        refusal.0.details = None;
        refusal
    }

    /// Creates a 500 with this message.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Reason::InternalError, message)
    }

    /// Creates a 500 for an internal failure, with the message and the cause that kube-apiserver
    /// gives it (`NewInternalError` of k8s.io/apimachinery v0.36.4 pkg/api/errors/errors.go).
    pub fn internal_failure(why: &str) -> Self {
        Self::internal(format!("Internal error occurred: {why}")).cause("", why, "")
    }

    /// Creates a 500 without a reason, as kube-apiserver returns for an error that is not a
    /// `Status` itself (`ErrorToAPIStatus` in k8s.io/apiserver v0.36.4
    /// pkg/endpoints/handlers/responsewriters/status.go).
    pub fn unexplained(message: impl Into<String>) -> Self {
        let mut status = Status::failure(Reason::Unknown, message);
        status.code = 500;
        Self(Box::new(status))
    }

    /// Creates a 422: the object is invalid.
    ///
    /// Each problem becomes a cause. The message lists all problems, without repeating equal ones.
    pub fn invalid(group: &str, kind: &str, name: &str, problems: &[FieldError]) -> Self {
        let mut seen = HashSet::new();
        let mut listed: Vec<String> = Vec::new();
        for problem in problems.iter().map(ToString::to_string) {
            if seen.insert(problem.clone()) {
                listed.push(problem);
            }
        }
        let listed = match listed.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut refusal =
            Self::new(Reason::Invalid, format!("{qualified} {} is invalid: {listed}", quote(name)));
        let cause = |problem: &FieldError| Cause {
            reason: problem.kind.reason().to_owned(),
            message: problem.message.clone(),
            field: problem.field.clone(),
        };
        refusal.0.details = Some(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: problems.iter().map(cause).collect(),
            ..Details::default()
        });
        refusal
    }

    /// Creates a 404: the object does not exist.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        Self::of_object(
            Reason::NotFound,
            group,
            plural,
            name,
            format!("{} {} not found", qualified(group, plural), quote(name)),
        )
    }

    /// Creates a 409: an object of that name already exists.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {} already exists", qualified(group, plural), quote(name));
        Self::of_object(Reason::AlreadyExists, group, plural, name, message)
    }

    /// Creates a 409: the object is in a state that does not permit the request.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {}: {why}", qualified(group, plural), quote(name));
        Self::of_object(Reason::Conflict, group, plural, name, message)
    }

    /// Creates a 403: the request is not allowed.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = match (plural, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, plural)),
            _ => format!("{} {} is forbidden: {why}", qualified(group, plural), quote(name)),
        };
        Self::of_object(Reason::Forbidden, group, plural, name, message)
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let cause = Cause { reason: reason.to_owned(), message: message.to_owned(), field: field.to_owned() };
        self.0.details.get_or_insert_default().causes.push(cause);
        self
    }

    fn of_object(reason: Reason, group: &str, plural: &str, name: &str, message: String) -> Self {
        let mut refusal = Self::new(reason, message);
        refusal.0.details = Some(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: plural.to_owned(),
            ..Details::default()
        });
        refusal
    }
}

fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_kube_apiserver() {
        for (refusal, code, message) in [
            (ApiError::not_found("", "pods", "x"), 404, r#"pods "x" not found"#),
            (ApiError::not_found("ex.io", "foos", "x"), 404, r#"foos.ex.io "x" not found"#),
            (ApiError::already_exists("", "configmaps", "a"), 409, r#"configmaps "a" already exists"#),
            (
                ApiError::forbidden("", "namespaces", "default", "this namespace may not be deleted"),
                403,
                r#"namespaces "default" is forbidden: this namespace may not be deleted"#,
            ),
        ] {
            assert_eq!((refusal.0.code, refusal.0.message.as_str()), (code, message));
        }
    }

    #[test]
    fn several_problems_share_one_message_and_get_a_cause_each() {
        let problems = [
            FieldError::new("metadata.name", FieldErrorKind::Required, "name or generateName is required"),
            FieldError::with_value(
                "spec.replicas",
                FieldErrorKind::Invalid,
                -1,
                "must be greater than or equal to 0",
            ),
        ];
        let refusal = ApiError::invalid("apps", "Deployment", "x", &problems);
        assert_eq!(
            refusal.0.message,
            "Deployment.apps \"x\" is invalid: [metadata.name: Required value: name or generateName is required, \
             spec.replicas: Invalid value: -1: must be greater than or equal to 0]"
        );
        assert_eq!(refusal.0.causes().len(), 2);
        assert_eq!(refusal.0.causes()[0].reason, "FieldValueRequired");
        let twice = [problems[0].clone(), problems[0].clone()];
        let refusal = ApiError::invalid("", "Pod", "x", &twice);
        assert_eq!(refusal.0.message.matches("metadata.name").count(), 1);
        assert_eq!(refusal.0.causes().len(), 2);
    }
}
