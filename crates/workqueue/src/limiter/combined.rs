//! Limiters built from other limiters (rule RL-1).

use std::fmt;
use std::time::Duration;

use super::RateLimiter;

/// Combines several limiters by the longest wait.
///
/// Each call goes to all of them, so each of them counts each attempt.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::RateLimiter;
/// use dogwatch_workqueue::limiter::{ExponentialPerItem, MaxOf, TokenBucket};
///
/// let (base, max) = (Duration::from_millis(5), Duration::from_secs(1000));
/// let limiter = MaxOf::new(ExponentialPerItem::new(base, max)).and(TokenBucket::new(10.0, 100));
/// assert_eq!(limiter.when(&"web"), base); // the bucket has tokens left
/// ```
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Creates a combination of one limiter.
    pub fn new(limiter: impl RateLimiter<K> + 'static) -> Self {
        Self { limiters: vec![Box::new(limiter)] }
    }

    /// Adds a limiter.
    #[must_use]
    pub fn and(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiters.push(Box::new(limiter));
        self
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&self, key: &K) -> Duration {
        self.limiters.iter().map(|it| it.when(key)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        self.limiters.iter().for_each(|it| it.forget(key));
    }

    fn requeues(&self, key: &K) -> u32 {
        self.limiters.iter().map(|it| it.requeues(key)).max().unwrap_or_default()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}

/// Limits the waits of another limiter.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::RateLimiter;
/// use dogwatch_workqueue::limiter::{TokenBucket, WithMaxWait};
///
/// let limiter = WithMaxWait::new(TokenBucket::new(0.001, 1), Duration::from_secs(30));
/// assert_eq!(limiter.when(&"a"), Duration::ZERO);
/// assert_eq!(limiter.when(&"b"), Duration::from_secs(30)); // not 1000 s
/// ```
#[derive(Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// Limits the waits of `limiter` to `max`.
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn when(&self, key: &K) -> Duration {
        self.limiter.when(key).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        self.limiter.requeues(key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ExponentialPerItem, FastSlow};
    use super::*;

    #[test]
    fn rl_1_the_longest_wait_and_the_highest_count_of_several() {
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(3));
        let limiter = MaxOf::new(FastSlow::new(short, long, 3))
            .and(ExponentialPerItem::new(Duration::from_millis(1), Duration::from_secs(1)));
        let waits: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
        assert_eq!(waits, [short, short, short, long, long]);
        assert_eq!(limiter.requeues(&"one"), 5);
        assert_eq!(limiter.when(&"two"), short);
        limiter.forget(&"one");
        assert_eq!(limiter.requeues(&"one"), 0);
        assert_eq!(limiter.when(&"one"), short);
    }

    #[test]
    fn rl_1_no_wait_is_longer_than_the_longest_allowed() {
        let max = Duration::from_secs(500);
        let inner = ExponentialPerItem::new(Duration::from_millis(5), Duration::from_secs(1000));
        let limiter = WithMaxWait::new(inner, max);
        for _ in 0..100 {
            assert!(limiter.when(&"one") <= max);
        }
        assert_eq!(limiter.when(&"one"), max);
        assert_eq!(limiter.requeues(&"one"), 101);
        limiter.forget(&"one");
        assert_eq!(limiter.when(&"one"), Duration::from_millis(5));
    }
}
