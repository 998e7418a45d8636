//! The report of an object that could not be decoded.

use dogwatch_core::{ObjectKey, ResourceVersion};

use crate::event::EventKind;

/// The start of the description of an object that is nested too deeply.
pub(crate) const TOO_DEEP: &str = "nested deeper than";

/// The start of the description of an object with an unknown field.
pub(crate) const UNKNOWN_FIELD: &str = "a field that is not known in protobuf: number";

/// An object that could not be decoded: its identity, the position in it, and the reason.
///
/// It is one item of a list or one event of a watch, and does not affect those before and after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be decoded{}{path}: {reason}", name(key.as_ref()), if path.is_empty() { "" } else { " at " })]
pub struct UndecodableItem {
    /// The key of the object, if it could be read.
    pub key: Option<ObjectKey>,
    /// The version of the object; unset if it could not be read.
    pub version: ResourceVersion,
    /// The type of the watch event. `None` in a list, and for an unknown type of event.
    ///
    /// A deletion applies even if the deleted object cannot be decoded.
    pub event: Option<EventKind>,
    /// The path to the field, such as `spec.containers[0].ports`; empty if the object as a whole is
    /// wrong.
    pub path: String,
    /// A description of the problem.
    pub reason: String,
}

impl UndecodableItem {
    /// Returns true if the object could not be decoded because it is nested too deeply.
    pub fn is_too_deep(&self) -> bool {
        self.reason.starts_with(TOO_DEEP)
    }

    /// Returns true if the object has a field in protobuf that this crate does not know: the server
    /// is newer. In JSON it can be decoded.
    pub fn is_unknown_field(&self) -> bool {
        self.reason.starts_with(UNKNOWN_FIELD)
    }
}

fn name(key: Option<&ObjectKey>) -> &str {
    key.map_or("an object without a readable name", ObjectKey::as_str)
}
