//! The order in which a cache shows writes.

use std::sync::Arc;

use dogwatch_core::ResourceVersion;
use dogwatch_informer::StoreProgress;

/// The position of a write among those of its scope: the writes that a cache shows first come
/// first. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteOrder {
    /// The number of times the server's history had been rewound when the object was written. A
    /// write from before another rewind may never be shown.
    pub(super) rewinds: u64,
    /// The length of the version and its digits, which sort in version order.
    pub(super) length: usize,
    pub(super) digits: Arc<str>,
    /// Distinguishes writes with the same version.
    pub(super) sequence: u64,
}

impl WriteOrder {
    /// Returns true if a cache with this progress shows the write, or never will.
    pub(super) fn is_over(&self, progress: &StoreProgress) -> bool {
        !progress.is_rewound
            && (self.rewinds != progress.rewinds
                || has_reached(progress, &ResourceVersion::new(&self.digits)).unwrap_or(true))
    }
}

/// Returns true if a cache with this progress shows the write, or `None` if the versions cannot be
/// compared.
pub(super) fn has_reached(progress: &StoreProgress, written: &ResourceVersion) -> Option<bool> {
    let reached = &progress.version;
    // The versions of a history that the server has reset say nothing about what is written now.
    if reached.is_unset() || progress.is_rewound {
        return Some(false);
    }
    Some(written == reached || written.compare(reached)?.is_le())
}
