//! The keep-alive schedule: when to ping a peer, as a pure function of the times of reads and
//! pings.
//!
//! gRPC servers count pings (A8; `handlePing` in grpc v1.85.0
//! `internal/transport/http2_server.go`): a ping within five minutes of the last one is a strike,
//! within two hours if no call is open, and the third strike ends the connection with
//! `too_many_pings`. A ping is never a strike if the server has sent headers or data since the last
//! one. The default stays within these limits: it pings after half a minute of silence, a second
//! time in the same silence only after five minutes, and never while no call is open.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::after;

/// The interval after which no server counts a ping as a strike, with a margin of ten seconds for
/// the network.
const SAFE_INTERVAL: Duration = Duration::from_secs(5 * 60 + 10);
/// The same while no call is open.
const SAFE_INTERVAL_WITHOUT_CALLS: Duration = Duration::from_secs(2 * 60 * 60 + 10);
/// The maximum interval to which `too_many_pings` slows pings down (gRPC's longest keep-alive, A8).
const MAX_INTERVAL: Duration = Duration::from_secs(2 * 60 * 60);

/// The keep-alive settings of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    /// The silence after which a ping is sent.
    pub(crate) interval: Duration,
    /// The further silence after which the connection is closed.
    pub(crate) timeout: Duration,
    /// Pings are sent while no call is open, too.
    pub(crate) without_calls: bool,
    /// Pings are sent even if a server may count them as strikes.
    pub(crate) ignore_ping_policy: bool,
}

impl Default for KeepAlive {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { interval, timeout, without_calls: false, ignore_ping_policy: false }
    }
}

impl KeepAlive {
    /// Returns the settings with the interval doubled once per complaint.
    fn slowed(self, complaints: u32) -> Self {
        let interval = slowed(self.interval, complaints);
        Self { interval, ..self }
    }
}

/// Doubles an interval once per complaint, up to the maximum, and never shortens it.
fn slowed(interval: Duration, complaints: u32) -> Duration {
    let longer = interval.saturating_mul(1 << complaints.min(16));
    longer.min(MAX_INTERVAL).max(interval)
}

/// The `too_many_pings` errors of servers, shared by all connections of a channel.
#[derive(Debug, Default)]
pub(crate) struct PingComplaints(AtomicU32);

impl PingComplaints {
    /// Returns how many times the ping interval of new connections is doubled.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records a complaint about a connection whose interval had been doubled this many times.
    /// Complaints of several connections about the same interval count once.
    pub(crate) fn add(&self, slowed: u32) {
        self.0.fetch_max(slowed.saturating_add(1), Ordering::Relaxed);
    }
}

/// The next action of keep-alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeepAliveAction {
    /// Nothing before this time.
    Wait(Instant),
    /// Nothing until a call is open.
    Idle,
    Ping,
    /// Close the connection: the ping was not answered.
    GiveUp,
}

/// The keep-alive state of one connection.
#[derive(Debug)]
pub(crate) struct KeepAliveState {
    settings: KeepAlive,
    /// The number of times that the interval of this connection was doubled.
    slowed: u32,
    last_read: Instant,
    last_ping: Instant,
    /// True if the peer has sent headers or data since the last ping, so that the next ping is no
    /// strike. Initially true: one strike of three does no harm, and a peer that falls silent
    /// before its first response is detected as soon as any other.
    answered: bool,
    /// The time since which the response to a ping is missing.
    pong_missing_since: Option<Instant>,
}

impl KeepAliveState {
    /// Creates the state of a connection whose first ping was just answered.
    pub(crate) fn new(settings: KeepAlive, slowed: u32, now: Instant) -> Self {
        let settings = settings.slowed(slowed);
        Self { settings, slowed, last_read: now, last_ping: now, answered: true, pong_missing_since: None }
    }

