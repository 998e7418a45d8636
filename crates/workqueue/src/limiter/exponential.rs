//! An exponential backoff for each key (rule RL-1).

use std::hash::Hash;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::{RateLimiter, count_of};

/// Exponential backoff: a key waits `base`, then twice that, then four times, up to `max`.
///
/// It keeps a counter for each key that has failed and was not forgotten.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::RateLimiter;
/// use dogwatch_workqueue::limiter::ExponentialPerItem;
///
/// let limiter = ExponentialPerItem::new(Duration::from_millis(5), Duration::from_millis(15));
/// let waits = [(); 3].map(|()| limiter.when(&"web").as_millis());
/// assert_eq!(waits, [5, 10, 15]);
/// limiter.forget(&"web");
/// assert_eq!(limiter.requeues(&"web"), 0);
/// ```
#[derive(Debug)]
pub struct ExponentialPerItem<K> {
    base: Duration,
    max: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K> ExponentialPerItem<K> {
    /// Creates a limiter with waits from `base` to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Mutex::new(HashMap::new()) }
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for ExponentialPerItem<K> {
    fn when(&self, key: &K) -> Duration {
        let mut failures = self.failures.lock();
        let failures = count_of(&mut failures, key);
        let wait = doubled(self.base, *failures).map_or(self.max, |it| it.min(self.max));
        *failures = failures.saturating_add(1);
        wait
    }

    fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }
}

/// Returns `base · 2^times`, or `None` on overflow.
fn doubled(base: Duration, times: u32) -> Option<Duration> {
    if base.is_zero() {
        return Some(base);
    }
    base.checked_mul(1_u32.checked_shl(times)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rl_1_waits_double_per_key_until_it_is_forgotten() {
        let limiter = ExponentialPerItem::new(MS, Duration::from_secs(1));
        let waits: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
        assert_eq!(waits, [MS, 2 * MS, 4 * MS, 8 * MS, 16 * MS]);
        assert_eq!(limiter.requeues(&"one"), 5);
        assert_eq!(limiter.when(&"two"), MS);
        assert_eq!(limiter.when(&"two"), 2 * MS);
        assert_eq!(limiter.requeues(&"two"), 2);

        limiter.forget(&"one");
        assert_eq!(limiter.requeues(&"one"), 0);
        assert_eq!(limiter.when(&"one"), MS);
        limiter.forget(&"one");
        limiter.forget(&"two");
        assert!(limiter.failures.lock().is_empty(), "a forgotten key takes no memory");
    }

    #[test]
    fn rl_1_a_thousand_failures_do_not_overflow() {
        for max in [Duration::from_secs(1000), Duration::from_hours(1000)] {
            let limiter = ExponentialPerItem::new(MS, max);
            for _ in 0..1000 {
                assert!(limiter.when(&1) <= max);
            }
            assert_eq!(limiter.when(&1), max);
            assert_eq!(limiter.requeues(&1), 1001);
        }
    }

    #[test]
    fn rl_1_a_base_of_zero_never_waits() {
        let limiter = ExponentialPerItem::new(Duration::ZERO, MS);
        assert!((0..100).all(|_| limiter.when(&1).is_zero()));
    }
}
