//! The clock of one queue: nanoseconds since its first use, on tokio's clock, so that tests can
//! pause it.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

/// The maximum time that a timer is set ahead. A waiter that wakes up earlier than its deadline
/// checks again, so nothing fires early or is lost; and a delay of a thousand years does not
/// overflow.
const FURTHEST: Duration = Duration::from_hours(24);

#[derive(Debug, Default)]
pub(crate) struct Clock {
    start: OnceLock<Instant>,
}

impl Clock {
    /// Returns the time since the first use. A `u64` of nanoseconds suffices for 584 years.
    pub(crate) fn now(&self) -> u64 {
        let now = Instant::now();
        let start = self.start.get_or_init(|| now);
        nanoseconds(now.saturating_duration_since(*start))
    }

    /// Returns the time at which `delay` will have passed.
    pub(crate) fn after(now: u64, delay: Duration) -> u64 {
        now.saturating_add(nanoseconds(delay))
    }

    /// Returns the instant to set a timer to for the time `at`.
    pub(crate) fn alarm(&self, at: u64) -> Instant {
        let now = Instant::now();
        let start = *self.start.get_or_init(|| now);
        match start.checked_add(Duration::from_nanos(at)) {
            Some(alarm) => alarm.min(now + FURTHEST),
            None => now + FURTHEST,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_counts_from_the_first_use() {
        let clock = Clock::default();
        assert_eq!(clock.now(), 0);
        tokio::time::advance(Duration::from_millis(3)).await;
        assert_eq!(clock.now(), 3_000_000);
        assert_eq!(clock.alarm(5_000_000), Instant::now() + Duration::from_millis(2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unbounded_delay_is_checked_every_day() {
        let clock = Clock::default();
        let at = Clock::after(clock.now(), Duration::MAX);
        assert_eq!(at, u64::MAX);
        assert_eq!(clock.alarm(at), Instant::now() + FURTHEST);
    }
}
