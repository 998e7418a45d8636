//! Thresholds for logging slowness: something took long, and other work waits for it (rules RF-6
//! and IN-4).
//!
//! The values are those of client-go v0.36.4: `PopBatch` in `tools/cache/the_real_fifo.go` and
//! `processorListener.run` in `tools/cache/shared_informer.go`.

use std::time::Duration;

/// Anything faster is never slow.
const LONG: Duration = Duration::from_millis(100);
/// Anything slower is always slow, however large the batch.
const TOO_LONG: Duration = Duration::from_secs(1);
/// The number of deltas that may wait for the store.
const DELTAS: usize = 10;
/// The number of changes that may wait for a handler.
const CHANGES: usize = 1024;

/// Returns true if a batch of deltas was slow, with `waiting` more deltas waiting.
pub(crate) fn is_slow_batch(deltas: usize, waiting: usize, took: Duration) -> bool {
    let limit = LONG.saturating_mul(u32::try_from(deltas).unwrap_or(u32::MAX)).min(TOO_LONG);
    waiting > DELTAS && took > limit
}

/// Returns true if so many changes wait for a handler that its calls are worth timing.
pub(crate) fn is_behind(waiting: usize) -> bool {
    waiting > CHANGES
}

/// Returns true if the calls of a handler that is behind took long.
pub(crate) fn is_slow_handler(took: Duration) -> bool {
    took > LONG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rf_6_a_batch_is_slow_by_its_size_up_to_a_second_and_only_when_others_wait() {
        let ms = Duration::from_millis;
        for (deltas, waiting, took, slow) in [
            (1, 11, ms(101), true),
            (1, 11, ms(100), false),
            (1, 10, ms(500), false),
            (5, 11, ms(499), false),
            (5, 11, ms(501), true),
            (1_000_000, 11, ms(1_001), true),
            (usize::MAX, 11, ms(999), false),
        ] {
            assert_eq!(
                is_slow_batch(deltas, waiting, took),
                slow,
                "{deltas} deltas, {waiting} waiting, {took:?}"
            );
        }
    }

    #[test]
    fn in_4_a_handler_is_slow_when_many_changes_wait_and_its_calls_take_long() {
        assert!(!is_behind(1_024) && is_behind(1_025));
        assert!(!is_slow_handler(Duration::from_millis(100)) && is_slow_handler(Duration::from_millis(101)));
    }
}
