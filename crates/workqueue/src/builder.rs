//! The builder of a queue.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::limiter::{RateLimiter, default_controller_limiter};
use crate::note::Note;
use crate::ready::Ready;
use crate::shared_queue::{GroupOf, SharedQueue};
use crate::state::QueueState;

/// One take in sixteen goes to a lower priority while higher ones are waiting: enough for the first
/// list of a large collection to finish next to a stream of changes, too little to slow the changes
/// noticeably.
const PATIENCE: u32 = 15;

/// Builds a [`WorkQueue`](crate::WorkQueue). Created by
/// [`WorkQueue::builder`](crate::WorkQueue::builder).
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::WorkQueue;
/// use dogwatch_workqueue::limiter::ExponentialPerItem;
///
/// let queue = WorkQueue::builder()
///     .name("ingress") // with metrics
///     .limiter(ExponentialPerItem::new(Duration::from_millis(10), Duration::from_secs(60)))
///     .fair_by(|key: &String| key.split('/').next().map(str::to_owned))
///     .build();
/// queue.add_all(["big/a", "big/b", "small/c"].map(str::to_owned));
/// let take = || queue.try_take().map(|it| it.key().clone());
/// let order: Vec<_> = std::iter::from_fn(take).collect();
/// assert_eq!(order, ["big/a", "small/c", "big/b"]); // the namespaces take turns
/// ```
pub struct WorkQueueBuilder<K> {
    name: Option<String>,
    limiter: Box<dyn RateLimiter<K>>,
    group_of: Option<GroupOf<K>>,
    patience: Option<u32>,
    earliest_wins: bool,
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> WorkQueueBuilder<K> {
    pub(crate) fn new() -> Self {
        Self {
            name: None,
            limiter: Box::new(default_controller_limiter()),
            group_of: None,
            patience: Some(PATIENCE),
            earliest_wins: false,
        }
    }

    /// Gives the queue a name and with it metrics, in the recorder that is installed when the queue
    /// is built (for the depth of a priority other than zero: when the first key with that priority
    /// is added). A queue without a name has no metrics, and is faster because it reads the clock
    /// less often.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the limiter that decides how long
    /// [`add_rate_limited`](crate::WorkQueue::add_rate_limited) waits. Defaults to
    /// [`default_controller_limiter`].
    #[must_use]
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Lets groups of keys take turns within a priority, so that a group with many keys does not
    /// delay one with few. The function returns the group of a key; it runs at every add, and must
    /// be deterministic.
    ///
    /// By default, the keys of a priority are taken in the order in which they were added.
    #[must_use]
    pub fn fair_by<G: Hash>(mut self, group_of: impl Fn(&K) -> G + Send + Sync + 'static) -> Self {
        let hasher = DefaultHashBuilder::default();
        self.group_of = Some(Box::new(move |key| hasher.hash_one(group_of(key))));
        self
    }

    /// Like [`fair_by`](Self::fair_by), for a group that is borrowed from the key, such as its
    /// namespace.
    #[must_use]
    pub fn fair_by_part<G: Hash + ?Sized>(
        mut self,
        group_of: impl Fn(&K) -> &G + Send + Sync + 'static,
    ) -> Self {
        let hasher = DefaultHashBuilder::default();
        self.group_of = Some(Box::new(move |key| hasher.hash_one(group_of(key))));
        self
    }

    /// Sets the number of takes that lower priorities yield to the highest one before one of their
    /// keys is taken. The lower priorities share these takes in turns. Zero gives every take to the
    /// lower priorities while they have keys. Defaults to 15.
    #[must_use]
    pub fn starvation_limit(mut self, takes: u32) -> Self {
        self.patience = Some(takes);
        self
    }

    /// Takes keys of a lower priority only if there is none of a higher one. They starve if there
    /// always is.
    #[must_use]
    pub fn strict_priorities(mut self) -> Self {
        self.patience = None;
        self
    }

    /// Allows one outstanding add for each key, the earliest, as in controller-runtime: an
    /// immediate add replaces a delayed one, and a delayed add of a key that already waits has no
    /// effect.
    ///
    /// By default, both take effect, as in client-go: the key is taken now, and again after the
    /// delay.
    #[must_use]
    pub fn earliest_wins(mut self) -> Self {
        self.earliest_wins = true;
        self
    }

    pub(crate) fn into_shared<N: Note>(self) -> SharedQueue<K, N> {
        let ready = Ready::new(self.group_of.is_some(), self.patience);
        let state = QueueState::new(ready, self.earliest_wins, self.name.is_some());
        SharedQueue::new(state, self.limiter, self.group_of, self.name.as_deref())
    }
}

impl<K> fmt::Debug for WorkQueueBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueBuilder")
            .field("name", &self.name)
            .field("patience", &self.patience)
            .field("earliest_wins", &self.earliest_wins)
            .finish_non_exhaustive()
    }
}
