//! The tolerance for internal errors on watches, before the collection is listed again (rule
//! REF-6).

use std::time::Duration;

use tokio::time::Instant;

/// The time without an internal error after which a series of them is over. client-go uses the same
/// one (k8s.io/client-go v0.36.4 `tools/cache/reflector.go`, `NewRetryWithDeadline`).
const SERIES_ENDS_AFTER: Duration = Duration::from_secs(60);

/// The internal errors of one reflector.
#[derive(Debug)]
pub(super) struct InternalErrors {
    /// The longest tolerated duration of a series; `None` tolerates none.
    tolerated: Option<Duration>,
    /// The times of the first and the last error of the series.
    series: Option<(Instant, Instant)>,
}

impl InternalErrors {
    pub(super) fn new(tolerated: Option<Duration>) -> Self {
        Self { tolerated, series: None }
    }

    /// Records an internal error. Returns true if it is tolerated. Otherwise the series is over,
    /// and the next error starts a new one.
    pub(super) fn tolerable(&mut self, now: Instant) -> bool {
        let Some(tolerated) = self.tolerated else { return false };
        let first = match self.series {
            Some((first, last)) if now.saturating_duration_since(last) < SERIES_ENDS_AFTER => first,
            _ => now,
        };
        let tolerable = now.saturating_duration_since(first) <= tolerated;
        self.series = tolerable.then_some((first, now));
        tolerable
    }

    /// Ends the series, because the watch ended in another way.
    pub(super) fn end(&mut self) {
        self.series = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of errors that are tolerated if one occurs per second, with a longer gap
    /// before one of them.
    fn tolerated_errors(tolerated: Option<u64>, gap_before: Option<u32>) -> u32 {
        let mut errors = InternalErrors::new(tolerated.map(Duration::from_secs));
        let mut now = Instant::now();
        for call in 0..1000 {
            if call > 0 {
                now += Duration::from_secs(if gap_before == Some(call) { 60 } else { 1 });
            }
            if !errors.tolerable(now) {
                return call;
            }
        }
        panic!("the errors are tolerated for ever");
    }

    /// Ported from client-go's TestRetryInternalError and TestRetryWithDeadline.
    #[test]
    fn ref_6_internal_errors_are_tolerated_for_a_while() {
        assert_eq!(tolerated_errors(None, None), 0);
        assert_eq!(tolerated_errors(Some(30), None), 31);
        assert_eq!(tolerated_errors(Some(30), Some(9)), 40);
    }

    #[test]
    fn ref_6_another_outcome_ends_the_series() {
        let mut errors = InternalErrors::new(Some(Duration::from_secs(5)));
        let now = Instant::now();
        assert!(errors.tolerable(now));
        errors.end();
        assert!(errors.tolerable(now + Duration::from_secs(6)));
        assert!(!errors.tolerable(now + Duration::from_secs(12)));
    }
}
