//! The pauses of a feed that begins again and again: they double while it fails, up to a limit.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);

/// The longest pause. An object that cannot be read costs upstream one list in this time.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// The time without a failure after which the pauses begin with the first one.
const STABLE: Duration = Duration::from_secs(10 * 60);

/// The pauses of one feed.
#[derive(Debug, Default)]
pub(crate) struct FeedPause {
    last: Option<Duration>,
    /// The end of the last pause.
    ended: Option<Instant>,
}

impl FeedPause {
    /// Returns the pause after a failure now.
    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        let is_stable = self.ended.is_some_and(|it| now.saturating_duration_since(it) >= STABLE);
        let pause = match self.last.filter(|_| !is_stable) {
            Some(last) => last.saturating_mul(2).min(LONGEST),
            None => FIRST,
        };
        self.last = Some(pause);
        self.ended = now.checked_add(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_the_feed_is_stable() {
        let (mut pause, mut now) = (FeedPause::default(), Instant::now());
        let mut seconds = Vec::new();
        for _ in 0..12 {
            let next = pause.next(now);
            seconds.push(next.as_secs());
            now += next + Duration::from_secs(1);
        }
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(pause.next(now + STABLE + LONGEST), FIRST);
    }
}
