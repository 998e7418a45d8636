//! The clock and the randomness of a simulator. Tests replace both, so that runs are identical.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The clock and the randomness of a simulator.
pub(crate) struct Environment {
    clock: Box<Clock>,
    random: Mutex<StdRng>,
}

/// Returns the current time.
pub(crate) type Clock = dyn Fn() -> Timestamp + Send + Sync;

impl Environment {
    /// Creates an environment. Without a seed, the randomness is that of the machine.
    pub(crate) fn new(clock: Box<Clock>, seed: Option<u64>) -> Self {
        let random = seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64);
        Self { clock, random: Mutex::new(random) }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns the current time as objects hold it: whole seconds, in UTC.
    pub(crate) fn stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Returns a random number.
    pub(crate) fn number(&self) -> u32 {
        self.random.lock().random()
    }

    /// Returns a random duration up to `limit`.
    pub(crate) fn up_to(&self, limit: Duration) -> Duration {
        let fraction: f64 = self.random.lock().random();
        Duration::try_from_secs_f64(limit.as_secs_f64() * fraction).unwrap_or(limit)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("now", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_each_run() {
        let start: Timestamp = "2026-01-02T03:04:05.678Z".parse().expect("a time");
        let [one, two] = [7, 7].map(|seed| Environment::new(Box::new(move || start), Some(seed)));
        assert_eq!(one.number(), two.number());
        assert_ne!(one.number(), one.number());
        let limit = Duration::from_secs(3);
        assert!((0..100).all(|_| one.up_to(limit) <= limit));
        assert_eq!(one.stamp(), "2026-01-02T03:04:05Z");
    }
}
