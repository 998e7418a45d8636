//! A manual clock: it stands still until the test advances it, while sockets and other threads run
//! normally.
//!
//! A paused tokio clock jumps to the next timer as soon as the runtime is idle, and with real
//! servers it is idle whenever a response is awaited. While a blocking task runs, tokio leaves the
//! clock alone.

use std::convert::Infallible;
use std::future::Future;
use std::panic::Location;
use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

/// Time advances in steps of this, so that timers fire in order.
pub(crate) const STEP: Duration = Duration::from_secs(1);

/// The stopped clock of this test's runtime. Dropping it hands the clock back to the runtime.
pub(crate) struct ManualClock {
    _hold: mpsc::Sender<Infallible>,
}

impl ManualClock {
    pub(crate) fn begin() -> Self {
        tokio::time::pause();
        let (hold, held) = mpsc::channel::<Infallible>();
        tokio::task::spawn_blocking(move || held.recv().is_ok());
        Self { _hold: hold }
    }

    /// Advances time. Every task that waited for a moment in it has run.
    pub(crate) async fn advance(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            tokio::time::advance(step).await;
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            left -= step;
        }
    }

    /// Advances time until a condition holds, and returns the elapsed time. Responses of other
    /// threads get some time on the wall clock at each step, which may not be enough on a busy
    /// machine: an upper bound of the elapsed time must leave room for that.
    ///
    /// # Panics
    /// Panics if it does not hold within an hour.
    pub(crate) async fn until(&self, holds: impl Fn() -> bool) -> Duration {
        let begin = tokio::time::Instant::now();
        while !holds() {
            assert!(
                begin.elapsed() < Duration::from_secs(3_600),
                "the condition did not hold within an hour"
            );
            self.advance(STEP).await;
            for _ in 0..100 {
                if holds() {
                    break;
                }
                yield_briefly().await;
            }
        }
        begin.elapsed()
    }
}

/// The pause that lets other tasks and threads run.
const TURN: Duration = Duration::from_micros(100);
/// The interval at which a wait checks the wall clock.
const LOOK: Duration = Duration::from_millis(10);
/// The limit of any wait on the wall clock, for the slowest machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The wall clock: the limit of a wait must not depend on the test's stopped clock.
#[expect(clippy::disallowed_types, reason = "the test's own clock is paused")]
type WallClock = std::time::Instant;

/// Lets other tasks of this runtime and other threads run.
pub(crate) async fn yield_briefly() {
    let _ = tokio::task::spawn_blocking(|| std::thread::park_timeout(TURN)).await;
}

/// Polls a condition until it holds, independently of the test's clock.
///
/// # Panics
/// Panics if it does not hold for too long on the wall clock; `state` describes the situation then.
#[track_caller]
pub(crate) fn eventually(
    mut holds: impl FnMut() -> bool,
    state: impl Fn() -> String,
) -> impl Future<Output = ()> {
    let (place, begin) = (Location::caller(), WallClock::now());
    async move {
        while !holds() {
            assert!(begin.elapsed() < LIMIT, "timed out at {place}: {}", state());
            yield_briefly().await;
        }
    }
}

/// Waits for a future, independently of the test's clock.
///
/// # Panics
/// Panics if it takes too long on the wall clock; `state` describes the situation then.
#[track_caller]
pub(crate) fn in_time<T>(
    future: impl Future<Output = T>,
    state: impl Fn() -> String,
) -> impl Future<Output = T> {
    let (place, begin) = (Location::caller(), WallClock::now());
    async move {
        let mut future = pin!(future);
        loop {
            let look = tokio::task::spawn_blocking(|| std::thread::park_timeout(LOOK));
            tokio::select! {
                biased;
                done = &mut future => return done,
                _ = look => assert!(begin.elapsed() < LIMIT, "timed out at {place}: {}", state()),
            }
        }
    }
}
