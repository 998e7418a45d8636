//! Where a write goes, who writes, and what came of it.

use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::decode::FieldValidation;
use super::user::User;
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::store::Encoded;

/// What is said to a writer who has not seen the newest state.
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Where a write goes.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The kind, in the version of the request.
    pub kind: &'a Kind,
    /// The namespace, for kinds that live in one.
    pub namespace: Option<&'a str>,
    /// The object; empty for a creation whose object brings its name.
    pub name: &'a str,
    /// The part of the object, such as `status`; empty for the object itself.
    pub part: &'a str,
}

/// Who writes, and how.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Who asks.
    pub user: User,
    /// Who owns what is written.
    pub manager: String,
    /// Everything is done but the last step.
    pub dry_run: bool,
    /// What becomes of unknown fields in patches.
    pub validation: FieldValidation,
}

/// An object to be shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Shown {
    /// As it is stored.
    Stored(Arc<Encoded>),
    /// As it is, in the version of the request.
    Value(Value),
}

/// What came of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object after it.
    pub object: Shown,
    /// Whether it came into being.
    pub created: bool,
    /// What the writer should know.
    pub warnings: Vec<String>,
}

impl<'a> Place<'a> {
    /// An object of a kind.
    pub fn of(kind: &'a Kind, key: &'a ObjectKey) -> Self {
        Self { kind, namespace: key.namespace(), name: key.name(), part: "" }
    }

    /// A part of the same object.
    #[must_use]
    pub fn part(self, part: &'a str) -> Self {
        Self { part, ..self }
    }

    /// The key of the object.
    ///
    /// # Errors
    /// 404 for what can be no name.
    pub fn key(&self) -> Result<ObjectKey, Refusal> {
        self.key_of(self.name)
    }

    /// The key of an object of that name in the same place.
    ///
    /// # Errors
    /// 404 for what can be no name.
    pub fn key_of(&self, name: &str) -> Result<ObjectKey, Refusal> {
        ObjectKey::from_parts(self.namespace, name).map_err(|_| self.kind.not_found(name))
    }
}

impl Writer {
    /// A part of the server itself.
    pub fn server(part: &str) -> Self {
        Self {
            user: User::server(part),
            manager: part.to_owned(),
            dry_run: false,
            validation: FieldValidation::Ignore,
        }
    }
}

impl Written {
    pub(super) fn stored(object: Arc<Encoded>, created: bool) -> Self {
        Self { object: Shown::Stored(object), created, warnings: Vec::new() }
    }

    pub(super) fn value(object: Value, created: bool) -> Self {
        Self { object: Shown::Value(object), created, warnings: Vec::new() }
    }
}

impl Shown {
    /// As a value in the version of a kind.
    pub fn to_value(&self, kind: &Kind) -> Value {
        match self {
            Self::Stored(stored) => kind.show(stored),
            Self::Value(value) => value.clone(),
        }
    }
}
