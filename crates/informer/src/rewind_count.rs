//! The number of rewinds that a reflector has noticed, which its store reads ahead of the queue.
//!
//! The list that follows a rewind reaches the store through the queue, which may take long: a
//! handler with a blocking mailbox delays it. Until then the versions of the store belong to the
//! old history, and its readers have to know that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of times that a collection was found to have an older history than before. Shared by
/// the reflectors of one partition of a store, which increment it, and the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct RewindCount(Arc<AtomicU64>);

impl RewindCount {
    /// Adds the rewinds for which a reflector is about to send deltas.
    pub(crate) fn add(&self, rewinds: u64) {
        self.0.fetch_add(rewinds, Ordering::Release);
    }

    /// Raises the count to the number of rewinds that the store has received. It differs only if
    /// the deltas come from a reflector that does not share this count.
    pub(crate) fn raise_to(&self, received: u64) {
        self.0.fetch_max(received, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
