//! The target of a write, the client that writes, and the outcome.

use std::sync::Arc;

use parking_lot::Mutex;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::decode::FieldValidation;
use crate::ApiError;
use crate::registry::Kind;
use crate::store::Encoded;
use crate::user::User;

/// The target of a write.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// The kind, in the version of the request.
    pub kind: &'a Kind,
    /// The namespace, for namespaced kinds.
    pub namespace: Option<&'a str>,
    /// The name of the object; empty for a creation, whose name is in the object.
    pub name: &'a str,
    /// The subresource, such as `status`; empty for the object itself.
    pub part: &'a str,
}

/// The client that writes, and the options of the write.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The authenticated user.
    pub user: User,
    /// The field manager that owns the written fields.
    pub manager: String,
    /// Run all steps but storing the result.
    pub dry_run: bool,
    /// The treatment of unknown fields in patches.
    pub validation: FieldValidation,
    /// The warnings about an object that was rejected: the response has them, too.
    pub refused_warnings: RefusedWarnings,
}

/// The warnings about an object that was rejected in the end. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RefusedWarnings(Arc<Mutex<Vec<String>>>);

impl RefusedWarnings {
    /// Adds the warnings of a write that is rejected.
    pub(super) fn add(&self, warnings: Vec<String>) {
        self.0.lock().extend(warnings);
    }

    /// Returns the warnings, and forgets them.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// An object in a response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ResponseObject {
    /// The stored object.
    Stored(Arc<Encoded>),
    /// An object in the version of the request.
    Value(Value),
}

/// The outcome of a write.
#[derive(Clone, Debug)]
pub struct WriteOutcome {
    /// The object after the write.
    pub object: ResponseObject,
    /// True if the object was created.
    pub created: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl<'a> ObjectRef<'a> {
    /// Returns the place of an object of a kind.
    pub fn of(kind: &'a Kind, key: &'a ObjectKey) -> Self {
        Self { kind, namespace: key.namespace(), name: key.name(), part: "" }
    }

    /// Returns the place of a subresource of the same object.
    #[must_use]
    pub fn part(self, part: &'a str) -> Self {
        Self { part, ..self }
    }

    /// Returns the key of the object.
    ///
    /// # Errors
    /// 404 if the name is not one that an object can have.
    pub fn key(&self) -> Result<ObjectKey, ApiError> {
        self.key_of(self.name)
    }

    /// Returns the key of an object of another name in the same namespace.
    ///
    /// # Errors
    /// 404 if the name is not one that an object can have.
    pub fn key_of(&self, name: &str) -> Result<ObjectKey, ApiError> {
        ObjectKey::from_parts(self.namespace, name).map_err(|_| self.kind.not_found(name))
    }
}

impl Writer {
    /// Returns a writer for a component of the server itself.
    pub fn server(part: &str) -> Self {
        Self {
            user: User::server(part),
            manager: part.to_owned(),
            dry_run: false,
            validation: FieldValidation::Ignore,
            refused_warnings: RefusedWarnings::default(),
        }
    }
}

impl WriteOutcome {
    pub(super) fn stored(object: Arc<Encoded>, created: bool) -> Self {
        Self { object: ResponseObject::Stored(object), created, warnings: Vec::new() }
    }

    pub(super) fn value(object: Value, created: bool) -> Self {
        Self { object: ResponseObject::Value(object), created, warnings: Vec::new() }
    }
}

impl ResponseObject {
    /// Returns the object as a value in the version of a kind. A stored object that takes a webhook
    /// stays in its stored version.
    pub fn to_value(&self, kind: &Kind) -> Value {
        match self {
            Self::Stored(stored) => kind.show(stored),
            Self::Value(value) => value.clone(),
        }
    }
}
