//! Zone awareness: calls stay in the caller's zone as long as it has enough capacity.
//!
//! Two conditions send a call elsewhere: too few of the zone's endpoints are ready (then a share of
//! all calls leaves, as between Envoy's priorities), or the picked endpoint has reached its
//! capacity (then this call leaves).

use std::sync::Arc;

/// Prefers endpoints in the caller's zone.
///
/// ```
/// use dogwatch_grpc::{KubeChannel, ZoneAware};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let zone = ZoneAware::new("zone-a").overprovisioning(2.0).capacity(100);
/// let channel = KubeChannel::to(["127.0.0.1:50051"])?.zone_aware(zone).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneAware {
    pub(crate) zone: Arc<str>,
    pub(crate) overprovisioning: f64,
    pub(crate) capacity: u32,
}

impl ZoneAware {
    /// Creates the settings for the caller's zone. By default, all calls stay in it while at least
    /// five of seven of its endpoints are ready, however busy these are.
    pub fn new(zone: impl Into<Arc<str>>) -> Self {
        // 1.4 is Envoy's default: a zone is assumed to have 40 % more endpoints than it needs.
        Self { zone: zone.into(), overprovisioning: 1.4, capacity: u32::MAX }
    }

    /// Sets how many times more endpoints the zone has than it needs, at least 1: with 2, half of
    /// them may be missing before calls leave. Defaults to 1.4.
    #[must_use]
    pub fn overprovisioning(mut self, times: f64) -> Self {
        self.overprovisioning = times.max(1.0);
        self
    }

    /// Lets a call leave the zone when the endpoint picked for it has this many calls in flight,
    /// and the one picked elsewhere has fewer. Unlimited by default.
    #[must_use]
    pub fn capacity(mut self, in_flight: u32) -> Self {
        self.capacity = in_flight.max(1);
        self
    }
}

/// Returns the share of calls that stay in the zone, in 2^32nds; `u32::MAX` means all.
pub(crate) fn near_share(ready: usize, usable: usize, elsewhere: usize, overprovisioning: f64) -> u32 {
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
    fn calls_leave_the_zone_as_its_endpoints_fail() {
        let share =
            |ready, usable, elsewhere| f64::from(near_share(ready, usable, elsewhere, 1.4)) / 2f64.powi(32);
        let table = [
            ((10, 10, 10), 1.0),
            ((8, 10, 10), 1.0),
            ((5, 7, 10), 1.0),
            ((5, 10, 10), 0.7),
            ((1, 10, 10), 0.14),
            ((0, 10, 10), 0.0),
            ((0, 0, 10), 0.0),
            // Without endpoints elsewhere, the local ones get all calls.
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
