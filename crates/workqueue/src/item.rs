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
///
/// It borrows the handle it was taken from, which spares two atomic operations; [`into_owned`](Self::into_owned) is for items
/// that go elsewhere.
pub struct Item<'q, K: Eq + Hash + Clone> {
    key: K,
    priority: i32,
    hold: Hold<'q, K>,
}

/// The hold on a key; dropping it gives the key back.
struct Hold<'q, K: Eq + Hash + Clone> {
    id: Id,
    queue: Handle<'q, K>,
}

enum Handle<'q, K> {
    Borrowed(&'q Arc<Shared<K>>),
    Owned(Arc<Shared<K>>),
}

impl<'q, K: Eq + Hash + Clone> Item<'q, K> {
    #[inline]
    pub(crate) fn new(taken: Taken<K>, queue: &'q Arc<Shared<K>>) -> Self {
        let hold = Hold { id: taken.id, queue: Handle::Borrowed(queue) };
        Self { key: taken.key, priority: taken.priority, hold }
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

    /// The same item with a handle of its own, to be sent to another task or kept in a struct.
    pub fn into_owned(self) -> Item<'static, K> {
        let Self { key, priority, mut hold } = self;
        let queue = match &hold.queue {
            Handle::Borrowed(queue) => Arc::clone(queue),
            Handle::Owned(queue) => queue.clone(),
        };
        let id = std::mem::replace(&mut hold.id, GIVEN_AWAY);
        Item { key, priority, hold: Hold { id, queue: Handle::Owned(queue) } }
    }

    /// The work is done; the same as dropping it, for those who like to say so.
    pub fn done(self) {}
}

impl<K: Eq + Hash + Clone> Deref for Item<'_, K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: Eq + Hash + Clone> Drop for Hold<'_, K> {
    #[inline]
    fn drop(&mut self) {
        if self.id == GIVEN_AWAY {
            return;
        }
        match &self.queue {
            Handle::Borrowed(queue) => queue.finish(self.id),
            Handle::Owned(queue) => queue.finish(self.id),
        }
    }
}

impl<K: Eq + Hash + Clone + fmt::Debug> fmt::Debug for Item<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// The id of a hold that has been passed on; no entry has it.
const GIVEN_AWAY: Id = Id::MAX;
