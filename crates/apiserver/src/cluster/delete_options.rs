//! The options of a deletion, and what they require of the object.

use serde_json::{Value, json};

use super::ObjectRef;
use super::conflict::check_deletion;
use crate::ApiError;
use crate::registry::Kind;
use crate::store::Encoded;

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The grace period in seconds. Ignored for kinds without graceful deletion.
    pub grace: Option<i64>,
    /// The treatment of the dependents.
    pub propagation: Option<Propagation>,
    /// The deprecated form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// Precondition: the object has this uid.
    pub uid: Option<String>,
    /// Precondition: the object has this resource version.
    pub version: Option<String>,
}

/// The treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Propagation {
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are kept, without this owner.
    Orphan,
}

/// The part of admission webhooks in a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They review the deletion, as that of a client.
    Review,
    /// They are not called.
    Skip,
}

impl DeleteOptions {
    /// Returns the fields of the options as an admission review carries them.
    pub(super) fn to_value(&self) -> Value {
        let propagation = self.propagation.map(|it| match it {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        });
        let mut preconditions = json!({ "uid": self.uid, "resourceVersion": self.version });
        let mut said = json!({ "gracePeriodSeconds": self.grace, "propagationPolicy": propagation,
            "orphanDependents": self.orphan_dependents });
        for value in [&mut preconditions, &mut said] {
            if let Some(fields) = value.as_object_mut() {
                fields.retain(|_, it| !it.is_null());
            }
        }
        if preconditions != json!({}) {
            said["preconditions"] = preconditions;
        }
        said
    }

    /// Checks that the object is the one that the preconditions name.
    ///
    /// # Errors
    /// 409 if it is another one.
    pub(super) fn check_preconditions(
        &self,
        place: &ObjectRef<'_>,
        current: &Encoded,
    ) -> Result<(), ApiError> {
        check_deletion(place, (self.uid.as_deref(), self.version.as_deref()), current)
    }
}

/// Returns the warning for a client that deletes objects of a kind with these options.
pub(crate) fn warning_of_deleting(kind: &Kind, options: &DeleteOptions) -> Option<&'static str> {
    let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
    kind.rules.deletion_warning.filter(|_| unsaid)
}
