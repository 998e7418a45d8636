//! For how long a server may answer watches with internal errors before everything is read anew (rule REF-6).

use std::time::Duration;

use tokio::time::Instant;

/// A row of internal errors is over when none came for this long. client-go's number.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// The internal errors of one reflector.
#[derive(Debug)]
pub(super) struct InternalErrors {
    /// How long a row of them may last; `None` tolerates none.
    tolerated: Option<Duration>,
    /// The first and the last of the row.
    row: Option<(Instant, Instant)>,
}

impl InternalErrors {
    pub(super) fn new(tolerated: Option<Duration>) -> Self {
        Self { tolerated, row: None }
    }

    /// One more came: true when it may be shrugged off. When not, the row is over, and the next one begins anew.
    pub(super) fn tolerable(&mut self, now: Instant) -> bool {
        let Some(tolerated) = self.tolerated else { return false };
        let first = match self.row {
            Some((first, last)) if now.saturating_duration_since(last) < FORGIVEN_AFTER => first,
            _ => now,
        };
        let tolerable = now.saturating_duration_since(first) <= tolerated;
        self.row = tolerable.then_some((first, now));
        tolerable
    }

    /// Something else happened to a watch.
    pub(super) fn over(&mut self) {
        self.row = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many errors are shrugged off when one comes a second, with a longer gap before one of them.
    fn shrugged_off(tolerated: Option<u64>, gap_before: Option<u32>) -> u32 {
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
        panic!("tolerated for ever");
    }

    /// The upstream tests RetryInternalError and RetryWithDeadline.
    #[test]
    fn ref_6_internal_errors_are_shrugged_off_for_a_while() {
        assert_eq!(shrugged_off(None, None), 0);
        assert_eq!(shrugged_off(Some(30), None), 31);
        assert_eq!(shrugged_off(Some(30), Some(9)), 40);
    }

    #[test]
    fn ref_6_another_outcome_ends_the_row() {
        let mut errors = InternalErrors::new(Some(Duration::from_secs(5)));
        let now = Instant::now();
        assert!(errors.tolerable(now));
        errors.over();
        assert!(errors.tolerable(now + Duration::from_secs(6)));
        assert!(!errors.tolerable(now + Duration::from_secs(12)));
    }
}
