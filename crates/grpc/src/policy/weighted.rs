//! Shares by weight, without a lock or a queue: gRPC's static stride scheduler (A58).
//!
//! A counter walks over the members in rounds. In each round a member is taken or skipped so that over many rounds it is
//! taken in proportion to its weight, and evenly spread.

use std::sync::atomic::{AtomicU64, Ordering};

/// The largest scaled weight: its member is taken in every round.
const FULL: u64 = u16::MAX as u64;
/// Staggers the members, so that equal weights are not all skipped in the same round.
const STAGGER: u64 = FULL / 2;

/// The scaled weights of the members, in their order.
#[derive(Debug)]
pub(crate) struct Stride {
    weights: Vec<u16>,
}

impl Stride {
    /// Weights are relative to the largest; 0 counts as 1.
    pub(crate) fn new(weights: impl Iterator<Item = u32> + Clone) -> Self {
        let largest = weights.clone().max().unwrap_or(1).max(1);
        let scaled = |it: u32| (u64::from(it.max(1)) * FULL).div_ceil(u64::from(largest)) as u16;
        Self { weights: weights.map(scaled).collect() }
    }

    /// The next member. There must be one; the heaviest is taken in every round, so that this ends.
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
