//! Saturating arithmetic on instants and durations that come from outside.
//!
//! `+` on `Instant` and the products of `Duration` panic on overflow, and these values come from
//! users and servers: `grpc-timeout`, backoffs, refresh periods. A test in `xtask/tests/house`
//! rejects the operators elsewhere.

use std::time::Duration;

use tokio::time::Instant;

/// A duration that is practically infinite, yet leads to an instant that every clock can represent.
pub(crate) const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Returns the instant `delay` after `start`, at most a century later.
pub(crate) fn after(start: Instant, delay: Duration) -> Instant {
    start.checked_add(delay.min(CENTURY)).unwrap_or(start)
}

/// Returns the instant `delay` from now, at most a century ahead.
pub(crate) fn from_now(delay: Duration) -> Instant {
    after(Instant::now(), delay)
}

/// Returns a multiple of a duration, at most a century.
pub(crate) fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).map_or(CENTURY, |it| it.min(CENTURY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_delay_is_too_long() {
        let now = Instant::now();
        assert_eq!(from_now(Duration::from_secs(5)), now + Duration::from_secs(5));
        let latest = from_now(Duration::MAX);
        assert_eq!(latest, now + CENTURY);
        assert_eq!(after(latest, Duration::MAX), latest + CENTURY);
        // The timer accepts such an instant.
        let waiting = tokio::time::timeout(Duration::from_secs(1), tokio::time::sleep_until(latest));
        assert!(waiting.await.is_err());
    }

    #[test]
    fn no_factor_is_too_large() {
        assert_eq!(scaled(Duration::from_secs(10), 1.2), Duration::from_secs(12));
        for (duration, factor) in
            [(Duration::MAX, 1.2), (Duration::from_secs(1), f64::NAN), (Duration::MAX, -1.0)]
        {
            assert_eq!(scaled(duration, factor), CENTURY);
        }
    }
}
