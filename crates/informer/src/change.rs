//! What a handler is told: the states before and after, shared with the store, never copied.

use std::sync::Arc;

/// One change of the store.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Change<T> {
    /// An object that was not there before.
    Added {
        /// The object as the store shows it.
        object: Arc<T>,
        /// Whether it belongs to the first list, or to what is replayed to a handler that came late.
        initial: bool,
    },
    /// An object changed; after a resync, both are the same.
    ///
    /// For a handler that is behind, several updates may be merged into one: see [`Overflow`](crate::Overflow).
    Updated {
        /// The state that the handler received last of this object.
        old: Arc<T>,
        /// What it shows now.
        new: Arc<T>,
    },
    /// An object is gone. Never merged with anything: a handler receives it even for an object that came and went while the
    /// handler was behind, after its `Added`.
    Deleted(Deleted<T>),
}

/// An object that is gone, and how that is known.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Deleted<T> {
    /// The server told of it; this is the last state of the object.
    Seen(Arc<T>),
    /// A later list did not contain it: it went while no watch was open. This is the last state that was known, and there may
    /// have been later ones.
    Missed(Arc<T>),
}

impl<T> Change<T> {
    /// The newest state of the object there is.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted(deleted) => deleted.last(),
        }
    }
}

impl<T> Deleted<T> {
    /// The last state that is known.
    pub fn last(&self) -> &Arc<T> {
        match self {
            Self::Seen(last) | Self::Missed(last) => last,
        }
    }

    /// Whether the deletion was only inferred from a later list.
    pub fn is_missed(&self) -> bool {
        matches!(self, Self::Missed(_))
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added { object: object.clone(), initial: *initial },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(deleted) => Self::Deleted(deleted.clone()),
        }
    }
}

impl<T> Clone for Deleted<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Seen(last) => Self::Seen(last.clone()),
            Self::Missed(last) => Self::Missed(last.clone()),
        }
    }
}
