//! The load and outcome counters of one endpoint: every call updates them, and they outlive
//! snapshots.
//!
//! Calls write them, policies read them, and the outlier sweep resets the tally. Everything is
//! atomic and nothing blocks. Knows neither connections nor policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The counters of one endpoint, on their own cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Load {
    /// Calls from the pick to the end of the response stream, or its drop.
    in_flight: AtomicU32,
    /// Calls since the last sweep, by outcome.
    succeeded: AtomicU32,
    failed: AtomicU32,
    /// Set while a task waits for `in_flight` to reach 0.
    has_waiter: AtomicBool,
    /// A [`Latency`], packed.
    latency: AtomicU64,
    /// All calls that were sent.
    calls: AtomicU64,
    /// All calls that failed.
    failures: AtomicU64,
    idle: Notify,
}

/// The outcomes of calls since the last sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
}

/// A moving average of latency, and the time of its last update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latency {
    /// Nanoseconds.
    pub(crate) average: f32,
    /// Milliseconds since the channel was created. Wraps after seven weeks, which distorts one
    /// sample.
    pub(crate) at: u32,
}

impl Latency {
    fn unpack(bits: u64) -> Self {
        Self { average: f32::from_bits((bits >> 32) as u32), at: bits as u32 }
    }

    fn pack(self) -> u64 {
        (u64::from(self.average.to_bits()) << 32) | u64::from(self.at)
    }

    /// Returns the average at `now`: it decays while nothing is measured, so that an endpoint that
    /// was slow once is tried again.
    pub(crate) fn decayed(self, now: u32, decay: Duration) -> f32 {
        let elapsed = now.wrapping_sub(self.at) as f32;
        self.average * (-elapsed / decay.as_millis().max(1) as f32).exp()
    }

    /// Returns the average after another sample: a slow response counts at once and in full, fast
    /// ones only gradually.
    pub(crate) fn after(self, sample: Duration, now: u32, decay: Duration) -> Self {
        let sample = sample.as_nanos() as f32;
        let kept = self.decayed(now, decay);
        let weight = kept / self.average.max(f32::MIN_POSITIVE);
        let average = if sample > kept { sample } else { kept + sample * (1.0 - weight) };
        Self { average, at: now }
    }
}

impl Load {
    /// Creates the counters of a new endpoint; `seed` is the assumed latency until one is measured.
    pub(crate) fn new(seed: Duration, now: u32) -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            succeeded: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            has_waiter: AtomicBool::new(false),
            latency: AtomicU64::new(Latency { average: seed.as_nanos() as f32, at: now }.pack()),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            idle: Notify::new(),
        }
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn latency(&self) -> Latency {
        Latency::unpack(self.latency.load(Ordering::Relaxed))
    }

    /// Counts a call that is sent. A pick that is abandoned does not count.
    pub(crate) fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call as in flight until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        InFlight(Arc::clone(self))
    }

    /// Records the outcome of a call.
    pub(crate) fn record(&self, succeeded: bool) {
        if succeeded {
            self.succeeded.fetch_add(1, Ordering::Relaxed);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the tally since the last call of this function, and starts a new one.
    pub(crate) fn take_tally(&self) -> Tally {
        Tally {
            succeeded: self.succeeded.swap(0, Ordering::Relaxed),
            failed: self.failed.swap(0, Ordering::Relaxed),
        }
    }

    /// Adds a measured latency.
    pub(crate) fn observe(&self, sample: Duration, now: u32, decay: Duration) {
        let next = |bits| Some(Latency::unpack(bits).after(sample, now, decay).pack());
        // The closure never returns `None`, so this never fails.
        let _ = self.latency.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Waits until no call is in flight; returns at once if none is. Supports one waiter at a time.
    pub(crate) async fn wait_until_idle(&self) {
        // Sequential consistency on both sides: either we see that the last call is gone, or it
        // sees us waiting.
        self.has_waiter.store(true, Ordering::SeqCst);
        while self.in_flight.load(Ordering::SeqCst) > 0 {
            self.idle.notified().await;
        }
        self.has_waiter.store(false, Ordering::SeqCst);
    }
}

/// A call in flight; dropping it ends the call.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Load>);

impl InFlight {
    pub(crate) fn load(&self) -> &Load {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.has_waiter.load(Ordering::SeqCst) {
            self.0.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const DECAY: Duration = Duration::from_secs(10);

    fn load() -> Arc<Load> {
        Arc::new(Load::new(Duration::from_millis(1), 0))
    }

    #[test]
    fn a_guard_counts_until_it_is_dropped() {
        let load = load();
        let (one, two) = (load.begin(), load.begin());
        one.load().count();
        assert_eq!((load.in_flight(), load.calls()), (2, 1));
        drop(one);
        assert_eq!(load.in_flight(), 1);
        drop(two);
        assert_eq!((load.in_flight(), load.calls()), (0, 1));
    }

    #[tokio::test]
    async fn waiting_ends_with_the_last_call() {
        let load = load();
        load.wait_until_idle().await;
        let (one, two) = (load.begin(), load.begin());
        let waiting = tokio::spawn({
            let load = Arc::clone(&load);
            async move { load.wait_until_idle().await }
        });
        tokio::task::yield_now().await;
        drop(one);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(two);
        waiting.await.unwrap();
    }

    #[test]
    fn a_tally_is_taken_once_and_failures_accumulate() {
        let load = load();
        for succeeded in [true, false, true] {
            load.record(succeeded);
        }
        assert_eq!(load.take_tally(), Tally { succeeded: 2, failed: 1 });
        assert_eq!(load.take_tally(), Tally::default());
        assert_eq!(load.failures(), 1);
    }

    #[test]
    fn a_slow_response_counts_at_once_and_fast_ones_gradually() {
        let load = load();
        load.observe(Duration::from_millis(100), 0, DECAY);
        assert_eq!(load.latency().average, 100e6);
        load.observe(Duration::from_millis(1), 1_000, DECAY);
        let average = load.latency().average;
        assert!((80e6..100e6).contains(&average), "{average}");
    }

    #[test]
    fn an_average_decays_while_nothing_is_measured() {
        let latency = Latency { average: 100e6, at: 0 };
        assert_eq!(latency.decayed(0, DECAY), 100e6);
        assert!((36e6..37e6).contains(&latency.decayed(10_000, DECAY)));
        assert!(latency.decayed(100_000, DECAY) < 1e5);
    }

    proptest! {
        #[test]
        fn an_average_stays_between_the_smallest_and_the_largest_sample(
            samples in prop::collection::vec((1u64..1_000_000_000, 0u32..60_000), 1..50)
        ) {
            let (mut latency, mut now) = (Latency { average: 1e6, at: 0 }, 0);
            let (mut least, mut most) = (1e6f32, 1e6f32);
            for (sample, later) in samples {
                now += later;
                (least, most) = (least.min(sample as f32), most.max(sample as f32));
                latency = latency.after(Duration::from_nanos(sample), now, DECAY);
                let average = latency.average;
                prop_assert!(average >= least * 0.99 && average <= most * 1.01, "{average} of {least}..{most}");
            }
        }
    }
}
