//! Back-offs of things that fail again and again: each failure doubles the delay, and a long time
//! without one resets it, as `Backoff` in client-go v0.36.4 util/flowcontrol/backoff.go does.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The back-off of each key. A key takes memory until [`Backoffs::retain`] removes it.
pub(crate) struct Backoffs<K> {
    first: Duration,
    longest: Duration,
    failures: Mutex<HashMap<K, Failure>>,
}

#[derive(Clone, Copy)]
struct Failure {
    delay: Duration,
    at: Instant,
}

impl<K: Eq + Hash + Clone> Backoffs<K> {
    /// Creates back-offs that start with a delay and are limited by another.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: Mutex::default() }
    }

    /// Returns the rest of the delay after the last failure; `None` if it is over.
    pub(crate) fn left(&self, key: &K) -> Option<Duration> {
        let failure = *self.failures.lock().get(key)?;
        Some(failure.delay.saturating_sub(failure.at.elapsed())).filter(|it| !it.is_zero())
    }

    /// Records a failure. Returns the delay after it.
    pub(crate) fn failed(&self, key: &K) -> Duration {
        let mut failures = self.failures.lock();
        let last = failures.get(key).filter(|it| it.at.elapsed() <= self.longest.saturating_mul(2));
        let delay = last.map_or(self.first, |it| it.delay.saturating_mul(2)).min(self.longest);
        failures.insert(key.clone(), Failure { delay, at: Instant::now() });
        delay
    }

    /// Removes the keys for which a condition does not hold.
    pub(crate) fn retain(&self, mut keeps: impl FnMut(&K) -> bool) {
        self.failures.lock().retain(|key, _| keeps(key));
    }
}

impl<K> fmt::Debug for Backoffs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoffs").field("keys", &self.failures.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_delay_up_to_the_longest() {
        let (second, backoffs) =
            (Duration::from_secs(1), Backoffs::new(Duration::from_secs(1), Duration::from_secs(3)));
        assert_eq!(backoffs.left(&"a"), None);
        assert_eq!(
            (backoffs.failed(&"a"), backoffs.failed(&"a"), backoffs.failed(&"a")),
            (second, second * 2, second * 3)
        );
        tokio::time::advance(second).await;
        assert_eq!((backoffs.left(&"a"), backoffs.left(&"b")), (Some(second * 2), None));
        tokio::time::advance(second * 2).await;
        assert_eq!(backoffs.left(&"a"), None);
        tokio::time::advance(second * 6).await;
        assert_eq!(backoffs.failed(&"a"), second, "it has recovered");
        backoffs.retain(|it| *it != "a");
        assert_eq!(backoffs.left(&"a"), None);
    }
}
