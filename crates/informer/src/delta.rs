//! What the reflector learned, in the order in which it learned it: what travels through the queue to the store.

use dogwatch_core::{ObjectKey, ResourceVersion};

/// One thing that a reflector learned of a collection.
///
/// A list travels as `Begin`, its objects as `Item` and `Dropped`, and `End` or `Abort`; nothing else comes between. Who applies
/// it shows its readers the state before `Begin` until `End`, and the state of the list from then on.
///
/// A list may be a stream of events (WatchList): an object can change or go while it is told. So an `Item` replaces an earlier
/// one of the same key, and `Dropped` takes it out again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta<T> {
    /// A list begins. A second `Begin` forgets what the first one brought.
    Begin,
    /// An object of the list. Replaces what the list told of the same key before.
    Item(T),
    /// The object of this key is not there, and its last state is not known.
    ///
    /// Inside a list: forget what the list told of it. Outside: the server told that it was deleted, but not in a way that
    /// could be decoded; what was known of it is gone, and unknown keys are nothing to tell. A `Bookmark` with the version follows.
    Dropped(ObjectKey),
    /// The object of this key exists, and its newest state, of this version, could not be decoded.
    ///
    /// Never inside a list, whose `End` says so. What was known of the object stays, and is marked as out of date until the object
    /// is read again or goes. A `Bookmark` with the version follows.
    Unreadable {
        /// Which object.
        key: ObjectKey,
        /// The version that could not be decoded.
        version: ResourceVersion,
    },
    /// The list has an object that could not be decoded, and of which not even the name is known: nothing that the list lacks may be
    /// taken for deleted. Only inside a list.
    Nameless,
    /// The list is whole: what it did not name is not there.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// Objects that are there and could not be decoded, each with the version that could not, unset where that is not known:
        /// they are not gone, and what was known of them stays, marked as out of date.
        unreadable: Vec<(ObjectKey, ResourceVersion)>,
    },
    /// The list cannot be read to its end: forget what it brought, and keep what was known.
    Abort,
    /// The server told that an object was created or changed.
    Applied(T),
    /// The server told that an object was deleted, with its last state.
    Deleted(T),
    /// Everything up to this version has been told.
    Bookmark(ResourceVersion),
    /// The server's history was taken back, as by a restored backup: a version that was seen before may now name another state.
    ///
    /// Never inside a list. What is known stays until the next list ends; but in that list, equal versions prove nothing.
    Rewound,
    /// Tell the handlers that are due of every object again. Nothing changed.
    Resync,
}
