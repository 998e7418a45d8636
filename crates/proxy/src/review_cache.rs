//! The answers of upstream to reviews, used again for a while.
//!
//! Keys are digests with a secret of this process, so that no token is kept. Concurrent questions
//! of one key are asked once. The number of entries is bounded: callers with many wrong tokens push
//! out other entries, which costs reviews and nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The longest time for which an answer is used.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A digest of a question.
pub(crate) type Key = [u8; 32];

/// An answer, the time at which it was asked for, and the time until which it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fresh<V> {
    pub(crate) value: V,
    pub(crate) asked: Instant,
    until: Instant,
}

/// The answers to one kind of question.
pub(crate) struct ReviewCache<V> {
    secret: [u8; 32],
    ttl: Duration,
    limit: usize,
    entries: Mutex<HashMap<Key, Slot<V>>>,
}

type Slot<V> = Arc<OnceCell<Fresh<V>>>;

impl<V: Clone> ReviewCache<V> {
    /// Creates a cache of at most `limit` answers, each used for `ttl` from the time of the
    /// question.
    pub(crate) fn new(ttl: Duration, limit: usize) -> Self {
        Self { secret: rand::random(), ttl: ttl.min(LONGEST), limit: limit.max(4), entries: Mutex::default() }
    }

    /// Returns the key of a question, given in parts.
    pub(crate) fn key<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
        let mut hash = Sha256::new_with_prefix(self.secret);
        for part in parts {
            // With the length, no two questions have the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Returns the answer to a question, asking it if there is none that is fresh. A failure is not
    /// kept: the next caller asks again.
    ///
    /// # Cancel safety
    /// If the caller that asks is dropped, one of those that wait asks instead.
    pub(crate) async fn get<E>(
        &self,
        key: Key,
        ask: impl AsyncFnOnce() -> Result<V, E>,
    ) -> Result<Fresh<V>, E> {
        let slot = self.slot(key);
        let asking = async || {
            // Counted from the question: what upstream decided is at least as old as its answer.
            let asked = Instant::now();
            let until = asked.checked_add(self.ttl).unwrap_or(asked);
            Ok(Fresh { value: ask().await?, asked, until })
        };
        slot.get_or_try_init(asking).await.cloned()
    }

    fn slot(&self, key: Key) -> Slot<V> {
        let now = Instant::now();
        let is_fresh = |it: &Slot<V>| it.get().is_none_or(|it| it.until > now);
        let mut entries = self.entries.lock();
        if let Some(slot) = entries.get(&key).filter(|it| is_fresh(it)) {
            return Arc::clone(slot);
        }
        if entries.len() >= self.limit {
            entries.retain(|_, it| is_fresh(it));
            // A quarter at a time: the search above is then rare, however fast questions arrive.
            let excess = (entries.len() + self.limit / 4).saturating_sub(self.limit);
            let pushed_out: Vec<Key> = entries.keys().take(excess).copied().collect();
            for key in pushed_out {
                entries.remove(&key);
            }
        }
        let slot = Slot::default();
        entries.insert(key, Arc::clone(&slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_used_again_until_it_expires_also_a_negative_one() {
        let (cache, asked) = (ReviewCache::new(TTL, 10), AtomicUsize::new(0));
        let ask = async |key: &[u8]| {
            let asking = async || -> Result<bool, Infallible> {
                asked.fetch_add(1, Ordering::Relaxed);
                // The answer takes a second.
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(false)
            };
            let Ok(answer) = cache.get(cache.key([key]), asking).await;
            (answer.value, asked.load(Ordering::Relaxed))
        };
        assert_eq!(ask(b"a").await, (false, 1));
        tokio::time::advance(TTL - Duration::from_secs(2)).await;
        assert_eq!(ask(b"a").await, (false, 1));
        assert_eq!(ask(b"b").await, (false, 2), "another question");
        assert_eq!(ask(b"a").await, (false, 3), "ten seconds after the question");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_questions_are_asked_once_and_failures_are_not_kept() {
        let (cache, asked) = (ReviewCache::new(TTL, 10), AtomicUsize::new(0));
        let key = cache.key([&b"a"[..]]);
        let failing = async || -> Result<bool, &str> { Err("unreachable") };
        assert_eq!(cache.get(key, failing).await, Err("unreachable"));
        let answers = join_all((0..50).map(|_| {
            cache.get(key, async || -> Result<bool, &str> {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(true)
            })
        }));
        assert!(answers.await.iter().all(|it| it.as_ref().is_ok_and(|it| it.value)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn the_number_of_entries_is_bounded() {
        let cache = ReviewCache::new(TTL, 100);
        for number in 0..1_000_u32 {
            let key = cache.key([&number.to_le_bytes()[..]]);
            let answer = cache.get(key, async || Ok::<_, Infallible>(number)).await;
            assert_eq!(answer.map(|it| it.value), Ok(number));
            assert!(cache.entries.lock().len() <= 100);
        }
    }

    #[test]
    fn keys_depend_on_the_process_and_on_the_borders_of_parts() {
        let (one, other) = (ReviewCache::<bool>::new(TTL, 10), ReviewCache::<bool>::new(TTL, 10));
        assert_ne!(one.key([&b"ab"[..], b"c"]), one.key([&b"a"[..], b"bc"]));
        assert_ne!(one.key([&b"token"[..]]), other.key([&b"token"[..]]));
        assert_eq!(one.key([&b"token"[..]]), one.key([&b"token"[..]]));
    }
}
