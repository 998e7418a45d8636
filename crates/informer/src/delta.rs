//! What the reflector learned, in the order in which it learned it: what travels through the queue to the store.

use dogwatch_core::{ObjectKey, ResourceVersion};

/// One thing that a reflector learned of a collection.
///
/// A list travels as `Begin`, its objects, and `End` or `Abort`; nothing else comes between. Who applies it shows its readers
/// the state before `Begin` until `End`, and the state of the list from then on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta<T> {
    /// A list begins. A second `Begin` forgets what the first one brought.
    Begin,
    /// An object of the list.
    Item(T),
    /// The list is whole: what it did not name is not there.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// Objects that are there and could not be decoded: they are not gone, and what was known of them stays.
        unreadable: Vec<ObjectKey>,
    },
    /// The list cannot be read to its end: forget what it brought, and keep what was known.
    Abort,
    /// The server told that an object was created or changed.
    Applied(T),
    /// The server told that an object was deleted, with its last state.
    Deleted(T),
    /// Nothing changed up to this version.
    Bookmark(ResourceVersion),
    /// Tell the handlers that are due of every object again. Nothing changed.
    Resync,
}
