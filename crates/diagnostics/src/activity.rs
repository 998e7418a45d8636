//! The activity of one connection, by which connections that are stuck are found.
//!
//! A client that stops reading would otherwise hold its connection, and a stream, for ever.
//! Requests and the parts of responses count as activity; a stream of events has some twice a
//! second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time without activity after which a connection is closed.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// The interval at which a connection looks at its activity.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// The activity of a connection, shared with the responses on it.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<State>);

#[derive(Debug)]
struct State {
    last: Mutex<Instant>,
    is_streaming: AtomicBool,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let last = Mutex::new(Instant::now());
        Self(Arc::new(State { last, is_streaming: AtomicBool::new(false) }))
    }

    /// Records that the client sent a request or took a part of a response.
    pub(crate) fn record(&self) {
        *self.0.last.lock() = Instant::now();
    }

    /// Records that the connection has become a stream of events.
    pub(crate) fn stream(&self) {
        self.0.is_streaming.store(true, Ordering::Relaxed);
    }

    /// Returns true if the connection is a stream of events, which is not closed to make room.
    pub(crate) fn is_streaming(&self) -> bool {
        self.0.is_streaming.load(Ordering::Relaxed)
    }

    /// Waits until there was no activity for [`IDLE_LIMIT`].
    pub(crate) async fn ceased(&self) {
        while self.0.last.lock().elapsed() < IDLE_LIMIT {
            tokio::time::sleep(CHECK_PERIOD).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn activity_ceases_half_a_minute_after_the_last_of_it() {
        let (activity, begun) = (Activity::new(), Instant::now());
        tokio::time::advance(Duration::from_secs(20)).await;
        activity.record();
        activity.ceased().await;
        let lasted = begun.elapsed();
        assert!((50..=56).contains(&lasted.as_secs()), "{lasted:?}");
    }
}
