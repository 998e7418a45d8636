//! How thoroughly to measure.

use std::time::Duration;

/// How often and how long things are done.
#[derive(Debug)]
pub(super) struct Effort {
    /// How many calls are in flight, one after the other.
    pub(super) in_flight: &'static [usize],
    /// How long calls are made without a pause, and how often.
    pub(super) burst: Duration,
    pub(super) repeats: usize,
    /// How long calls are made at a steady rate where it is high.
    pub(super) steady: Duration,
    /// The same where it is a few calls a second.
    pub(super) seldom: Duration,
    /// Between two steps of a rolling restart.
    pub(super) step: Duration,
    /// How often a pod comes and goes.
    pub(super) visits: usize,
}

/// For figures to quote.
pub(super) const THOROUGH: Effort = Effort {
    in_flight: &[1, 64, 1_024],
    burst: Duration::from_millis(400),
    repeats: 5,
    steady: Duration::from_secs(3),
    seldom: Duration::from_secs(20),
    step: Duration::from_millis(50),
    visits: 5,
};

/// For a look.
pub(super) const QUICK: Effort = Effort {
    in_flight: &[64],
    burst: Duration::from_millis(150),
    repeats: 3,
    steady: Duration::from_millis(1_200),
    seldom: Duration::from_secs(10),
    step: Duration::from_millis(25),
    visits: 2,
};
