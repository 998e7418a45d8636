//! Slow start: a new endpoint gets its share gradually, because its caches are cold and its code is
//! not yet compiled.

use std::time::Duration;

/// Ramps up the share of a new connection over time, like Envoy's slow start.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_grpc::{KubeChannel, SlowStart};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let slow_start = SlowStart { window: Duration::from_secs(60), ..SlowStart::default() };
/// let channel = KubeChannel::to(["127.0.0.1:50051"])?.slow_start(slow_start).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SlowStart {
    /// The time until the whole share is reached. Defaults to 30 s.
    pub window: Duration,
    /// The initial share, from 0 to 1. Defaults to 0.1.
    pub least: f64,
}

impl Default for SlowStart {
    fn default() -> Self {
        Self { window: Duration::from_secs(30), least: 0.1 }
    }
}

/// The admission of an endpoint that accepts all of its picks.
pub(crate) const ALL: u32 = u32::MAX;

impl SlowStart {
    /// Returns the share of its picks that an endpoint accepts, in 2^32nds, at this time after it
    /// became ready.
    pub(crate) fn admission(&self, age: Duration) -> u32 {
        if age >= self.window {
            return ALL;
        }
        let share = (age.as_secs_f64() / self.window.as_secs_f64()).max(self.least).clamp(0.0, 1.0);
        (share * f64::from(ALL)) as u32
    }

    /// Returns the interval at which shares must be recomputed while an endpoint is new.
    pub(crate) fn pace(&self) -> Duration {
        (self.window / 20).max(Duration::from_millis(50))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_from_the_initial_one_to_all() {
        let ramp = SlowStart::default();
        let share = |seconds| f64::from(ramp.admission(Duration::from_secs(seconds))) / f64::from(ALL);
        assert!((share(0) - 0.1).abs() < 1e-6 && (share(15) - 0.5).abs() < 1e-6);
        assert_eq!((ramp.admission(Duration::from_secs(30)), share(60)), (ALL, 1.0));
        let odd = SlowStart { window: Duration::ZERO, least: 7.0 };
        assert_eq!(odd.admission(Duration::ZERO), ALL);
    }
}
