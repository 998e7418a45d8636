//! The versions of a read: that of the store, and that of the state which the read finds.

/// The state of a collection that a read finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownState {
    /// The newest revision.
    pub revision: u64,
    /// The version whose state is known. It is later than the revision only for a copy of another
    /// server, which has not seen that version itself.
    pub version: u64,
    /// The revision whose state that is. It is earlier than the newest one while the changes before
    /// the known version arrive.
    pub snapshot: u64,
}

impl KnownState {
    /// Returns the state at a revision, of which nothing later is known.
    pub fn at(revision: u64) -> Self {
        Self { revision, version: revision, snapshot: revision }
    }
}
