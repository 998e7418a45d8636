//! When to ping a peer, as a pure function of what was read and when.
//!
//! Servers of gRPC count pings (A8; `handlePing` in grpc-go's `http2_server.go`): one within five minutes of the last is a strike, within
//! two hours if no call is open, and the third strike ends the connection with `too_many_pings`. A ping is never a strike if the
//! server has sent headers or data since the last one. The default keeps to that: it pings after half a minute of silence, but
//! a second time in the same silence only after five minutes, and never while no call is open.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::after;

/// The time after which no server counts another ping, with ten seconds for the way.
const UNCOUNTED: Duration = Duration::from_secs(5 * 60 + 10);
/// The same while no call is open.
const UNCOUNTED_WITHOUT_CALLS: Duration = Duration::from_secs(2 * 60 * 60 + 10);
/// Complaints never make pings rarer than this (gRPC's longest keep-alive, A8).
const RAREST: Duration = Duration::from_secs(2 * 60 * 60);

/// How connections are probed for silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    /// The silence after which a ping is sent.
    pub(crate) interval: Duration,
    /// The further silence after which the connection is given up.
    pub(crate) timeout: Duration,
    /// Whether to ping while no call is open.
    pub(crate) without_calls: bool,
    /// Whether to send pings that a server may count as strikes.
    pub(crate) counted: bool,
}

impl Default for KeepAlive {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { interval, timeout, without_calls: false, counted: false }
    }
}

impl KeepAlive {
    /// The same with pings half as often for each complaint.
    fn slowed(self, complaints: u32) -> Self {
        let interval = slowed(self.interval, complaints);
        Self { interval, ..self }
    }
}

/// Twice as long for each complaint, up to the rarest, and never shorter than it was.
fn slowed(interval: Duration, complaints: u32) -> Duration {
    let longer = interval.saturating_mul(1 << complaints.min(16));
    longer.min(RAREST).max(interval)
}

/// The complaints of servers about pings, shared by all connections of a channel.
#[derive(Debug, Default)]
pub(crate) struct Complaints(AtomicU32);

impl Complaints {
    /// The number of times that pings of new connections are slowed down.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes note of a complaint about a connection whose pings had been slowed down this often. Several connections that
    /// complain about the same pace are one complaint.
    pub(crate) fn add(&self, slowed: u32) {
        self.0.fetch_max(slowed.saturating_add(1), Ordering::Relaxed);
    }
}

/// What to do about a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing before this moment.
    Wait(Instant),
    /// Nothing before a call is open.
    Rest,
    Ping,
    /// Give the connection up: the ping was not answered.
    GiveUp,
}

/// The signs of life of one connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    settings: KeepAlive,
    /// How often the pings of this connection were slowed down.
    slowed: u32,
    last_read: Instant,
    last_ping: Instant,
    /// The peer has sent headers or data since the last ping, so that the next one is no strike. True at first: one strike
    /// of three does no harm, and a peer that falls silent before its first answer is noticed as soon as any other.
    answered: bool,
    /// Since when an answer to a ping is missing.
    awaited: Option<Instant>,
}

impl Pulse {
    /// A connection whose first ping was answered just now.
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

    /// Notes that something was read; `answers`: headers or data of a call. True when that allows an earlier ping.
    pub(crate) fn read(&mut self, answers: bool, now: Instant) -> bool {
        self.last_read = now;
        let earlier = answers && !self.answered;
        self.answered |= answers;
        earlier
    }

    /// Notes that a ping was sent.
    pub(crate) fn pinged(&mut self, now: Instant) {
        (self.last_ping, self.answered, self.awaited) = (now, false, Some(now));
    }

    /// Notes that the ping was answered.
    pub(crate) fn ponged(&mut self) {
        self.awaited = None;
    }

    /// What to do now; `busy`: a call is open.
    pub(crate) fn next(&self, busy: bool, now: Instant) -> Next {
        let KeepAlive { interval, timeout, without_calls, counted } = self.settings;
        if let Some(since) = self.awaited {
            // Whatever arrives is a sign of life, also what overtakes the answer.
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

    /// Plays silence for so long with a peer that answers pings at once; returns when pings were sent, in seconds.
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
                Next::GiveUp => panic!("it has answered"),
            }
        }
        sent
    }

    #[test]
    fn a_quiet_call_is_probed_once_and_then_as_often_as_any_server_permits() {
        let now = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default(), 0, now);
        assert_eq!(pings(&mut pulse, true, now, 1_000), [30, 340, 650, 960]);
        pulse.read(true, now + 1_000 * SECOND);
        let later = now + 1_000 * SECOND;
        assert_eq!(pings(&mut pulse, true, later, 1_000), [30, 340, 650, 960]);
    }

    #[test]
    fn without_calls_there_are_no_pings_and_the_first_call_after_a_silence_brings_one() {
        let now = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default(), 0, now);
        assert_eq!(pings(&mut pulse, false, now, 20_000), [0; 0]);
        assert_eq!(pulse.next(true, now + 20_000 * SECOND), Next::Ping);
        let settings = KeepAlive { without_calls: true, ..KeepAlive::default() };
        let mut pulse = Pulse::new(settings, 0, now);
        assert_eq!(pings(&mut pulse, false, now, 20_000), [30, 7_240, 14_450]);
    }

    #[test]
    fn pings_that_were_asked_for_are_sent_whatever_servers_think_of_them() {
        let now = Instant::now();
        let settings =
            KeepAlive { interval: 10 * SECOND, timeout: SECOND, without_calls: true, counted: true };
        let mut pulse = Pulse::new(settings, 0, now);
        assert_eq!(pings(&mut pulse, false, now, 40), [10, 20, 30, 40]);
        let mut slower = Pulse::new(settings, 1, now);
        assert_eq!(pings(&mut slower, true, now, 40), [20, 40]);
    }

    #[test]
    fn a_ping_without_an_answer_ends_the_connection_unless_something_else_arrives() {
        let now = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default(), 0, now);
        pulse.pinged(now);
        assert_eq!(pulse.next(false, now), Next::Wait(now + 10 * SECOND));
        pulse.read(true, now + 9 * SECOND);
        assert_eq!(pulse.next(false, now + 10 * SECOND), Next::Wait(now + 19 * SECOND));
        assert_eq!(pulse.next(false, now + 19 * SECOND), Next::GiveUp);
    }

    #[test]
    fn many_complaints_about_one_pace_are_one_and_pings_never_stop() {
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
        assert_eq!(rare.slowed(5).interval, 3 * RAREST, "a longer one of the user's own stays");
    }
}
