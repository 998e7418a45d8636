//! A queue at one moment, for diagnostics: its counts, and some of the keys that workers hold or
//! that wait for a delay.
//!
//! Collected by [`crate::state`] under the queue's lock, so everything is bounded: the number of
//! keys by the caller, and the number of entries that are looked at by [`SCANNED`].

use std::time::Duration;

/// The number of entries that are looked at for held keys in a queue without a name, which keeps no
/// list of them.
pub(crate) const SCANNED: usize = 4096;

/// A queue at one moment.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::{KeyStage, WorkQueue};
///
/// let queue = WorkQueue::new();
/// queue.add("web");
/// queue.add("api");
/// queue.add_after("db", Duration::from_secs(60));
/// let item = queue.try_take().expect("two keys are ready");
///
/// let snapshot = queue.snapshot(10);
/// assert_eq!((snapshot.ready, snapshot.delayed, snapshot.held), (1, 1, 1));
/// assert_eq!((snapshot.added, snapshot.taken), (2, 1));
/// assert_eq!(snapshot.keys[0].key, *item);
/// assert!(matches!(snapshot.keys[1].stage, KeyStage::Delayed { due } if due > Duration::from_secs(50)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSnapshot<K, N = ()> {
    /// The number of keys that can be taken now.
    pub ready: usize,
    /// The number of pending delayed adds.
    pub delayed: usize,
    /// The number of keys that workers hold.
    pub held: usize,
    /// The number of adds that were not merged into an earlier one, since the queue was created.
    pub added: u64,
    /// The number of keys that were taken, since the queue was created.
    pub taken: u64,
    /// Set after a shutdown.
    pub shutting_down: bool,
    /// Held keys, the longest-held first, and then delayed ones, those that are due soon first.
    ///
    /// A queue without a [name](crate::WorkQueueBuilder::name) keeps no times of held keys: they
    /// are in no order, and some may be missing if the queue has thousands of keys.
    pub keys: Vec<KeySnapshot<K, N>>,
}

impl<K, N> QueueSnapshot<K, N> {
    /// Replaces each key, for example by its text.
    pub fn map_keys<R>(self, mut map: impl FnMut(K) -> R) -> QueueSnapshot<R, N> {
        let Self { ready, delayed, held, added, taken, shutting_down, keys } = self;
        let key = |it: KeySnapshot<K, N>| KeySnapshot {
            key: map(it.key),
            stage: it.stage,
            requeues: it.requeues,
            note: it.note,
        };
        let keys = keys.into_iter().map(key).collect();
        QueueSnapshot { ready, delayed, held, added, taken, shutting_down, keys }
    }
}

/// A key of a queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySnapshot<K, N = ()> {
    /// The key.
    pub key: K,
    /// The stage of the key.
    pub stage: KeyStage,
    /// The number of rate-limited adds of the key since it was last forgotten.
    pub requeues: u32,
    /// The note of the adds that are pending: the delayed one, or those since a worker holds the
    /// key.
    pub note: Option<N>,
}

/// The stage of a key of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyStage {
    /// A worker holds it.
    Held {
        /// The time since it was taken. Only known in queues with a name.
        elapsed: Option<Duration>,
        /// True if it was added again meanwhile.
        again: bool,
    },
    /// It waits for a delay.
    Delayed {
        /// The time until it is added.
        due: Duration,
    },
}
