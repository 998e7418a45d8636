//! A clock in the test's hand: it stands until it is told to move on, while sockets and other threads work as ever.
//!
//! A clock that is only paused jumps to the next timer as soon as nothing is left to do, and with real servers nothing is left to do
//! whenever an answer is waited for. While something runs on a thread beside, tokio leaves the clock alone.

use std::convert::Infallible;
use std::future::Future;
use std::panic::Location;
use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

/// Time goes by in steps of this, so that timers fire in their order.
pub(crate) const STEP: Duration = Duration::from_secs(1);

/// The clock of this test's runtime, standing. It is the runtime's own again when this is dropped.
pub(crate) struct StillTime {
    _hold: mpsc::Sender<Infallible>,
}

impl StillTime {
    pub(crate) fn begin() -> Self {
        tokio::time::pause();
        let (hold, held) = mpsc::channel::<Infallible>();
        tokio::task::spawn_blocking(move || held.recv().is_ok());
        Self { _hold: hold }
    }

    /// Lets time go by. Whoever waited for a moment in it has had a turn.
    pub(crate) async fn pass(&self, time: Duration) {
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

    /// Lets time go by until something holds that only takes time, and says how much it took. What takes answers of others is better
    /// waited for while time stands.
    ///
    /// # Panics
    /// When it does not hold within an hour.
    pub(crate) async fn until(&self, holds: impl Fn() -> bool) -> Duration {
        let begin = tokio::time::Instant::now();
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(3_600), "it does not come to hold");
            self.pass(STEP).await;
            for _ in 0..20 {
                breath().await;
            }
        }
        begin.elapsed()
    }
}

/// How long a turn of everybody else is.
const TURN: Duration = Duration::from_micros(100);
/// How often a wait looks at the clock on the wall.
const LOOK: Duration = Duration::from_millis(10);
/// How long anything may take on the clock on the wall, on the slowest machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The clock on the wall: what bounds the wait of a test must not stand still with the test's own clock.
#[expect(clippy::disallowed_types, reason = "the test's own clock is paused")]
type WallClock = std::time::Instant;

/// Gives everybody else a turn: the tasks of this runtime, and the threads of the machine.
pub(crate) async fn breath() {
    let _ = tokio::task::spawn_blocking(|| std::thread::park_timeout(TURN)).await;
}

/// Waits until something holds, by looking again and again, whatever the clock of the test does.
///
/// # Panics
/// When it does not hold for too long on the clock on the wall; `state` says how things stand then.
#[track_caller]
pub(crate) fn eventually(
    mut holds: impl FnMut() -> bool,
    state: impl Fn() -> String,
) -> impl Future<Output = ()> {
    let (place, begin) = (Location::caller(), WallClock::now());
    async move {
        while !holds() {
            assert!(begin.elapsed() < LIMIT, "waited in vain at {place}: {}", state());
            breath().await;
        }
    }
}

/// Waits for a future, whatever the clock of the test does.
///
/// # Panics
/// When it takes too long on the clock on the wall; `state` says how things stand then.
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
                _ = look => assert!(begin.elapsed() < LIMIT, "waited in vain at {place}: {}", state()),
            }
        }
    }
}
