//! Fast round robin: the remainder of a counter, by two multiplications instead of a division
//! (Lemire, Kaser and Kurz, 2019).

/// A number of members that take turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundRobin {
    count: u32,
    /// 2^64 divided by the count, rounded up; 0 stands for 2^64 itself.
    inverse: u64,
}

impl RoundRobin {
    /// Creates the turns of `count` members. 0 counts as 1.
    pub(crate) fn among(count: usize) -> Self {
        let count = count.clamp(1, u32::MAX as usize) as u32;
        Self { count, inverse: (u64::MAX / u64::from(count)).wrapping_add(1) }
    }

    /// Returns the index of the member with this turn. Once in 2^32 turns, one is out of order.
    pub(crate) fn index(self, turn: u64) -> usize {
        let fraction = self.inverse.wrapping_mul(u64::from(turn as u32));
        ((u128::from(fraction) * u128::from(self.count)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_take_turns_in_order() {
        for count in [1, 2, 3, 10, 10_000] {
            let turns = RoundRobin::among(count);
            assert!((0..3 * count).all(|it| turns.index(it as u64) == it % count), "{count}");
        }
        assert_eq!(RoundRobin::among(0).index(7), 0);
    }

    proptest! {
        #[test]
        fn the_index_is_the_remainder(count in 1u32.., turn: u32) {
            prop_assert_eq!(RoundRobin::among(count as usize).index(turn.into()), (turn % count) as usize);
        }
    }
}
