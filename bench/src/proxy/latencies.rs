//! A histogram of latencies, written by many tasks at the same time.
//!
//! A bucket is at most 3 % wide, so that a percentile is exact to 3 %. Millions of samples take a
//! few kilobytes, and adding one takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The logarithm of the number of buckets between two powers of two.
const BITS: u32 = 5;
/// The number of buckets: for values up to 2^40 microseconds, which are twelve days.
const BUCKETS: usize = 36 << BITS;

/// A histogram of latencies.
#[derive(Debug)]
pub(super) struct Latencies(Box<[AtomicU64]>);

impl Latencies {
    pub(super) fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds a sample.
    pub(super) fn add(&self, latency: Duration) {
        let at = bucket(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        self.0[at.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the latency that this share of the samples, between 0 and 1, does not exceed. `None`
    /// without samples.
    pub(super) fn percentile(&self, share: f64) -> Option<Duration> {
        let counts: Vec<u64> = self.0.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let rank = ((total as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let found = counts.iter().position(|it| {
            below += it;
            below >= rank
        });
        found.map(|at| Duration::from_micros(highest(at)))
    }
}

/// Returns the bucket of a value: one for each value up to 63, and 32 for each power of two above.
fn bucket(value: u64) -> usize {
    let shift = value.checked_ilog2().unwrap_or_default().saturating_sub(BITS);
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// Returns the highest value in a bucket.
fn highest(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let leading = bucket - (shift << BITS);
    ((leading as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(micros: impl IntoIterator<Item = u64>, share: f64) -> Option<u64> {
        let latencies = Latencies::new();
        micros.into_iter().for_each(|it| latencies.add(Duration::from_micros(it)));
        latencies.percentile(share).map(|it| it.as_micros() as u64)
    }

    #[test]
    fn a_value_is_in_a_bucket_that_ends_at_most_three_percent_above_it() {
        for value in
            (0..2_000).chain((11..40).flat_map(|power| [(1 << power) - 1, 1 << power, 3 << (power - 1)]))
        {
            let end = highest(bucket(value));
            assert!(end >= value && (end - value) * 32 <= value, "{value} is in a bucket up to {end}");
        }
        assert!(bucket((1 << 40) - 1) < BUCKETS);
    }

    #[test]
    fn a_percentile_is_the_least_value_that_enough_samples_do_not_exceed() {
        assert_eq!(percentile(1..=50, 0.5), Some(25));
        assert_eq!(percentile(1..=50, 0.99), Some(50));
        assert_eq!(percentile([7], 0.99), Some(7));
        assert_eq!(percentile([], 0.5), None);
    }

    #[test]
    fn one_late_sample_of_a_hundred_does_not_change_the_99th_percentile() {
        let of = |late| {
            percentile(std::iter::repeat_n(10, 100 - late).chain(std::iter::repeat_n(40_000, late)), 0.99)
        };
        assert_eq!(of(1), Some(10));
        assert!(of(2) >= Some(40_000));
    }

    #[test]
    fn a_latency_of_weeks_is_counted_as_the_longest() {
        assert!(percentile([u64::MAX], 0.5) > Some(1 << 39));
    }
}
