//! The changes that handlers receive: the states before and after, shared with the store and never
//! copied.

use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey};

/// One change of the store.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_informer::Change;
///
/// fn describe(change: &Change<&str>) -> String {
///     match change {
///         Change::Added { object, initial: true } => format!("{object} exists"),
///         Change::Added { object, .. } => format!("{object} was created"),
///         Change::Updated { old, new } => format!("{old} became {new}"),
///         Change::Deleted(last) => format!("{} is gone", last.last()),
///         _ => String::new(), // the enum may grow
///     }
/// }
/// let change = Change::Updated { old: Arc::new("a@1"), new: Arc::new("a@2") };
/// assert_eq!(describe(&change), "a@1 became a@2");
/// assert_eq!(**change.object(), "a@2");
/// ```
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Change<T> {
    /// An object that was not there before.
    Added {
        /// The object as the store shows it.
        object: Arc<T>,
        /// True for objects of the initial list, and for existing objects that are replayed to a
        /// handler that was added later.
        initial: bool,
    },
    /// An object changed. After a resync, `old` and `new` are the same.
    ///
    /// For a handler that falls behind, several updates may be merged into one: see
    /// [`Overflow`](crate::Overflow).
    Updated {
        /// The state of this object that the handler received last.
        old: Arc<T>,
        /// The new state.
        new: Arc<T>,
    },
    /// An object was deleted. Deletions are never merged: a handler that falls behind receives one
    /// even for an object that was created and deleted in the meantime, after its `Added`.
    Deleted(Deleted<T>),
}

/// A deleted object, and how its deletion became known.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_informer::Deleted;
///
/// let observed = Deleted::Seen(Arc::new("the last state"));
/// let inferred = Deleted::Missed(Arc::new("the last known state"));
/// assert!(!observed.is_missed() && inferred.is_missed());
/// assert_eq!(**inferred.last(), "the last known state");
/// ```
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Deleted<T> {
    /// The server reported the deletion; this is the last state of the object.
    Seen(Arc<T>),
    /// A later list did not contain the object: it was deleted while no watch was open. This is the
    /// last known state; there may have been later ones.
    Missed(Arc<T>),
}

impl<T> Change<T> {
    /// Returns the newest state of the object.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted(deleted) => deleted.last(),
        }
    }
}

impl<T: Object> Change<T> {
    /// Returns the key of the object. Every object in a store has one.
    pub fn key(&self) -> ObjectKey {
        self.object().key().expect("an object without a name does not get into a store")
    }
}

impl<T> Deleted<T> {
    /// Returns the last known state.
    pub fn last(&self) -> &Arc<T> {
        match self {
            Self::Seen(last) | Self::Missed(last) => last,
        }
    }

    /// Returns true if the deletion was only inferred from a later list.
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
