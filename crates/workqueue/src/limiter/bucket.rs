//! A token bucket for all keys together (rule RL-1).
//!
//! `governor` rejects early requests; here nothing is rejected, and each caller gets its own
//! reserved time. That takes three lines of arithmetic, on tokio's clock.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A token bucket: `burst` attempts at once, and `rate` per second after that.
///
/// Each call takes a token, possibly one of the future, and returns the time to wait for it.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::RateLimiter;
/// use dogwatch_workqueue::limiter::TokenBucket;
///
/// let bucket = TokenBucket::new(10.0, 2);
/// assert_eq!([bucket.when(&"a"), bucket.when(&"b")], [Duration::ZERO; 2]);
/// assert!(bucket.when(&"c") > Duration::ZERO, "the burst is used up, whatever the key");
/// ```
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Negative if tokens of the future are reserved.
    tokens: f64,
    /// The time of `tokens`; `None` before the first call.
    at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` tokens, at least one, which gains `rate` tokens per second.
    ///
    /// # Panics
    /// Panics if the rate is not a positive finite number.
    pub fn new(rate: f64, burst: u32) -> Self {
        assert!(rate > 0.0 && rate.is_finite(), "the rate is not a positive finite number: {rate}");
        let burst = f64::from(burst.max(1));
        Self { rate, burst, level: Mutex::new(Level { tokens: burst, at: None }) }
    }

    fn reserve(&self) -> Duration {
        let mut level = self.level.lock();
        let now = Instant::now();
        let passed = level.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        level.tokens = (level.tokens + passed.as_secs_f64() * self.rate).min(self.burst) - 1.0;
        level.at = Some(now);
        Duration::try_from_secs_f64((-level.tokens / self.rate).max(0.0)).unwrap_or(Duration::MAX)
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn when(&self, _key: &K) -> Duration {
        self.reserve()
    }

    fn forget(&self, _key: &K) {}

    fn requeues(&self, _key: &K) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(bucket: &TokenBucket) -> u128 {
        RateLimiter::<&str>::when(bucket, &"any").as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn rl_1_a_burst_goes_at_once_and_the_rest_reserve_their_time() {
        let bucket = TokenBucket::new(10.0, 3);
        let waits: Vec<_> = (0..5).map(|_| milliseconds(&bucket)).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!(milliseconds(&bucket), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn rl_1_a_bucket_never_holds_more_than_its_burst() {
        let bucket = TokenBucket::new(10.0, 2);
        assert_eq!(milliseconds(&bucket), 0);
        tokio::time::advance(Duration::from_hours(1)).await;
        let waits: Vec<_> = (0..3).map(|_| milliseconds(&bucket)).collect();
        assert_eq!(waits, [0, 0, 100]);
    }
}
