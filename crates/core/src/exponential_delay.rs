//! The arithmetic of exponential backoffs, in one place: growth, limit, and numbers out of range.

use std::time::Duration;

/// A delay that grows by a factor with each failure in a row, up to a limit.
///
/// Pure: it counts nothing and reads no clock. No input makes it panic, also not a factor that is
/// infinite or not a number.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_core::ExponentialDelay;
///
/// let delay = ExponentialDelay::doubling(Duration::from_millis(100), Duration::from_secs(5));
/// let delays = [0, 1, 2, 3, 100].map(|failures| delay.after(failures).as_millis());
/// assert_eq!(delays, [0, 100, 200, 400, 5_000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialDelay {
    /// The delay after the first failure.
    pub first: Duration,
    /// The factor between one delay and the next. A factor below 1, or one that is not a number,
    /// counts as 1.
    pub factor: f64,
    /// The longest delay.
    pub longest: Duration,
}

impl ExponentialDelay {
    /// Returns a delay that doubles with each failure.
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { first, factor: 2.0, longest }
    }

    /// Returns the delay after this number of failures in a row, which is zero if there was none.
    pub fn after(&self, failures: u32) -> Duration {
        let Some(growths) = failures.checked_sub(1) else { return Duration::ZERO };
        let growths = i32::try_from(growths).unwrap_or(i32::MAX);
        // Zero times infinity is not a number, and no delay.
        if self.first.is_zero() {
            return Duration::ZERO;
        }
        saturating_scale(self.first, self.factor.max(1.0).powi(growths)).min(self.longest)
    }
}

/// Returns `duration * factor`, or `Duration::MAX` if that is out of range or not a number.
/// `Duration::mul_f64` panics instead.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_core::saturating_scale;
///
/// let second = Duration::from_secs(1);
/// assert_eq!(saturating_scale(second, 1.5), Duration::from_millis(1_500));
/// assert_eq!(saturating_scale(second, f64::INFINITY), Duration::MAX);
/// ```
pub fn saturating_scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn delays_grow_by_the_factor_up_to_the_longest() {
        let delay = ExponentialDelay { first: 10 * MS, factor: 5.0, longest: 1_000 * MS };
        assert_eq!([1, 2, 3, 4, 5].map(|it| delay.after(it).as_millis()), [10, 50, 250, 1_000, 1_000]);
    }

    #[test]
    fn a_delay_of_zero_stays_zero() {
        let delay = ExponentialDelay::doubling(Duration::ZERO, 1_000 * MS);
        assert_eq!(delay.after(u32::MAX), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_delay_is_between_the_first_and_the_longest(
            failures in 1u32..,
            factor in prop_oneof![Just(f64::INFINITY), Just(f64::NAN), Just(-2.0), 0.0..10.0f64],
            first in 1u64..1_000,
            longest in 1_000u64..,
        ) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
            let delay = ExponentialDelay { first, factor, longest }.after(failures);
            prop_assert!(delay >= first && delay <= longest, "{delay:?}");
        }
    }
}
