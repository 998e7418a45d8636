//! What is said of an object that could not be decoded, so that the next one still can.

use dogwatch_core::{ObjectKey, ResourceVersion};

use crate::event::EventKind;

/// An object that could not be decoded: which one, where in it, and why.
///
/// It is one item of a list or one event of a watch; those before and after it are not touched by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be decoded{}{path}: {reason}", name(key.as_ref()), if path.is_empty() { "" } else { " at " })]
pub struct BadItem {
    /// The key of the object, where that much could be read.
    pub key: Option<ObjectKey>,
    /// The version of the object, unset where it could not be read.
    pub version: ResourceVersion,
    /// What a watch said of the object. `None` in a list, and for a kind of event this version does not know.
    ///
    /// A deletion is worth obeying even if the object that was deleted cannot be decoded.
    pub event: Option<EventKind>,
    /// The path to the field, such as `spec.containers[0].ports`; empty where the object as a whole is wrong.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}

fn name(key: Option<&ObjectKey>) -> &str {
    key.map_or("an object without a readable name", ObjectKey::as_str)
}
