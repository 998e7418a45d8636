//! A new endpoint gets its share little by little: caches are cold and code is not yet compiled.

use std::time::Duration;

/// Lets a new connection take up its share over a while, as Envoy's slow start does.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowStart {
    /// How long it takes to get the whole share.
    pub window: Duration,
    /// The share it begins with, from 0 to 1.
    pub least: f64,
}

impl Default for SlowStart {
    fn default() -> Self {
        Self { window: Duration::from_secs(30), least: 0.1 }
    }
}

/// All of what an endpoint is picked for.
pub(crate) const ALL: u32 = u32::MAX;

impl SlowStart {
    /// Which share of the calls an endpoint takes that it is picked for, in 2^32nds, so long after it became ready.
    pub(crate) fn admission(&self, age: Duration) -> u32 {
        if age >= self.window {
            return ALL;
        }
        let share = (age.as_secs_f64() / self.window.as_secs_f64()).max(self.least).clamp(0.0, 1.0);
        (share * f64::from(ALL)) as u32
    }

    /// How often shares have to be looked at again while somebody is new.
    pub(crate) fn pace(&self) -> Duration {
        (self.window / 20).max(Duration::from_millis(50))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_from_the_least_to_all() {
        let ramp = SlowStart::default();
        let share = |seconds| f64::from(ramp.admission(Duration::from_secs(seconds))) / f64::from(ALL);
        assert!((share(0) - 0.1).abs() < 1e-6 && (share(15) - 0.5).abs() < 1e-6);
        assert_eq!((ramp.admission(Duration::from_secs(30)), share(60)), (ALL, 1.0));
        let odd = SlowStart { window: Duration::ZERO, least: 7.0 };
        assert_eq!(odd.admission(Duration::ZERO), ALL);
    }
}
