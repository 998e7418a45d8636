//! The keep-alive schedule: when to ping a peer, as a pure function of the times of reads and
//! pings.
//!
//! gRPC servers count pings (A8; `handlePing` in grpc-go's `internal/transport/http2_server.go`): a
//! ping within five minutes of the last one is a strike, within two hours if no call is open, and
//! the third strike ends the connection with `too_many_pings`. A ping is never a strike if the
//! server has sent headers or data since the last one. The default stays within these limits: it
//! pings after half a minute of silence, a second time in the same silence only after five minutes,
//! and never while no call is open.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::after;

/// The interval after which no server counts a ping as a strike, with a margin of ten seconds for
/// the network.
const UNCOUNTED: Duration = Duration::from_secs(5 * 60 + 10);
/// The same while no call is open.
const UNCOUNTED_WITHOUT_CALLS: Duration = Duration::from_secs(2 * 60 * 60 + 10);
/// The maximum interval to which `too_many_pings` slows pings down (gRPC's longest keep-alive, A8).
const RAREST: Duration = Duration::from_secs(2 * 60 * 60);

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
    pub(crate) counted: bool,
}

impl Default for KeepAlive {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { interval, timeout, without_calls: false, counted: false }
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
    longer.min(RAREST).max(interval)
}

/// The `too_many_pings` errors of servers, shared by all connections of a channel.
#[derive(Debug, Default)]
pub(crate) struct Complaints(AtomicU32);

impl Complaints {
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
pub(crate) enum Next {
    /// Nothing before this time.
    Wait(Instant),
    /// Nothing until a call is open.
    Rest,
    Ping,
    /// Close the connection: the ping was not answered.
    GiveUp,
}

/// The keep-alive state of one connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    settings: KeepAlive,
    /// How many times the interval of this connection was doubled.
    slowed: u32,
    last_read: Instant,
    last_ping: Instant,
    /// True if the peer has sent headers or data since the last ping, so that the next ping is no
    /// strike. Initially true: one strike of three does no harm, and a peer that falls silent
    /// before its first response is detected as soon as any other.
    answered: bool,
    /// The time since which the response to a ping is missing.
    awaited: Option<Instant>,
}

impl Pulse {
    /// Creates the state of a connection whose first ping was just answered.
    pub(crate) fn new(settings: KeepAlive, slowed: u32, now: Instant) -> Self {
        let settings = settings.slowed(slowed);
        Self { settings, slowed, last_read: now, last_ping: now, answered: true, awaited: None }
    }

    pub(crate) fn slowed(&self) -> u32 {
        self.slowed
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    pub(crate) fn awaits_pong(&self) -> bool {
        self.awaited.is_some()
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
        (self.last_ping, self.answered, self.awaited) = (now, false, Some(now));
    }

    /// Records that the ping was answered.
    pub(crate) fn ponged(&mut self) {
        self.awaited = None;
    }

    /// Returns the next action; `busy`: a call is open.
    pub(crate) fn next(&self, busy: bool, now: Instant) -> Next {
        let KeepAlive { interval, timeout, without_calls, counted } = self.settings;
        if let Some(since) = self.awaited {
            // Any data shows that the peer is alive, also data that arrives before the pong.
            let due = after(self.last_read.max(since), timeout);
            return if due <= now { Next::GiveUp } else { Next::Wait(due) };
        }
        if !busy && !without_calls {
            return Next::Rest;
        }
        let apart = match (counted || self.answered, busy) {
            (true, _) => Duration::ZERO,
            (false, true) => slowed(UNCOUNTED, self.slowed),
            (false, false) => slowed(UNCOUNTED_WITHOUT_CALLS, self.slowed),
        };
        let due = after(self.last_read, interval).max(after(self.last_ping, apart));
        if due <= now { Next::Ping } else { Next::Wait(due) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Simulates silence for this time with a peer that answers pings at once; returns the times of
    /// the pings, in seconds.
    fn pings(pulse: &mut Pulse, busy: bool, from: Instant, seconds: u32) -> Vec<u64> {
        let mut sent = Vec::new();
        for second in 1..=seconds {
            let now = from + second * SECOND;
            match pulse.next(busy, now) {
                Next::Ping => {
                    sent.push(u64::from(second));
                    pulse.pinged(now);
                    pulse.read(false, now);
                    pulse.ponged();
                }
                Next::Wait(due) => assert!(due > now),
                Next::Rest => assert!(!busy),
                Next::GiveUp => panic!("every ping was answered"),
            }
        }
        sent
    }

    #[test]
    fn a_silent_call_is_pinged_once_and_then_as_often_as_every_server_permits() {
        let now = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default(), 0, now);
        assert_eq!(pings(&mut pulse, true, now, 1_000), [30, 340, 650, 960]);
        pulse.read(true, now + 1_000 * SECOND);
        let later = now + 1_000 * SECOND;
        assert_eq!(pings(&mut pulse, true, later, 1_000), [30, 340, 650, 960]);
    }

    #[test]
    fn without_calls_there_are_no_pings_and_the_first_call_after_a_silence_triggers_one() {
        let now = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default(), 0, now);
        assert_eq!(pings(&mut pulse, false, now, 20_000), [0; 0]);
        assert_eq!(pulse.next(true, now + 20_000 * SECOND), Next::Ping);
        let settings = KeepAlive { without_calls: true, ..KeepAlive::default() };
        let mut pulse = Pulse::new(settings, 0, now);
        assert_eq!(pings(&mut pulse, false, now, 20_000), [30, 7_240, 14_450]);
    }

    #[test]
    fn an_explicit_interval_is_kept_whatever_servers_permit() {
        let now = Instant::now();
        let settings =
            KeepAlive { interval: 10 * SECOND, timeout: SECOND, without_calls: true, counted: true };
        let mut pulse = Pulse::new(settings, 0, now);
        assert_eq!(pings(&mut pulse, false, now, 40), [10, 20, 30, 40]);
        let mut slower = Pulse::new(settings, 1, now);
        assert_eq!(pings(&mut slower, true, now, 40), [20, 40]);
    }

    #[test]
    fn an_unanswered_ping_ends_the_connection_unless_other_data_arrives() {
        let now = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default(), 0, now);
        pulse.pinged(now);
        assert_eq!(pulse.next(false, now), Next::Wait(now + 10 * SECOND));
        pulse.read(true, now + 9 * SECOND);
        assert_eq!(pulse.next(false, now + 10 * SECOND), Next::Wait(now + 19 * SECOND));
        assert_eq!(pulse.next(false, now + 19 * SECOND), Next::GiveUp);
    }

    #[test]
    fn many_complaints_about_one_interval_count_once_and_pings_never_stop() {
        let complaints = Complaints::default();
        (0..10).for_each(|_| complaints.add(0));
        assert_eq!(complaints.count(), 1);
        complaints.add(1);
        complaints.add(0);
        assert_eq!(complaints.count(), 2);
        let settings = KeepAlive { counted: true, ..KeepAlive::default() };
        assert_eq!(settings.slowed(2).interval, 120 * SECOND);
        assert_eq!(settings.slowed(u32::MAX).interval, RAREST);
        let rare = KeepAlive { interval: 3 * RAREST, ..settings };
        assert_eq!(rare.slowed(5).interval, 3 * RAREST, "a longer configured interval is kept");
    }
}
