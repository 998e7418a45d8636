//! The lifecycle of a connection as a pure function from events to actions.
//!
//! ```text
//!            Serve                Connected               Lost (at once, or after a wait if it was young)
//!   Idle ------------> Connecting ---------> Ready -------------------------------> Connecting
//!     ^                 ^     | Failed         | Rest, Finish, Leave
//!     |           Tick  |     v                v
//!     |                Backoff              Draining --Serve--> Ready
//!     +------- quiet after Finish ------------'  `---- quiet or too late after Leave ----> Closed
//! ```
//!
//! The task of an endpoint performs the actions; this file knows no sockets, and time and
//! randomness are passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use crate::time::after;

/// The state that the balancer wants of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Connect and accept calls.
    Serve,
    /// Accept no new calls, but keep the connection: the endpoint may be back soon.
    Rest,
    /// Accept no new calls, and close the connection when the last one has ended.
    Finish,
    /// Like `Finish`, and then end the task; `hurry` sets the drain deadline.
    Leave { hurry: bool },
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    Idle,
    /// `failures` is the number of consecutive failures before this attempt.
    Connecting {
        failures: u32,
    },
    Ready {
        since: Instant,
        failures: u32,
    },
    Backoff {
        failures: u32,
        until: Instant,
    },
    /// No new calls; open ones are finished, on this connection or an earlier one. `wish` decides
    /// how it ends.
    Draining {
        wish: Wish,
        until: Option<Instant>,
        connected: bool,
    },
    Closed,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Input {
    Wish(Wish),
    Connected,
    Failed,
    /// The connection ended, or the peer accepts no more streams.
    Lost,
    /// No call is in flight.
    Quiet,
    /// The time that the phase waits for has come.
    Tick,
}

/// The reaction to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    /// Open a connection.
    Dial,
    /// Stop connecting, and close open connections.
    Close,
}

/// The configured times.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(crate) backoff: Backoff,
    /// The time for which calls may continue after their endpoint was removed.
    pub(crate) drain: Duration,
}

/// Returns the next phase and the action for an event; `luck` is a random number from 0 to 1.
pub(crate) fn step(phase: Phase, input: Input, now: Instant, timing: &Timing, luck: f64) -> (Phase, Action) {
    match input {
        Input::Wish(wish) => asked(phase, wish, now, timing),
        Input::Connected => match phase {
            Phase::Connecting { failures } => (Phase::Ready { since: now, failures }, Action::Nothing),
            _ => (phase, Action::Nothing),
        },
        Input::Failed => match phase {
            Phase::Connecting { failures } => (wait(failures + 1, now, timing, luck), Action::Nothing),
            _ => (phase, Action::Nothing),
        },
        Input::Lost => lost(phase, now, timing, luck),
        Input::Quiet => match phase {
            Phase::Draining { wish: Wish::Finish, .. } => (Phase::Idle, Action::Close),
            Phase::Draining { wish: Wish::Leave { .. }, .. } => (Phase::Closed, Action::Close),
            _ => (phase, Action::Nothing),
        },
        Input::Tick => match phase {
            Phase::Backoff { failures, until } if until <= now => {
                (Phase::Connecting { failures }, Action::Dial)
            }
            Phase::Draining { until: Some(until), .. } if until <= now => (Phase::Closed, Action::Close),
            _ => (phase, Action::Nothing),
        },
    }
}

fn asked(phase: Phase, wish: Wish, now: Instant, timing: &Timing) -> (Phase, Action) {
    let until = match wish {
        Wish::Leave { hurry: true } => Some(after(now, timing.drain)),
        _ => None,
    };
    match (phase, wish) {
        (Phase::Closed, _) => (Phase::Closed, Action::Nothing),
        (Phase::Idle, Wish::Serve) => (Phase::Connecting { failures: 0 }, Action::Dial),
        // A draining endpoint stayed connected, and for a reconnect it does not matter when it
        // became ready.
        (Phase::Draining { connected: true, .. }, Wish::Serve) => {
            (Phase::Ready { since: now, failures: 0 }, Action::Nothing)
        }
        (Phase::Draining { connected: false, .. }, Wish::Serve) => {
            (Phase::Connecting { failures: 0 }, Action::Dial)
        }
        (_, Wish::Serve) => (phase, Action::Nothing),
        // The deadline counts from the first request to leave.
        (Phase::Draining { until: Some(_), .. }, Wish::Leave { hurry: true }) => (phase, Action::Nothing),
        (Phase::Ready { .. }, _) => (Phase::Draining { wish, until, connected: true }, Action::Nothing),
        (Phase::Draining { connected: false, .. }, Wish::Rest | Wish::Finish) => {
            (Phase::Idle, Action::Nothing)
        }
        (Phase::Draining { connected, .. }, _) => {
            (Phase::Draining { wish, until, connected }, Action::Nothing)
        }
        // There may be open calls on a connection on which the peer has sent GOAWAY.
        (_, Wish::Leave { .. }) => (Phase::Draining { wish, until, connected: false }, Action::Close),
        (Phase::Idle, _) => (Phase::Idle, Action::Nothing),
        (Phase::Connecting { .. } | Phase::Backoff { .. }, _) => (Phase::Idle, Action::Close),
    }
}

