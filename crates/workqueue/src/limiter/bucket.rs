//! So many tries a second for all keys together (rule RL-1).
//!
//! `governor` refuses what comes too soon; here nothing is refused, and each caller is told its own place in time. That is
//! three lines of arithmetic, and they run on tokio's clock.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A token bucket: `burst` tries at once, and `rate` a second after that.
///
/// Each call takes a token, if need be one that will only be there later, and says how long to wait for it.
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Below zero: so many tokens are promised that are not there yet.
    tokens: f64,
    /// When that was so; `None` before the first call.
    at: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, at least one, which gains `rate` of them a second.
    ///
    /// # Panics
    /// When the rate is not a positive number.
    pub fn new(rate: f64, burst: u32) -> Self {
        assert!(rate > 0.0 && rate.is_finite(), "not a rate: {rate}");
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
