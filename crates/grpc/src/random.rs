//! Random numbers for the hot path of a call: one small generator per thread, so that threads share
//! no state and take no lock.
//!
//! They spread load. They are not cryptographically secure.

use std::cell::RefCell;

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

thread_local! {
    static GENERATOR: RefCell<SmallRng> = RefCell::new(SmallRng::from_rng(&mut rand::rng()));
}

/// Returns 64 random bits.
pub(crate) fn bits() -> u64 {
    GENERATOR.with_borrow_mut(RngCore::next_u64)
}

/// Returns a number below `count`, which must not be 0. For realistic numbers of endpoints the bias
/// is less than one in a million.
pub(crate) fn below(count: usize) -> usize {
    scale(bits(), count)
}

/// Returns a number from 0 to 1.
pub(crate) fn unit() -> f64 {
    (bits() >> 11) as f64 / (1u64 << 53) as f64
}

/// Maps random bits to a number below `count`, by a multiplication instead of a division.
pub(crate) fn scale(bits: u64, count: usize) -> usize {
    (((bits >> 32) * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_count_is_drawn_and_no_other() {
        let mut seen = [0; 7];
        for _ in 0..7_000 {
            seen[below(7)] += 1;
        }
        assert!(seen.iter().all(|it| *it > 700), "{seen:?}");
    }

    #[test]
    fn scaling_covers_the_whole_range() {
        assert_eq!(scale(0, 10), 0);
        assert_eq!(scale(u64::MAX, 10), 9);
        assert_eq!(scale(u64::MAX, 1), 0);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&unit())));
    }
}
