//! What can be chosen about a queue.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::limiter::{RateLimiter, default_controller_limiter};
use crate::ready::Ready;
use crate::shared::{GroupOf, Shared};
use crate::state::State;

/// One take in sixteen goes to a lower priority while higher ones are waiting: enough for the first list of a large
/// collection to come to its end beside a stream of changes, too little for the changes to notice.
const PATIENCE: u32 = 15;

/// A queue that is still to be built, from [`WorkQueue::builder`](crate::WorkQueue::builder).
pub struct Builder<K> {
    name: Option<String>,
    limiter: Box<dyn RateLimiter<K>>,
    group_of: Option<GroupOf<K>>,
    patience: Option<u32>,
    earliest_wins: bool,
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Builder<K> {
    pub(crate) fn new() -> Self {
        Self {
            name: None,
            limiter: Box::new(default_controller_limiter()),
            group_of: None,
            patience: Some(PATIENCE),
            earliest_wins: false,
        }
    }

    /// Gives the queue a name and with it metrics, in the recorder that is installed when it is built (for the depths of priorities
    /// other than zero: when the first key comes with one). Without a name there are none, and the queue is quicker by the
    /// readings of the clock.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Decides how long [`add_rate_limited`](crate::WorkQueue::add_rate_limited) waits;
    /// [`default_controller_limiter`] unless called.
    #[must_use]
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Lets groups of keys take turns within a priority, so that a group with many keys does not delay one with few. The
    /// function says to which group a key belongs; it runs at every add, and must always say the same.
    ///
    /// Without, keys of a priority are handed out in the order in which they came.
    #[must_use]
    pub fn fair_by<G: Hash>(mut self, group_of: impl Fn(&K) -> G + Send + Sync + 'static) -> Self {
        let hasher = DefaultHashBuilder::default();
        self.group_of = Some(Box::new(move |key| hasher.hash_one(group_of(key))));
        self
    }

    /// [`fair_by`](Self::fair_by) for a group that is a part of the key, such as its namespace.
    #[must_use]
    pub fn fair_by_part<G: Hash + ?Sized>(
        mut self,
        group_of: impl Fn(&K) -> &G + Send + Sync + 'static,
    ) -> Self {
        let hasher = DefaultHashBuilder::default();
        self.group_of = Some(Box::new(move |key| hasher.hash_one(group_of(key))));
        self
    }

    /// How many takes keys of lower priorities let pass before one of them is taken: 15 unless called. The lower
    /// priorities share these takes by turns. Zero gives them every take that the highest would have had, one by one.
    #[must_use]
    pub fn patience(mut self, takes: u32) -> Self {
        self.patience = Some(takes);
        self
    }

    /// Takes keys of a lower priority only when there is none of a higher. They starve if there always is.
    #[must_use]
    pub fn strict_priorities(mut self) -> Self {
        self.patience = None;
        self
    }

    /// Allows each key one outstanding add, of which the earliest holds, as in controller-runtime: an immediate add
    /// supersedes a delayed one, and a delayed add of a key that already waits is nothing.
    ///
    /// Unless called, both take place, as in client-go: the key is handed out now, and again when the delay is over.
    #[must_use]
    pub fn earliest_wins(mut self) -> Self {
        self.earliest_wins = true;
        self
    }

    pub(crate) fn into_shared(self) -> Shared<K> {
        let ready = Ready::new(self.group_of.is_some(), self.patience);
        let state = State::new(ready, self.earliest_wins, self.name.is_some());
        Shared::new(state, self.limiter, self.group_of, self.name.as_deref())
    }
}

impl<K> fmt::Debug for Builder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("patience", &self.patience)
            .field("earliest_wins", &self.earliest_wins)
            .finish_non_exhaustive()
    }
}
