//! How much is measured, and what is wanted of it.

use std::time::Duration;

/// How much is measured, of ours and of the peers.
#[derive(Debug)]
pub(super) struct Effort {
    pub(super) pods: &'static [usize],
    pub(super) readers: &'static [usize],
    /// Of each pair of them.
    pub(super) time: Duration,
    /// Changes that a single handler is told of.
    pub(super) events: u64,
    pub(super) rounds: usize,
}

/// What the numbers are worth reading of.
pub(super) const THOROUGH: Effort = Effort {
    pods: &[10_000, 20_000, 40_000, 80_000, 160_000],
    readers: &[0, 1, 10, 20, 40, 80],
    time: Duration::from_secs(2),
    events: 500_000,
    rounds: 9,
};

/// Enough to see that it works.
pub(super) const QUICK: Effort = Effort {
    pods: &[10_000, 160_000],
    readers: &[0, 80],
    time: Duration::from_millis(500),
    events: 200_000,
    rounds: 5,
};

/// Goals, and whether they are met.
#[derive(Debug, Default)]
pub(super) struct Goals(pub(super) Vec<(bool, String)>);

impl Goals {
    pub(super) fn add(&mut self, met: bool, goal: String) {
        self.0.push((met, goal));
    }
}
