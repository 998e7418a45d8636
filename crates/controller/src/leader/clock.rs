//! An elector's own clock: how long it has been running, and what time of day it believes it is.
//!
//! Everything is decided by the first, which never jumps. The second is only written into Leases, for people.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A monotonic clock that begins at zero. Clones show the same time.
///
/// It stands still while the machine sleeps, as the clocks of client-go do: a machine that wakes may believe for up to a renew
/// deadline that it leads still.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    #[cfg(test)]
    pub(crate) skew: Skew,
}

/// How a simulated clock differs from the true one.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    /// Seconds it counts in a true second.
    pub(crate) rate: f64,
    /// What it showed at the beginning.
    pub(crate) offset: Duration,
    /// How far the time of day is off, in seconds.
    pub(crate) wall: i64,
    /// The time of day does not move.
    pub(crate) frozen: bool,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            #[cfg(test)]
            skew: Skew { rate: 1.0, offset: Duration::ZERO, wall: 0, frozen: false },
        }
    }
}

#[cfg(not(test))]
impl Clock {
    /// How long this clock has been running.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(crate) async fn sleep_until(&self, at: Duration) {
        match self.origin.checked_add(at) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// The time of day.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[cfg(test)]
impl Clock {
    pub(crate) fn now(&self) -> Duration {
        self.skew.offset + self.origin.elapsed().mul_f64(self.skew.rate)
    }

    pub(crate) async fn sleep_until(&self, at: Duration) {
        let after = at.saturating_sub(self.skew.offset).div_f64(self.skew.rate);
        tokio::time::sleep_until(self.origin + after).await;
        while self.now() < at {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn wall(&self) -> Timestamp {
        // The simulated day begins at the same time in every run.
        let begin = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1_700_000_000 + self.skew.wall);
        if self.skew.frozen { begin } else { begin + self.origin.elapsed() }
    }
}
