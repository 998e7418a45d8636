//! The extent of the measurements, and the goals.

use std::time::Duration;

/// The extent of the measurements, of our informer and of the peers.
#[derive(Debug)]
pub(super) struct BenchSettings {
    pub(super) pods: &'static [usize],
    pub(super) readers: &'static [usize],
    /// The length of the measurement for each pair of pods and readers.
    pub(super) time: Duration,
    /// The number of changes that a single handler receives.
    pub(super) events: u64,
    pub(super) rounds: usize,
}

/// For figures to publish.
pub(super) const THOROUGH: BenchSettings = BenchSettings {
    pods: &[10_000, 20_000, 40_000, 80_000, 160_000],
    readers: &[0, 1, 10, 20, 40, 80],
    time: Duration::from_secs(2),
    events: 500_000,
    rounds: 9,
};

/// For a quick check.
pub(super) const QUICK: BenchSettings = BenchSettings {
    pods: &[10_000, 160_000],
    readers: &[0, 80],
    time: Duration::from_millis(500),
    events: 200_000,
    rounds: 5,
};

/// Goals, each with its verdict.
#[derive(Debug, Default)]
pub(super) struct Goals(pub(super) Vec<(bool, String)>);

impl Goals {
    pub(super) fn add(&mut self, met: bool, goal: String) {
        self.0.push((met, goal));
    }
}