    pub(crate) fn slowed(&self) -> u32 {
        self.slowed
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    pub(crate) fn awaits_pong(&self) -> bool {
        self.pong_missing_since.is_some()
    }

    /// Records a read; `answers`: it contained headers or data of a call. Returns true if that
    /// allows an earlier ping.
    pub(crate) fn read(&mut self, answers: bool, now: Instant) -> bool {
        self.last_read = now;
        let earlier = answers && !self.answered;
        self.answered |= answers;
        earlier
    }

    /// Records that a ping was sent.
    pub(crate) fn pinged(&mut self, now: Instant) {
        (self.last_ping, self.answered, self.pong_missing_since) = (now, false, Some(now));
    }

    /// Records that the ping was answered.
    pub(crate) fn ponged(&mut self) {
        self.pong_missing_since = None;
    }

    /// Returns the next action; `busy`: a call is open.
    pub(crate) fn next(&self, busy: bool, now: Instant) -> KeepAliveAction {
        let KeepAlive { interval, timeout, without_calls, ignore_ping_policy } = self.settings;
        if let Some(since) = self.pong_missing_since {
            // Any data shows that the peer is alive, also data that arrives before the pong.
            let due = after(self.last_read.max(since), timeout);
            return if due <= now { KeepAliveAction::GiveUp } else { KeepAliveAction::Wait(due) };
        }
        if !busy && !without_calls {
            return KeepAliveAction::Idle;
        }
        let apart = match (ignore_ping_policy || self.answered, busy) {
            (true, _) => Duration::ZERO,
            (false, true) => slowed(SAFE_INTERVAL, self.slowed),
            (false, false) => slowed(SAFE_INTERVAL_WITHOUT_CALLS, self.slowed),
        };
        let due = after(self.last_read, interval).max(after(self.last_ping, apart));
        if due <= now { KeepAliveAction::Ping } else { KeepAliveAction::Wait(due) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Simulates silence for this time with a peer that answers pings at once; returns the times of
    /// the pings, in seconds.
    fn pings(state: &mut KeepAliveState, busy: bool, from: Instant, seconds: u32) -> Vec<u64> {
        let mut sent = Vec::new();
        for second in 1..=seconds {
            let now = from + second * SECOND;
            match state.next(busy, now) {
                KeepAliveAction::Ping => {
                    sent.push(u64::from(second));
                    state.pinged(now);
                    state.read(false, now);
                    state.ponged();
                }
                KeepAliveAction::Wait(due) => assert!(due > now),
                KeepAliveAction::Idle => assert!(!busy),
                KeepAliveAction::GiveUp => panic!("every ping was answered"),
            }
        }
        sent
    }

    #[test]
    fn a_silent_call_is_pinged_once_and_then_as_often_as_every_server_permits() {
        let now = Instant::now();
        let mut state = KeepAliveState::new(KeepAlive::default(), 0, now);
        assert_eq!(pings(&mut state, true, now, 1_000), [30, 340, 650, 960]);
        state.read(true, now + 1_000 * SECOND);
        let later = now + 1_000 * SECOND;
        assert_eq!(pings(&mut state, true, later, 1_000), [30, 340, 650, 960]);
    }

    #[test]
    fn without_calls_there_are_no_pings_and_the_first_call_after_a_silence_triggers_one() {
        let now = Instant::now();
        let mut state = KeepAliveState::new(KeepAlive::default(), 0, now);
        assert_eq!(pings(&mut state, false, now, 20_000), [0; 0]);
        assert_eq!(state.next(true, now + 20_000 * SECOND), KeepAliveAction::Ping);
        let settings = KeepAlive { without_calls: true, ..KeepAlive::default() };
        let mut state = KeepAliveState::new(settings, 0, now);
        assert_eq!(pings(&mut state, false, now, 20_000), [30, 7_240, 14_450]);
    }

    #[test]
    fn an_explicit_interval_is_kept_whatever_servers_permit() {
        let now = Instant::now();
        let settings = KeepAlive {
            interval: 10 * SECOND,
            timeout: SECOND,
            without_calls: true,
            ignore_ping_policy: true,
        };
        let mut state = KeepAliveState::new(settings, 0, now);
        assert_eq!(pings(&mut state, false, now, 40), [10, 20, 30, 40]);
        let mut slower = KeepAliveState::new(settings, 1, now);
        assert_eq!(pings(&mut slower, true, now, 40), [20, 40]);
    }

    #[test]
    fn an_unanswered_ping_ends_the_connection_unless_other_data_arrives() {
        let now = Instant::now();
        let mut state = KeepAliveState::new(KeepAlive::default(), 0, now);
        state.pinged(now);
        assert_eq!(state.next(false, now), KeepAliveAction::Wait(now + 10 * SECOND));
        state.read(true, now + 9 * SECOND);
        assert_eq!(state.next(false, now + 10 * SECOND), KeepAliveAction::Wait(now + 19 * SECOND));
        assert_eq!(state.next(false, now + 19 * SECOND), KeepAliveAction::GiveUp);
    }

    #[test]
    fn many_complaints_about_one_interval_count_once_and_pings_never_stop() {
        let complaints = PingComplaints::default();
        (0..10).for_each(|_| complaints.add(0));
        assert_eq!(complaints.count(), 1);
        complaints.add(1);
        complaints.add(0);
        assert_eq!(complaints.count(), 2);
        let settings = KeepAlive { ignore_ping_policy: true, ..KeepAlive::default() };
        assert_eq!(settings.slowed(2).interval, 120 * SECOND);
        assert_eq!(settings.slowed(u32::MAX).interval, MAX_INTERVAL);
        let rare = KeepAlive { interval: 3 * MAX_INTERVAL, ..settings };
        assert_eq!(rare.slowed(5).interval, 3 * MAX_INTERVAL, "a longer configured interval is kept");
    }
}
