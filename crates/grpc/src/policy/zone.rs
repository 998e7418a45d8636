//! Calls within the zone, as long as the zone can carry them.
//!
//! Two things send a call elsewhere: too few of the zone's endpoints are ready (then a share of all calls goes, as Envoy does
//! between its priorities), or the endpoint that would take it has as many calls as it may have (then this call goes).

use std::sync::Arc;

/// Prefer endpoints of our own zone.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneAware {
    pub(crate) zone: Arc<str>,
    pub(crate) overprovisioning: f64,
    pub(crate) capacity: u32,
}

impl ZoneAware {
    /// Our zone. Until told otherwise, all calls stay in it while at least five of seven of its endpoints are ready, and
    /// however busy these are.
    pub fn new(zone: impl Into<Arc<str>>) -> Self {
        // 1.4 is Envoy's default: a zone is taken to have 40 % more endpoints than it needs.
        Self { zone: zone.into(), overprovisioning: 1.4, capacity: u32::MAX }
    }

    /// How many times more endpoints the zone has than it needs, at least 1: with 2, half of them may be away before calls leave.
    #[must_use]
    pub fn overprovisioning(mut self, times: f64) -> Self {
        self.overprovisioning = times.max(1.0);
        self
    }

    /// A call leaves the zone when the endpoint picked for it has this many calls in flight, and the one picked elsewhere has fewer.
    #[must_use]
    pub fn capacity(mut self, in_flight: u32) -> Self {
        self.capacity = in_flight.max(1);
        self
    }
}

/// Which share of the calls stays in the zone, in 2^32nds; `u32::MAX` is all.
pub(crate) fn staying(ready: usize, usable: usize, elsewhere: usize, overprovisioning: f64) -> u32 {
    if elsewhere == 0 {
        return if ready == 0 { 0 } else { u32::MAX };
    }
    if usable == 0 {
        return 0;
    }
    let health = ready as f64 / usable as f64 * overprovisioning;
    if health >= 1.0 { u32::MAX } else { (health * f64::from(u32::MAX)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_leave_the_zone_as_its_endpoints_do() {
        let share =
            |ready, usable, elsewhere| f64::from(staying(ready, usable, elsewhere, 1.4)) / 2f64.powi(32);
        let table = [
            ((10, 10, 10), 1.0),
            ((8, 10, 10), 1.0),
            ((5, 7, 10), 1.0),
            ((5, 10, 10), 0.7),
            ((1, 10, 10), 0.14),
            ((0, 10, 10), 0.0),
            ((0, 0, 10), 0.0),
            // With nowhere else to go, what is here carries everything.
            ((1, 10, 0), 1.0),
            ((0, 10, 0), 0.0),
        ];
        for ((ready, usable, elsewhere), expected) in table {
            let share = share(ready, usable, elsewhere);
            assert!(
                (share - expected).abs() < 1e-6,
                "{share} for {ready} of {usable}, {elsewhere} elsewhere"
            );
        }
    }
}
