//! The values of the authorizer library: questions of an expression about what a user may do.
//!
//! An expression builds a question step by step, for example
//! `authorizer.group('').resource('pods').check('create')`. Who answers it is decided by the
//! caller, with an implementation of [`Authorize`].

use std::fmt;

use super::types::{RecordType, Type};

/// Answers the questions of expressions about permissions.
pub trait Authorize: fmt::Debug + Send + Sync {
    /// Decides whether a user may do something.
    fn decide(&self, subject: &AccessSubject, question: &AccessQuestion, verb: &str) -> AccessDecision;
}

/// The user of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessSubject {
    /// The user of the request.
    #[default]
    Requester,
    /// A service account.
    ServiceAccount {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
}

/// The subject matter of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessQuestion {
    /// A path that is no resource.
    Path(String),
    /// A resource.
    Resource(ResourceQuestion),
}

/// A question about a resource. Texts that were not given are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceQuestion {
    /// The group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// True if the user may.
    pub allowed: bool,
    /// The reason, which may be empty.
    pub reason: String,
    /// The failure to decide, if there was one.
    pub error: Option<String>,
}

/// A value of the authorizer library.
#[derive(Clone, Debug)]
pub struct Authorization<'a> {
    authorizer: &'a dyn Authorize,
    subject: AccessSubject,
    pub(crate) stage: Stage,
}

/// The steps of a question.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Authorizer,
    Group(String),
    Question(AccessQuestion),
    Decision(AccessDecision),
}

impl<'a> Authorization<'a> {
    /// Returns the value of the variable `authorizer`.
    pub(crate) fn of(authorizer: &'a dyn Authorize) -> Self {
        Self { authorizer, subject: AccessSubject::Requester, stage: Stage::Authorizer }
    }

    /// Returns the question about a resource.
    pub(crate) fn about(&self, question: ResourceQuestion) -> Self {
        self.at(Stage::Question(AccessQuestion::Resource(question)))
    }

    /// Returns the same question one step further.
    pub(crate) fn at(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }

    /// Returns the authorizer for another user.
    pub(crate) fn for_service_account(&self, namespace: &str, name: &str) -> Self {
        let subject =
            AccessSubject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() };
        Self { subject, ..self.clone() }
    }

    /// Asks a question.
    pub(crate) fn decide(&self, question: &AccessQuestion, verb: &str) -> Self {
        self.at(Stage::Decision(self.authorizer.decide(&self.subject, question, verb)))
    }

    /// Returns the type at run time.
    pub(crate) fn type_of(&self) -> Type {
        let name = match &self.stage {
            Stage::Authorizer => "Authorizer",
            Stage::Group(_) => "GroupCheck",
            Stage::Question(AccessQuestion::Path(_)) => "PathCheck",
            Stage::Question(AccessQuestion::Resource(_)) => "ResourceCheck",
            Stage::Decision(_) => "Decision",
        };
        Type::record(RecordType::new(&format!("kubernetes.authorization.{name}"), []))
    }
}
