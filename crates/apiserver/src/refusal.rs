//! How this server says no: a [`Status`] with the exact words of the original.
//!
//! Every module below returns a [`Refusal`]; turning it into an HTTP answer is the business of the last one.

use std::collections::HashSet;
use std::fmt;

use dogwatch_core::{Cause, Details, Reason, Status};

/// A refused request. Boxed, because it is the rare case of every result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub Box<Status>);

/// One thing that is wrong with an object: a field, what kind of mistake, and the words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// What kind of mistake it is.
    pub kind: ProblemKind,
    /// The whole message behind the path, for example `Required value: name or generateName is required`.
    pub message: String,
}

/// The kinds of mistakes the API knows, with their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A value is missing.
    Required,
    /// A value is malformed or not allowed here.
    Invalid,
    /// A value is none of those that are supported.
    NotSupported,
    /// A value may not be set, or not be changed.
    Forbidden,
    /// A value is there twice.
    Duplicate,
    /// A value names something that is not there.
    NotFound,
    /// A text is too long.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// A value has the wrong type.
    TypeInvalid,
    /// Something broke while checking.
    Internal,
}

impl ProblemKind {
    /// The reason of the cause in a `Status`.
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

    /// The words a message begins with.
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

impl Problem {
    /// A mistake without a value to show: `Required value: detail`, or `Required value` where the detail is empty.
    pub fn new(field: impl Into<String>, kind: ProblemKind, detail: &str) -> Self {
        let words = kind.words();
        let message = if detail.is_empty() { words.to_owned() } else { format!("{words}: {detail}") };
        Self { field: field.into(), kind, message }
    }

    /// A mistake that shows the value: `Invalid value: "x": detail`.
    pub fn with_value(
        field: impl Into<String>,
        kind: ProblemKind,
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Refusal {
    /// A refusal with nothing but a reason and a message; the code goes with the reason.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let mut status = Status::failure(reason, message);
        status.details = Some(Details::default());
        Self(Box::new(status))
    }

    /// 400 with these words.
    pub fn bad_request(message: impl Into<String>) -> Self {
        let mut refusal = Self::new(Reason::BadRequest, message);
        refusal.0.details = None;
        refusal
    }

    /// 500 with these words.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Reason::InternalError, message)
    }

    /// 500 without any reason, as the original gives where it wraps a plain error.
    pub fn unexplained(message: impl Into<String>) -> Self {
        let mut status = Status::failure(Reason::Unknown, message);
        status.code = 500;
        Self(Box::new(status))
    }

    /// 422: the object is not valid. One cause for each problem, all of them in the message, where one that comes again is
    /// named once.
    pub fn invalid(group: &str, kind: &str, name: &str, problems: &[Problem]) -> Self {
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
        let mut refusal = Self::new(Reason::Invalid, format!("{qualified} {name:?} is invalid: {listed}"));
        let cause = |problem: &Problem| Cause {
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

    /// 404: there is no such object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        Self::of_object(
            Reason::NotFound,
            group,
            plural,
            name,
            format!("{} {name:?} not found", qualified(group, plural)),
        )
    }

    /// 409: an object of that name is there already.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, plural));
        Self::of_object(Reason::AlreadyExists, group, plural, name, message)
    }

    /// 409: the request cannot be carried out on the object as it is.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, plural));
        Self::of_object(Reason::Conflict, group, plural, name, message)
    }

    /// 403: the request is not allowed.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = match (plural, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, plural)),
            _ => format!("{} {name:?} is forbidden: {why}", qualified(group, plural)),
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
    fn refusals_speak_in_the_words_of_the_original() {
        for (refusal, code, message) in [
            (Refusal::not_found("", "pods", "x"), 404, r#"pods "x" not found"#),
            (Refusal::not_found("ex.io", "foos", "x"), 404, r#"foos.ex.io "x" not found"#),
            (Refusal::already_exists("", "configmaps", "a"), 409, r#"configmaps "a" already exists"#),
            (
                Refusal::forbidden("", "namespaces", "default", "this namespace may not be deleted"),
                403,
                r#"namespaces "default" is forbidden: this namespace may not be deleted"#,
            ),
        ] {
            assert_eq!((refusal.0.code, refusal.0.message.as_str()), (code, message));
        }
    }

    #[test]
    fn several_problems_are_listed_in_one_message_and_one_by_one_as_causes() {
        let problems = [
            Problem::new("metadata.name", ProblemKind::Required, "name or generateName is required"),
            Problem::with_value(
                "spec.replicas",
                ProblemKind::Invalid,
                -1,
                "must be greater than or equal to 0",
            ),
        ];
        let refusal = Refusal::invalid("apps", "Deployment", "x", &problems);
        assert_eq!(
            refusal.0.message,
            "Deployment.apps \"x\" is invalid: [metadata.name: Required value: name or generateName is required, \
             spec.replicas: Invalid value: -1: must be greater than or equal to 0]"
        );
        assert_eq!(refusal.0.causes().len(), 2);
        assert_eq!(refusal.0.causes()[0].reason, "FieldValueRequired");
        let twice = [problems[0].clone(), problems[0].clone()];
        let refusal = Refusal::invalid("", "Pod", "x", &twice);
        assert_eq!(refusal.0.message.matches("metadata.name").count(), 1);
        assert_eq!(refusal.0.causes().len(), 2);
    }
}