/// Reconnects at once if the connection lasted for a while, otherwise after a backoff: a peer that
/// accepts and closes would keep us dialling without a pause.
fn lost(phase: Phase, now: Instant, timing: &Timing, luck: f64) -> (Phase, Action) {
    match phase {
        Phase::Ready { since, .. } if now - since >= timing.backoff.initial => {
            (Phase::Connecting { failures: 0 }, Action::Dial)
        }
        Phase::Ready { failures, .. } => (wait(failures + 1, now, timing, luck), Action::Nothing),
        Phase::Draining { wish: wish @ Wish::Leave { .. }, until, .. } => {
            (Phase::Draining { wish, until, connected: false }, Action::Nothing)
        }
        Phase::Draining { .. } => (Phase::Idle, Action::Nothing),
        _ => (phase, Action::Nothing),
    }
}

fn wait(failures: u32, now: Instant, timing: &Timing, luck: f64) -> Phase {
    Phase::Backoff { failures, until: after(now, timing.backoff.wait(failures, luck)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HURRY: Wish = Wish::Leave { hurry: true };
    const CALM: Wish = Wish::Leave { hurry: false };

    fn timing() -> Timing {
        Timing { backoff: Backoff { jitter: 0.0, ..Backoff::default() }, drain: Duration::from_secs(30) }
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn every_transition_matches_the_diagram() {
        use Action::{Close, Dial, Nothing};
        let zero = Instant::now();
        let now = zero + at(100.0);
        let connecting = |failures| Phase::Connecting { failures };
        let ready = Phase::Ready { since: zero, failures: 0 };
        let young = |failures| Phase::Ready { since: now - at(0.5), failures };
        let fresh = Phase::Ready { since: now, failures: 0 };
        let backoff = |failures, wait| Phase::Backoff { failures, until: now + at(wait) };
        let due = Phase::Backoff { failures: 3, until: now };
        let drains = |wish, wait: Option<f64>, connected| {
            let until = wait.map(|it| now + at(it));
            Phase::Draining { wish, until, connected }
        };
        let draining = |wish, wait| drains(wish, wait, true);
        let table = [
            // An idle endpoint connects when it is wanted, and has no calls to finish.
            (Phase::Idle, Input::Wish(Wish::Serve), connecting(0), Dial),
            (Phase::Idle, Input::Wish(Wish::Rest), Phase::Idle, Nothing),
            (Phase::Idle, Input::Wish(Wish::Finish), Phase::Idle, Nothing),
            (Phase::Idle, Input::Wish(HURRY), drains(HURRY, Some(30.0), false), Close),
            // An attempt succeeds, fails, or is abandoned.
            (connecting(2), Input::Connected, Phase::Ready { since: now, failures: 2 }, Nothing),
            (connecting(0), Input::Failed, backoff(1, 1.0), Nothing),
            (connecting(1), Input::Failed, backoff(2, 1.6), Nothing),
            (connecting(1), Input::Wish(Wish::Serve), connecting(1), Nothing),
            (connecting(1), Input::Wish(Wish::Rest), Phase::Idle, Close),
            (connecting(1), Input::Wish(CALM), drains(CALM, None, false), Close),
            // A connection that lasted is replaced at once, a young one after a growing backoff.
            (ready, Input::Lost, connecting(0), Dial),
            (young(0), Input::Lost, backoff(1, 1.0), Nothing),
            (young(1), Input::Lost, backoff(2, 1.6), Nothing),
            (ready, Input::Wish(Wish::Rest), draining(Wish::Rest, None), Nothing),
            (ready, Input::Wish(Wish::Finish), draining(Wish::Finish, None), Nothing),
            (ready, Input::Wish(HURRY), draining(HURRY, Some(30.0)), Nothing),
            (ready, Input::Wish(CALM), draining(CALM, None), Nothing),
            (ready, Input::Quiet, ready, Nothing),
            // A backoff ends with another attempt, or because none is wanted.
            (backoff(3, 1.0), Input::Tick, backoff(3, 1.0), Nothing),
            (due, Input::Tick, connecting(3), Dial),
            (due, Input::Wish(Wish::Serve), due, Nothing),
            (due, Input::Wish(Wish::Rest), Phase::Idle, Close),
            (due, Input::Wish(HURRY), drains(HURRY, Some(30.0), false), Close),
            // A resting endpoint may come back; a finishing one closes without calls; a leaving one
            // is then gone, or at the deadline.
            (draining(Wish::Rest, None), Input::Wish(Wish::Serve), fresh, Nothing),
            (draining(HURRY, Some(1.0)), Input::Wish(Wish::Serve), fresh, Nothing),
            (draining(Wish::Rest, None), Input::Quiet, draining(Wish::Rest, None), Nothing),
            (draining(Wish::Finish, None), Input::Quiet, Phase::Idle, Close),
            (draining(HURRY, Some(1.0)), Input::Quiet, Phase::Closed, Close),
            (draining(HURRY, Some(1.0)), Input::Tick, draining(HURRY, Some(1.0)), Nothing),
            (draining(HURRY, Some(0.0)), Input::Tick, Phase::Closed, Close),
            (draining(HURRY, Some(1.0)), Input::Wish(HURRY), draining(HURRY, Some(1.0)), Nothing),
            (draining(Wish::Finish, None), Input::Wish(HURRY), draining(HURRY, Some(30.0)), Nothing),
            (draining(HURRY, Some(1.0)), Input::Wish(CALM), draining(CALM, None), Nothing),
            (draining(Wish::Rest, None), Input::Lost, Phase::Idle, Nothing),
            // Calls on an earlier connection continue without this one.
            (draining(CALM, None), Input::Lost, drains(CALM, None, false), Nothing),
            (drains(CALM, None, false), Input::Quiet, Phase::Closed, Close),
            (drains(HURRY, Some(0.0), false), Input::Tick, Phase::Closed, Close),
            (drains(HURRY, Some(1.0), false), Input::Wish(Wish::Serve), connecting(0), Dial),
            (drains(HURRY, Some(1.0), false), Input::Wish(Wish::Rest), Phase::Idle, Nothing),
            // Closed is final.
            (Phase::Closed, Input::Wish(Wish::Serve), Phase::Closed, Nothing),
            (Phase::Closed, Input::Tick, Phase::Closed, Nothing),
        ];
        for (phase, input, next, action) in table {
            assert_eq!(step(phase, input, now, &timing(), 0.5), (next, action), "{phase:?} {input:?}");
        }
    }

    fn any_input() -> impl Strategy<Value = Input> {
        prop_oneof![
            prop::sample::select(vec![Wish::Serve, Wish::Rest, Wish::Finish, CALM, HURRY])
                .prop_map(Input::Wish),
            prop::sample::select(vec![
                Input::Connected,
                Input::Failed,
                Input::Lost,
                Input::Quiet,
                Input::Tick
            ]),
        ]
    }

    proptest! {
        /// After any events, a wanted endpoint becomes connected once nothing prevents it, and a
        /// leaving one is closed.
        #[test]
        fn no_sequence_of_events_leads_to_a_dead_end(inputs in prop::collection::vec(any_input(), 0..40), leave in any::<bool>()) {
            let (mut phase, mut now) = (Phase::Idle, Instant::now());
            let timing = timing();
            let wish = if leave { Wish::Leave { hurry: true } } else { Wish::Serve };
            for input in inputs {
                now += at(0.7);
                phase = step(phase, input, now, &timing, 0.5).0;
            }
            let closed = phase == Phase::Closed;
            for input in [Input::Wish(wish), Input::Tick, Input::Connected, Input::Quiet] {
                now += at(200.0);
                phase = step(phase, input, now, &timing, 0.5).0;
            }
            if leave || closed {
                prop_assert_eq!(phase, Phase::Closed);
            } else {
                prop_assert!(matches!(phase, Phase::Ready { .. }), "{:?}", phase);
            }
        }
    }
}
