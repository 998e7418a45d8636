//! A key that a worker holds.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use crate::entries::Id;
use crate::note::Note;
use crate::shared_queue::SharedQueue;
use crate::state::Taken;

/// A key that was taken from a queue. No other worker gets it until the item is dropped, which
/// marks the work as done.
///
/// That holds for every way out of the worker: a return, an error, a panic, a cancelled task. A key
/// that was added again meanwhile is then handed out once more. An item that is leaked
/// (`std::mem::forget`) holds its key for ever.
///
/// An item borrows the queue handle that it was taken from, which saves two atomic operations; use
/// [`into_owned`](Self::into_owned) for items that move elsewhere.
///
/// ```
/// use dogwatch_workqueue::WorkQueue;
///
/// let queue = WorkQueue::new();
/// queue.add("web");
/// let item = queue.try_take().expect("the key is ready");
/// assert_eq!(*item.key(), "web");
///
/// queue.add("web"); // something changed meanwhile
/// assert!(queue.try_take().is_none(), "no second worker gets the key");
/// item.done();
/// assert!(queue.try_take().is_some(), "it is handed out once more");
/// ```
pub struct Item<'q, K: Eq + Hash + Clone, N: Note = ()> {
    key: K,
    priority: i32,
    note: N,
    hold: Hold<'q, K, N>,
}

/// The hold on a key; dropping it returns the key to the queue.
struct Hold<'q, K: Eq + Hash + Clone, N: Note> {
    id: Id,
    queue: Handle<'q, K, N>,
}

enum Handle<'q, K, N> {
    Borrowed(&'q Arc<SharedQueue<K, N>>),
    Owned(Arc<SharedQueue<K, N>>),
}

impl<'q, K: Eq + Hash + Clone, N: Note> Item<'q, K, N> {
    #[inline]
    pub(crate) fn new(taken: Taken<K, N>, queue: &'q Arc<SharedQueue<K, N>>) -> Self {
        let hold = Hold { id: taken.id, queue: Handle::Borrowed(queue) };
        Self { key: taken.key, priority: taken.priority, note: taken.note, hold }
    }

    /// Returns the key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the priority with which the key was taken: the highest one of its adds since it was
    /// last taken. A worker that adds the key again has to pass it on to keep it.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the note of the adds since the key was last taken, merged into one: see [`Note`].
    pub fn note(&self) -> &N {
        &self.note
    }

    /// Converts into an item with its own queue handle, which can be sent to another task or
    /// stored.
    pub fn into_owned(self) -> Item<'static, K, N> {
        let Self { key, priority, note, mut hold } = self;
        let queue = match &hold.queue {
            Handle::Borrowed(queue) => Arc::clone(queue),
            Handle::Owned(queue) => queue.clone(),
        };
        let id = std::mem::replace(&mut hold.id, MOVED);
        Item { key, priority, note, hold: Hold { id, queue: Handle::Owned(queue) } }
    }

    /// Marks the work as done. The same as dropping the item, but explicit.
    pub fn done(self) {}
}

impl<K: Eq + Hash + Clone, N: Note> Deref for Item<'_, K, N> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: Eq + Hash + Clone, N: Note> Drop for Hold<'_, K, N> {
    #[inline]
    fn drop(&mut self) {
        if self.id == MOVED {
            return;
        }
        match &self.queue {
            Handle::Borrowed(queue) => queue.finish(self.id),
            Handle::Owned(queue) => queue.finish(self.id),
        }
    }
}

impl<K: Eq + Hash + Clone + fmt::Debug, N: Note> fmt::Debug for Item<'_, K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// The id of a hold that has moved to another item; no entry has it.
const MOVED: Id = Id::MAX;
