//! Saturating arithmetic on times and durations that come from requests.
//!
//! `+` on `Instant`, `Timestamp`, `Duration` and `SignedDuration` panics when the result does not
//! fit, and the numbers come from requests: `timeoutSeconds`, `gracePeriodSeconds`,
//! `expirationSeconds`. A test in `xtask/tests/house` rejects the operators elsewhere.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The longest time any timer waits. No run is that long, and every clock can represent it.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the instant `delay` after `start`, at most thirty years later.
pub(crate) fn after(start: Instant, delay: Duration) -> Instant {
    start.checked_add(delay.min(FOREVER)).unwrap_or(start)
}

/// Returns the instant `delay` from now, at most thirty years ahead.
pub(crate) fn from_now(delay: Duration) -> Instant {
    after(Instant::now(), delay)
}

/// Returns a multiple of a duration, at most thirty years.
pub(crate) fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).map_or(FOREVER, |it| it.min(FOREVER))
}

/// Returns the time `seconds` after `start`, or before it if `seconds` is negative. Saturates at
/// the last or the first representable time.
pub(crate) fn seconds_after(start: Timestamp, seconds: i64) -> Timestamp {
    let delay = SignedDuration::from_secs(seconds);
    let end = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    start.checked_add(delay).unwrap_or(end)
}

/// Formats a time as objects hold it: whole seconds, in UTC.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_delays_saturate() {
        let now = Instant::now();
        assert_eq!(from_now(Duration::from_secs(5)), now + Duration::from_secs(5));
        let latest = from_now(Duration::MAX);
        assert_eq!(latest, now + FOREVER);
        assert_eq!(after(latest, Duration::MAX), latest + FOREVER);
        // The timer itself takes such an instant.
        assert!(
            tokio::time::timeout(Duration::from_secs(1), tokio::time::sleep_until(latest)).await.is_err()
        );
    }

    #[test]
    fn out_of_range_seconds_saturate() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        assert_eq!(stamp(seconds_after(start, 55)), "2026-01-02T03:05:00Z");
        assert_eq!(stamp(seconds_after(start, -5)), "2026-01-02T03:04:00Z");
        assert_eq!(seconds_after(start, i64::MAX), Timestamp::MAX);
        assert_eq!(seconds_after(start, i64::MIN), Timestamp::MIN);
    }
}
