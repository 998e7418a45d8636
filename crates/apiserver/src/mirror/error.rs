//! The errors of feeding a mirror.

use crate::store::NotStored;

/// The error of feeding a mirror. The mirror is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// A message has a field that is not known here. Nothing is lost if the owner feeds the mirror
    /// in JSON instead, from a list on.
    #[error("{resource} {object}: {reason}; feed the mirror in JSON")]
    UnknownField {
        /// The resource.
        resource: String,
        /// The key of the object; empty if it cannot be read.
        object: String,
        /// The position of the field.
        reason: String,
    },
    /// An object cannot be stored. A mirror without it would be wrong, so the owner should not
    /// serve the resource from a mirror.
    #[error("{resource} {object} cannot be mirrored: {reason}")]
    Object {
        /// The resource.
        resource: String,
        /// The key of the object; empty if it cannot be read.
        object: String,
        /// A description of the problem.
        reason: String,
    },
    /// The version is older than what clients have seen already. The owner resets the mirror, and
    /// feeds it a list.
    #[error("{resource}: version {fed} comes after version {current}; reset the mirror and list again")]
    Backwards {
        /// The resource.
        resource: String,
        /// The version that was fed.
        fed: u64,
        /// The version of the mirror.
        current: u64,
    },
    /// The mirror has no state yet. The owner feeds it a list first.
    #[error("{resource}: a change at version {fed} was fed before a list")]
    NotListed {
        /// The resource.
        resource: String,
        /// The version that was fed.
        fed: u64,
    },
}

impl MirrorError {
    /// Returns the error of an object that was not stored.
    pub(super) fn not_stored(resource: &str, error: NotStored) -> Self {
        let (resource, object, reason) = (resource.to_owned(), error.name, error.reason);
        match error.is_unknown_field {
            true => Self::UnknownField { resource, object, reason },
            false => Self::Object { resource, object, reason },
        }
    }
}
