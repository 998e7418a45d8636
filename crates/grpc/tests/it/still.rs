//! A clock in the test's hand: it stands until it is told to move on, while sockets and other threads work as ever.
//!
//! A clock that is only paused jumps to the next timer as soon as nothing is left to do, and with real servers nothing is left to do
//! whenever an answer is waited for. While something runs on a thread beside, tokio leaves the clock alone.

use std::convert::Infallible;
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

/// Gives everybody else a turn: the tasks of this runtime, and the threads of the machine.
pub(crate) async fn breath() {
    let _ = tokio::task::spawn_blocking(|| std::thread::park_timeout(TURN)).await;
}
