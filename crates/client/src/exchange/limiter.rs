//! The client-side rate limit: a token bucket shared by all handles of a client (rule RQ-5).
//!
//! Off by default; the server's own fairness is better informed. It uses tokio's clock, so that
//! tests can pause it.

use std::num::NonZeroU32;
use std::ops::Add;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use crate::config::RateLimit;

/// The longest time to fill the bucket; its nanoseconds must fit 64 bits.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A token bucket. Dropping the future cancels the wait; a token is taken only when the wait is
/// over.
#[derive(Debug)]
pub(crate) struct Limiter {
    bucket: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<TokioTime>>,
    clock: TokioClock,
}

#[derive(Clone, Debug)]
struct TokioClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TokioTime(Instant);

impl Limiter {
    /// Returns `None` if the rate is not positive, which turns the limit off, as in client-go.
    pub(crate) fn new(limit: RateLimit) -> Option<Self> {
        let burst = NonZeroU32::new(limit.burst).unwrap_or(NonZeroU32::MIN);
        // A rate so low that the bucket is not full within the clock's range becomes one that fills
        // it in a hundred years: only the burst passes.
        let interval = (limit.qps > 0.0)
            .then(|| Duration::try_from_secs_f64(1.0 / f64::from(limit.qps)).unwrap_or(LONGEST))?
            .min(LONGEST / burst.get());
        let quota = Quota::with_period(interval)?.allow_burst(burst);
        Some(Self { bucket: RateLimiter::direct_with_clock(quota, TokioClock), clock: TokioClock })
    }

    /// Waits for a token; returns the time waited.
    pub(crate) async fn wait(&self) -> Duration {
        let start = Instant::now();
        while let Err(not_until) = self.bucket.check() {
            tokio::time::sleep(not_until.wait_time_from(self.clock.now())).await;
        }
        start.elapsed()
    }
}

impl Clock for TokioClock {
    type Instant = TokioTime;

    fn now(&self) -> TokioTime {
        TokioTime(Instant::now())
    }
}

impl Reference for TokioTime {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_duration_since(earlier.0).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

impl Add<Nanos> for TokioTime {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self(self.0.checked_add(Duration::from(duration)).unwrap_or(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rq_5_a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let limiter = Limiter::new(RateLimit { qps: 5.0, burst: 10 }).expect("a positive rate");
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(limiter.wait().await, Duration::ZERO);
        }
        for _ in 0..5 {
            limiter.wait().await;
        }
        let taken = start.elapsed();
        assert!((Duration::from_millis(990)..Duration::from_millis(1020)).contains(&taken), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn rq_5_the_burst_passes_at_the_lowest_rate() {
        for (qps, burst) in
            [(1e-30, 1), (1e-30, 7), (1e-30, 1_000), (f32::MIN_POSITIVE, u32::MAX), (1e-9, 1_000)]
        {
            let limiter = Limiter::new(RateLimit { qps, burst }).expect("a positive rate");
            for _ in 0..burst.min(1_000) {
                assert_eq!(limiter.wait().await, Duration::ZERO, "{qps} {burst}");
            }
            let next = tokio::time::timeout(Duration::from_secs(24 * 3600), limiter.wait()).await;
            assert_eq!(next.is_err(), burst <= 1_000, "{qps} {burst}");
        }
    }

    #[test]
    fn rq_5_a_rate_that_is_not_positive_is_no_limit() {
        for qps in [0.0, -1.0] {
            assert!(Limiter::new(RateLimit { qps, burst: 10 }).is_none());
        }
    }
}
