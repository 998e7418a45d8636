//! A few fast attempts, then slow ones (rule RL-1).

use std::hash::Hash;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::{RateLimiter, count_of};

/// The first attempts of a key wait `fast`, all others `slow`.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::RateLimiter;
/// use dogwatch_workqueue::limiter::FastSlow;
///
/// let limiter = FastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 2);
/// let waits = [(); 3].map(|()| limiter.when(&"web").as_millis());
/// assert_eq!(waits, [5, 5, 10_000]);
/// ```
#[derive(Debug)]
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_tries: u32,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K> FastSlow<K> {
    /// Creates a limiter that waits `fast` for `fast_tries` attempts, then `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_tries: u32) -> Self {
        Self { fast, slow, fast_tries, failures: Mutex::new(HashMap::new()) }
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for FastSlow<K> {
    fn when(&self, key: &K) -> Duration {
        let mut failures = self.failures.lock();
        let failures = count_of(&mut failures, key);
        *failures = failures.saturating_add(1);
        if *failures <= self.fast_tries { self.fast } else { self.slow }
    }

    fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rl_1_three_fast_tries_and_then_slow_ones_until_forgotten() {
        let (fast, slow) = (Duration::from_millis(5), Duration::from_secs(10));
        let limiter = FastSlow::new(fast, slow, 3);
        let waits: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
        assert_eq!(waits, [fast, fast, fast, slow, slow]);
        assert_eq!(limiter.requeues(&"one"), 5);
        assert_eq!(limiter.when(&"two"), fast);
        limiter.forget(&"one");
        assert_eq!(limiter.requeues(&"one"), 0);
        assert_eq!(limiter.when(&"one"), fast);
    }
}
