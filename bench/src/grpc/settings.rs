//! The number and length of the measurements.

use std::time::Duration;

/// The number and length of the measurements.
#[derive(Debug)]
pub(super) struct BenchSettings {
    /// The numbers of concurrent calls to measure with.
    pub(super) in_flight: &'static [usize],
    /// The length of one burst, and the number of bursts.
    pub(super) burst: Duration,
    pub(super) repeats: usize,
    /// The length of a measurement at a fixed high rate.
    pub(super) steady: Duration,
    /// The length of a measurement at a few calls per second.
    pub(super) seldom: Duration,
    /// The pause between two steps of a rolling restart.
    pub(super) step: Duration,
    /// The number of times that a pod is added and removed.
    pub(super) propagation_rounds: usize,
}

/// For figures to publish.
pub(super) const THOROUGH: BenchSettings = BenchSettings {
    in_flight: &[1, 64, 1_024],
    burst: Duration::from_millis(400),
    repeats: 5,
    steady: Duration::from_secs(3),
    seldom: Duration::from_secs(20),
    step: Duration::from_millis(50),
    propagation_rounds: 5,
};

/// For a quick check.
pub(super) const QUICK: BenchSettings = BenchSettings {
    in_flight: &[64],
    burst: Duration::from_millis(150),
    repeats: 3,
    steady: Duration::from_millis(1_200),
    seldom: Duration::from_secs(10),
    step: Duration::from_millis(25),
    propagation_rounds: 2,
};
