//! Weighted round robin without a lock or a queue: gRPC's static stride scheduler (A58).
//!
//! A counter walks over the members in rounds. In each round a member is picked or skipped so that
//! over many rounds it is picked in proportion to its weight, and evenly spread.
//!
//! On average a pick skips as many members as the ratio of the largest weight to the mean. The
//! ratio is therefore capped, so that a pick costs the same for any number of endpoints.

use std::sync::atomic::{AtomicU64, Ordering};

/// The largest scaled weight: its member is picked in every round.
const FULL: u64 = u16::MAX as u64;
/// Staggers the members, so that equal weights are not all skipped in the same round.
const STAGGER: u64 = FULL / 2;

/// The cap of the largest weight as a multiple of the mean; the same as in gRPC's scheduler.
const LARGEST: u64 = 10;

/// The scaled weights of the members, in order.
#[derive(Debug)]
pub(crate) struct Stride {
    weights: Vec<u16>,
}

impl Stride {
    /// Creates a scheduler. Weights are relative to the largest; 0 counts as 1, and none counts for
    /// more than ten times the mean.
    pub(crate) fn new(weights: impl Iterator<Item = u32> + Clone) -> Self {
        let weights = weights.map(|it| u64::from(it.max(1)));
        let count = (weights.clone().count() as u64).max(1);
        let mut largest = weights.clone().max().unwrap_or(1);
        // The mean is that of the capped weights, so it decreases with the cap; this converges
        // quickly.
        loop {
            let sum: u64 = weights.clone().map(|it| it.min(largest)).sum();
            let cap = (sum * LARGEST).div_ceil(count).max(1);
            if cap >= largest {
                break;
            }
            largest = cap;
        }
        let scaled = |it: u64| (it.min(largest) * FULL).div_ceil(largest) as u16;
        Self { weights: weights.map(scaled).collect() }
    }

    /// Returns the next member. There must be one; the heaviest is picked in every round, so this
    /// terminates.
    pub(crate) fn pick(&self, counter: &AtomicU64) -> usize {
        let count = self.weights.len() as u64;
        loop {
            let turn = counter.fetch_add(1, Ordering::Relaxed);
            let (round, index) = (turn / count, (turn % count) as usize);
            let weight = u64::from(self.weights[index]);
            let phase = (weight.wrapping_mul(round).wrapping_add(index as u64 * STAGGER)) % FULL;
            if phase >= FULL - weight {
                return index;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(weights: &[u32], picks: usize) -> Vec<usize> {
        let stride = Stride::new(weights.iter().copied());
        let counter = AtomicU64::new(17);
        let mut shares = vec![0; weights.len()];
        for _ in 0..picks {
            shares[stride.pick(&counter)] += 1;
        }
        shares
    }

    #[test]
    fn equal_weights_take_turns() {
        assert_eq!(shares(&[5, 5, 5, 5], 400), [100; 4]);
        assert_eq!(shares(&[0, 0], 10), [5, 5]);
        assert_eq!(shares(&[7], 3), [3]);
    }

    /// One member of weight 1,000,000 among ten thousand of weight 1: without a cap, a pick would
    /// walk over nearly all of them.
    #[test]
    fn a_pick_skips_few_members_whatever_the_weights() {
        let weights = std::iter::once(1_000_000).chain(std::iter::repeat_n(1, 9_999));
        let stride = Stride::new(weights);
        let counter = AtomicU64::new(17);
        let mut heavy = 0;
        for _ in 0..20_000 {
            heavy += usize::from(stride.pick(&counter) == 0);
        }
        let steps = (counter.load(Ordering::Relaxed) - 17) as f64 / 20_000.0;
        assert!(steps < 1.2 * LARGEST as f64, "{steps} steps per pick");
        assert!((15..25).contains(&heavy), "expected ten times the mean of 2 in 20,000: {heavy}");
    }

    proptest! {
        #[test]
        fn shares_follow_the_weights(weights in prop::collection::vec(1u32..100, 1..20)) {
            let picks = 50_000;
            let total: u32 = weights.iter().sum();
            for (weight, share) in weights.iter().zip(shares(&weights, picks)) {
                let fair = picks as f64 * f64::from(*weight) / f64::from(total);
                let error = (share as f64 - fair).abs();
                prop_assert!(error <= fair * 0.02 + 20.0, "{} instead of {} for {:?}", share, fair, weights);
            }
        }
    }
}
