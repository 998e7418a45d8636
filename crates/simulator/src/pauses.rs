//! Pauses: the time for which a controller leaves an object alone before it acts on it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The start of the pause of each key. A key takes memory until [`Pauses::end`].
pub(crate) struct Pauses<K> {
    since: Mutex<HashMap<K, Instant>>,
}

impl<K: Eq + Hash + Clone> Pauses<K> {
    /// Returns the rest of the pause of a key, which starts with the first call; `None` when it is
    /// over.
    pub(crate) fn left(&self, key: &K, pause: Duration) -> Option<Duration> {
        let mut since = self.since.lock();
        let since = match since.get(key) {
            Some(since) => *since,
            None => *since.entry(key.clone()).or_insert_with(Instant::now),
        };
        Some(pause.saturating_sub(since.elapsed())).filter(|it| !it.is_zero())
    }

    /// Removes the keys for which a condition does not hold.
    pub(crate) fn retain(&self, mut keeps: impl FnMut(&K) -> bool) {
        self.since.lock().retain(|key, _| keeps(key));
    }

    /// Removes a key: its next pause starts with the next call of [`Self::left`].
    pub(crate) fn end(&self, key: &K) {
        self.since.lock().remove(key);
    }
}

impl<K> Default for Pauses<K> {
    fn default() -> Self {
        Self { since: Mutex::default() }
    }
}

impl<K> fmt::Debug for Pauses<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pauses").field("keys", &self.since.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_begins_with_the_first_call_and_ends_once() {
        let (pauses, second) = (Pauses::default(), Duration::from_secs(1));
        assert_eq!(pauses.left(&"a", second), Some(second));
        tokio::time::advance(second / 4).await;
        assert_eq!(pauses.left(&"a", second), Some(second * 3 / 4));
        tokio::time::advance(second).await;
        assert_eq!(pauses.left(&"a", second), None);
        pauses.end(&"a");
        assert_eq!(pauses.left(&"a", second), Some(second));
        tokio::time::advance(second).await;
        pauses.retain(|it| *it != "a");
        assert_eq!(pauses.left(&"a", second), Some(second));
    }
}
