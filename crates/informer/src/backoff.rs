//! Exponential backoff with jitter, which resets after a quiet period (rule REF-9).
//!
//! Pure: the time and the random number are passed in. Each reflector has its own backoff, so that
//! a failing one does not slow down the others.

use std::time::Duration;

use dogwatch_core::{ExponentialDelay, saturating_scale};
use tokio::time::Instant;

/// The longest wait. Durations that callers choose are capped at it before they are added to an
/// `Instant`, which could overflow.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns the instant after `wait`, which is capped at [`MAX_WAIT`].
pub(crate) fn instant_after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(MAX_WAIT)).expect("monotonic clocks count for longer than a century")
}

/// The parameters of an exponential backoff.
///
/// The defaults are those of client-go v0.36.4 (`tools/cache/reflector.go`): 0.8 s, doubled up to
/// 30 s, with a jitter of up to 100 %, reset after 2 minutes.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_informer::{BackoffOptions, ReflectorOptions};
/// # use k8s_openapi::api::core::v1::Pod;
///
/// let (base, cap) = (Duration::from_millis(100), Duration::from_secs(5));
/// let quick = BackoffOptions::default().between(base, cap);
/// let options = ReflectorOptions::<Pod>::default().backoff(quick.jitter(0.2));
/// assert_eq!(options.backoff.cap, Duration::from_secs(5));
/// assert_eq!(options.backoff.factor, 2.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackoffOptions {
    /// The first wait.
    pub base: Duration,
    /// The factor between one wait and the next.
    pub factor: f64,
    /// The longest wait, before jitter is added.
    pub cap: Duration,
    /// The maximal jitter, as a fraction of the wait: 1.0 makes a wait up to twice as long.
    pub jitter: f64,
    /// The quiet period after which waits start at `base` again. Success alone does not reset them:
    /// a server that accepts a watch and drops it at once is not healthy.
    pub reset_after: Duration,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

impl BackoffOptions {
    /// Sets the first wait and the longest one.
    #[must_use]
    pub fn between(mut self, base: Duration, cap: Duration) -> Self {
        (self.base, self.cap) = (base, cap);
        self
    }

    /// Sets the factor between one wait and the next. A factor below 1 counts as 1.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the maximal jitter, as a fraction of the wait.
    #[must_use]
    pub fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the quiet period after which waits start at the base again.
    #[must_use]
    pub fn reset_after(mut self, quiet: Duration) -> Self {
        self.reset_after = quiet;
        self
    }
}

/// The backoff state of one reflector.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    options: BackoffOptions,
    /// The number of waits since the last quiet period.
    waits: u32,
    /// The time of the last call of [`Self::delay`].
    asked: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(options: BackoffOptions) -> Self {
        Self { options, waits: 0, asked: None }
    }

    /// Returns the wait that starts at `now`. `chance` is a random number in [0, 1).
    pub(crate) fn delay(&mut self, now: Instant, chance: f64) -> Duration {
        let quiet = self.asked.replace(now).map(|asked| now.saturating_duration_since(asked));
        if quiet.is_some_and(|it| it > self.options.reset_after) {
            self.waits = 0;
        }
        self.waits = self.waits.saturating_add(1);
        let BackoffOptions { base: first, factor, cap: longest, jitter, .. } = self.options;
        let wait = ExponentialDelay { first, factor, longest }.after(self.waits);
        saturating_scale(wait, 1.0 + jitter.max(0.0) * chance).min(MAX_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Ported from client-go's TestNewReflectorWithCustomBackoff.
    #[test]
    fn ref_9_waits_grow_to_the_cap() {
        let options = BackoffOptions::default().between(10 * MILLISECOND, 100 * MILLISECOND).jitter(0.0);
        let mut backoff = Backoff::new(options);
        let now = Instant::now();
        let waits: Vec<_> = (0..6).map(|_| backoff.delay(now, 0.5).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 100, 100]);
    }

    #[test]
    fn ref_9_the_backoff_resets_after_a_quiet_period_and_not_before() {
        let mut backoff = Backoff::new(BackoffOptions::default().jitter(0.0));
        let start = Instant::now();
        let mut at = |seconds| backoff.delay(start + Duration::from_secs(seconds), 0.0).as_millis();
        assert_eq!([at(0), at(1), at(121), at(242)], [800, 1600, 3200, 800]);
    }

    #[test]
    fn ref_9_jitter_adds_up_to_the_configured_fraction() {
        let now = Instant::now();
        let first = |chance| Backoff::new(BackoffOptions::default()).delay(now, chance).as_millis();
        assert_eq!([first(0.0), first(0.5)], [800, 1200]);
    }

    /// Ported from client-go's TestReflectorListAndWatchInitConnBackoff: 40 failures flatten at the
    /// cap.
    #[test]
    fn ref_9_many_failures_stay_at_the_cap() {
        let options = BackoffOptions::default().between(MILLISECOND, 50 * MILLISECOND);
        let mut backoff = Backoff::new(options);
        let now = Instant::now();
        let last = (0..40).map(|_| backoff.delay(now, 0.999)).last().expect("forty waits");
        assert!((50 * MILLISECOND..100 * MILLISECOND).contains(&last), "{last:?}");
    }

    proptest! {
        #[test]
        fn ref_9_a_wait_is_never_more_than_the_cap_and_its_jitter(
            chances in proptest::collection::vec(0.0..1.0f64, 1..50),
            factor in prop_oneof![Just(f64::INFINITY), Just(f64::NAN), 0.0..10.0f64],
        ) {
            let options = BackoffOptions::default().factor(factor);
            let mut backoff = Backoff::new(options);
            let now = Instant::now();
            for chance in chances {
                let wait = backoff.delay(now, chance);
                prop_assert!(wait >= options.base && wait <= 2 * options.cap, "{wait:?}");
            }
        }
    }
}
