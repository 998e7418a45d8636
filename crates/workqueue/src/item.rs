//! A key in the hands of a worker.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use crate::entries::Id;
use crate::shared::Shared;
use crate::state::Taken;

/// A key that was taken from a queue. No other worker gets it before this is dropped, which says that the work is done.
///
/// That holds for every way out of the worker: a return, an error, a panic, a cancelled task. A key that was added
/// again meanwhile is then handed out once more. An item that is leaked (`std::mem::forget`) keeps its key for ever.
pub struct Item<K: Eq + Hash + Clone> {
    key: K,
    priority: i32,
    id: Id,
    queue: Arc<Shared<K>>,
}

impl<K: Eq + Hash + Clone> Item<K> {
    pub(crate) fn new(taken: Taken<K>, queue: Arc<Shared<K>>) -> Self {
        Self { key: taken.key, priority: taken.priority, id: taken.id, queue }
    }

    /// The key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority it was handed out with: the highest it was added with since it was last taken. A worker that adds
    /// the key again passes it on, if it wants to keep it.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// The work is done; the same as dropping it, for those who like to say so.
    pub fn done(self) {}
}

impl<K: Eq + Hash + Clone> Deref for Item<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: Eq + Hash + Clone> Drop for Item<K> {
    fn drop(&mut self) {
        self.queue.finish(self.id);
    }
}

impl<K: Eq + Hash + Clone + fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
