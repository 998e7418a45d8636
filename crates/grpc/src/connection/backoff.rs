//! The delay before reconnecting: gRPC's connection backoff, as a function of the consecutive
//! failures.

use std::time::Duration;

use dogwatch_core::{ExponentialDelay, saturating_scale};

/// The backoff of reconnects. Defaults to 1 s, multiplied by 1.6 with each failure up to 120 s,
/// with 20 % jitter.
///
/// The defaults are those of gRPC's connection backoff document (`doc/connection-backoff.md`).
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_grpc::{Backoff, KubeChannel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let backoff = Backoff { longest: Duration::from_secs(10), ..Backoff::default() };
/// let channel = KubeChannel::to(["127.0.0.1:50051"])?.backoff(backoff).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub initial: Duration,
    /// The factor by which each further delay grows. One below 1 counts as 1.
    pub factor: f64,
    /// The longest delay, before jitter.
    pub longest: Duration,
    /// The fraction by which jitter may shorten or lengthen a delay, from 0 to 1.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        let (initial, longest) = (Duration::from_secs(1), Duration::from_secs(120));
        Self { initial, factor: 1.6, longest, jitter: 0.2 }
    }
}

impl Backoff {
    /// Returns the delay after this number of consecutive failures; `random` is a random number
    /// from 0 to 1.
    pub(crate) fn wait(&self, failures: u32, random: f64) -> Duration {
        let (first, factor, longest) = (self.initial, self.factor, self.longest);
        let delay = ExponentialDelay { first, factor, longest }.after(failures);
        let jitter = self.jitter.clamp(0.0, 1.0) * (2.0 * random - 1.0);
        // Out of range only if the jitter is not a number.
        saturating_scale(delay, 1.0 + jitter).min(longest.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_grow_by_the_factor_up_to_the_longest() {
        let backoff = Backoff::default();
        let seconds = |failures| backoff.wait(failures, 0.5).as_secs_f64();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(seconds(1), 1.0) && close(seconds(2), 1.6) && close(seconds(3), 2.56));
        assert!(close(seconds(12), 120.0) && close(seconds(u32::MAX), 120.0));
    }

    #[test]
    fn an_invalid_schedule_still_waits() {
        for (factor, jitter) in [(-2.0, 0.2), (f64::NAN, 0.2), (f64::INFINITY, 9.0), (1.6, f64::NAN)] {
            let backoff = Backoff { factor, jitter, ..Backoff::default() };
            for (failures, random) in [(1, 0.0), (2, 1.0), (9, 0.5), (u32::MAX, 0.0)] {
                assert!(backoff.wait(failures, random) <= Duration::from_secs(240), "{backoff:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn jitter_changes_a_delay_by_a_fifth_at_most(failures in 1u32..1_000, random in 0.0f64..1.0) {
            let backoff = Backoff::default();
            let (wait, middle) = (backoff.wait(failures, random), backoff.wait(failures, 0.5));
            prop_assert!(wait >= middle.mul_f64(0.799) && wait <= middle.mul_f64(1.201));
        }
    }
}
