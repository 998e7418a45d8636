//! The keys that a controller has to process: now, later, or again after a failure.
//!
//! Knows nothing of the meaning of the keys. A key is queued once, however often it was added.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::time;

/// The delay of the first retry, as in client-go v0.36.4 util/workqueue/default_rate_limiters.go,
/// and the longest delay of any.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Keys to process. Invariant: a key is either ready or waits for one moment, or neither.
#[derive(Debug)]
pub(crate) struct Pending<K> {
    /// In the order in which they were added.
    ready: VecDeque<K>,
    is_ready: HashSet<K>,
    /// By the moment at which they become ready.
    later: BTreeMap<Instant, BTreeSet<K>>,
    moment: HashMap<K, Instant>,
    /// The number of consecutive failures of each key.
    failures: HashMap<K, u32>,
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            later: BTreeMap::new(),
            moment: HashMap::new(),
            failures: HashMap::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Pending<K> {
    /// Queues a key now.
    pub(crate) fn add(&mut self, key: K) {
        self.cancel(&key);
        if self.is_ready.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Queues a key after a delay, unless it is due earlier already.
    pub(crate) fn add_after(&mut self, key: K, delay: Duration) {
        let moment = time::from_now(delay);
        if self.is_ready.contains(&key) || self.moment.get(&key).is_some_and(|known| *known <= moment) {
            return;
        }
        self.cancel(&key);
        self.later.entry(moment).or_default().insert(key.clone());
        self.moment.insert(key, moment);
    }

    /// Queues a key after a failure, with an exponential backoff.
    pub(crate) fn retry(&mut self, key: K) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LONGEST_RETRY);
        *failures = failures.saturating_add(1);
        self.add_after(key, delay);
    }

    /// Resets the backoff of a key.
    pub(crate) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Takes the next key that is ready, if there is one.
    pub(crate) fn take(&mut self) -> Option<K> {
        let now = Instant::now();
        while let Some(entry) = self.later.first_entry().filter(|it| *it.key() <= now) {
            for key in entry.remove() {
                self.moment.remove(&key);
                if self.is_ready.insert(key.clone()) {
                    self.ready.push_back(key);
                }
            }
        }
        let key = self.ready.pop_front()?;
        self.is_ready.remove(&key);
        Some(key)
    }

    /// Waits until the next delayed key is due; forever if there is none.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn due(&self) {
        match self.later.keys().next() {
            Some(moment) => tokio::time::sleep_until(*moment).await,
            None => std::future::pending().await,
        }
    }

    fn cancel(&mut self, key: &K) {
        if let Some(moment) = self.moment.remove(key)
            && let Some(keys) = self.later.get_mut(&moment)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.later.remove(&moment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pending: &mut Pending<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| pending.take()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_at_the_earliest_moment_it_was_added_for() {
        let mut pending = Pending::default();
        pending.add("a");
        pending.add("b");
        pending.add("a");
        pending.add_after("a", Duration::from_secs(1));
        pending.add_after("c", Duration::from_secs(9));
        pending.add_after("c", Duration::from_secs(5));
        pending.add_after("c", Duration::from_secs(7));
        assert_eq!(taken(&mut pending), ["a", "b"]);
        let start = Instant::now();
        pending.due().await;
        assert_eq!((start.elapsed(), taken(&mut pending)), (Duration::from_secs(5), vec!["c"]));
        pending.add_after("d", Duration::from_secs(1));
        pending.add("d");
        assert_eq!(taken(&mut pending), ["d"]);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(taken(&mut pending).is_empty(), "adding it now has replaced the later moment");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_each_time_up_to_a_limit() {
        let mut pending = Pending::default();
        let mut waits = Vec::new();
        for _ in 0..15 {
            pending.retry("a");
            let start = Instant::now();
            pending.due().await;
            assert_eq!(taken(&mut pending), ["a"]);
            waits.push(start.elapsed());
        }
        assert_eq!(waits[..3], [5, 10, 20].map(Duration::from_millis));
        assert_eq!(waits.last(), Some(&LONGEST_RETRY));
        pending.forget(&"a");
        pending.retry("a");
        pending.add("a");
        assert_eq!(taken(&mut pending), ["a"], "a change skips the backoff");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_beyond_the_range_of_the_clock_is_accepted() {
        let mut pending = Pending::default();
        pending.add_after("a", Duration::MAX);
        assert!(tokio::time::timeout(Duration::from_secs(3600), pending.due()).await.is_err());
        pending.add_after("a", Duration::from_secs(1));
        pending.due().await;
        assert_eq!(taken(&mut pending), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_without_delayed_keys() {
        let pending = Pending::<u8>::default();
        assert!(tokio::time::timeout(Duration::from_secs(3600), pending.due()).await.is_err());
    }
}
