//! The clock of an elector: its own monotonic time, and the time of day.
//!
//! All decisions use the monotonic time, which never jumps. The time of day is only written into
//! Leases, for people.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A monotonic clock that begins at zero. Clones show the same time.
///
/// It stands still while the machine is suspended, like the clocks of client-go: after waking up, a
/// machine may believe for up to a renew deadline that it still leads.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    #[cfg(test)]
    pub(crate) skew: Skew,
    /// The number of readings so far, by all clones.
    #[cfg(test)]
    readings: std::sync::Arc<std::sync::atomic::AtomicU32>,
}

/// The deviation of a simulated clock from the true one.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    /// The number of seconds that it counts in a true second.
    pub(crate) rate: f64,
    /// The value that it shows at the beginning.
    pub(crate) offset: Duration,
    /// The deviation of the time of day, in seconds.
    pub(crate) wall: i64,
    /// Set when the time of day does not advance.
    pub(crate) frozen: bool,
    /// The time that passes at each reading, as for a thread that is preempted between two of them.
    pub(crate) per_reading: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            #[cfg(test)]
            skew: Skew {
                rate: 1.0,
                offset: Duration::ZERO,
                wall: 0,
                frozen: false,
                per_reading: Duration::ZERO,
            },
            #[cfg(test)]
            readings: std::sync::Arc::default(),
        }
    }
}

#[cfg(not(test))]
impl Clock {
    /// Returns the time since the clock was created.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(crate) async fn sleep_until(&self, at: Duration) {
        match self.origin.checked_add(at) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the time of day.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[cfg(test)]
impl Clock {
    pub(crate) fn now(&self) -> Duration {
        let readings = self.readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.skew.offset
            + self.origin.elapsed().mul_f64(self.skew.rate)
            + self.skew.per_reading.saturating_mul(readings)
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
