//! The life of a connection as a pure function: what happened, and what to do about it.
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
//! The task of an endpoint performs the actions; this file knows no socket, and time and chance are passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use crate::time::after;

/// What the balancer wants of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Be connected and take calls.
    Serve,
    /// Take no new calls, but keep what there is: it may be back soon.
    Rest,
    /// Take no new calls, and close when the last has ended.
    Finish,
    /// As `Finish`, and then be gone; `hurry` sets the drain deadline.
    Leave { hurry: bool },
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    Idle,
    /// `failures` in a row before this attempt.
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
    /// No new calls, and the old ones are finished, on this connection or one before it; `wish` says how it ends.
    Draining {
        wish: Wish,
        until: Option<Instant>,
        connected: bool,
    },
    Closed,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Input {
    Wish(Wish),
    Connected,
    Failed,
    /// The connection ended, or the peer said that it takes no more streams.
    Lost,
    /// No call is in flight.
    Quiet,
    /// A moment that was waited for has come.
    Tick,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    /// Begin to connect.
    Dial,
    /// Stop connecting, and close what is open.
    Close,
}

/// The times that decide.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(crate) backoff: Backoff,
    /// How long calls may go on after their endpoint was removed.
    pub(crate) drain: Duration,
}

/// Where things go from `phase`; `luck` is from 0 to 1.
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
        // What drains was connected all along; when it became ready does not matter for a reconnect.
        (Phase::Draining { connected: true, .. }, Wish::Serve) => {
            (Phase::Ready { since: now, failures: 0 }, Action::Nothing)
        }
        (Phase::Draining { connected: false, .. }, Wish::Serve) => {
            (Phase::Connecting { failures: 0 }, Action::Dial)
        }
        (_, Wish::Serve) => (phase, Action::Nothing),
        // The deadline counts from the first time.
        (Phase::Draining { until: Some(_), .. }, Wish::Leave { hurry: true }) => (phase, Action::Nothing),
        (Phase::Ready { .. }, _) => (Phase::Draining { wish, until, connected: true }, Action::Nothing),
        (Phase::Draining { connected: false, .. }, Wish::Rest | Wish::Finish) => {
            (Phase::Idle, Action::Nothing)
        }
        (Phase::Draining { connected, .. }, _) => {
            (Phase::Draining { wish, until, connected }, Action::Nothing)
        }
        // There may be calls on a connection that the peer has said goodbye on.
        (_, Wish::Leave { .. }) => (Phase::Draining { wish, until, connected: false }, Action::Close),
        (Phase::Idle, _) => (Phase::Idle, Action::Nothing),
        (Phase::Connecting { .. } | Phase::Backoff { .. }, _) => (Phase::Idle, Action::Close),
    }
}

/// A connection that lived for a while is made anew at once; one that did not waits, or a peer that accepts and hangs up
/// would keep us dialling without a pause.
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
    fn every_transition_is_as_the_picture_says() {
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
            // An idle endpoint connects when it is wanted, and has nothing to finish.
            (Phase::Idle, Input::Wish(Wish::Serve), connecting(0), Dial),
            (Phase::Idle, Input::Wish(Wish::Rest), Phase::Idle, Nothing),
            (Phase::Idle, Input::Wish(Wish::Finish), Phase::Idle, Nothing),
            (Phase::Idle, Input::Wish(HURRY), drains(HURRY, Some(30.0), false), Close),
            // An attempt succeeds, fails, or is given up.
            (connecting(2), Input::Connected, Phase::Ready { since: now, failures: 2 }, Nothing),
            (connecting(0), Input::Failed, backoff(1, 1.0), Nothing),
            (connecting(1), Input::Failed, backoff(2, 1.6), Nothing),
            (connecting(1), Input::Wish(Wish::Serve), connecting(1), Nothing),
            (connecting(1), Input::Wish(Wish::Rest), Phase::Idle, Close),
            (connecting(1), Input::Wish(CALM), drains(CALM, None, false), Close),
            // A connection that lived is made anew at once, a young one after a wait that grows.
            (ready, Input::Lost, connecting(0), Dial),
            (young(0), Input::Lost, backoff(1, 1.0), Nothing),
            (young(1), Input::Lost, backoff(2, 1.6), Nothing),
            (ready, Input::Wish(Wish::Rest), draining(Wish::Rest, None), Nothing),
            (ready, Input::Wish(Wish::Finish), draining(Wish::Finish, None), Nothing),
            (ready, Input::Wish(HURRY), draining(HURRY, Some(30.0)), Nothing),
            (ready, Input::Wish(CALM), draining(CALM, None), Nothing),
            (ready, Input::Quiet, ready, Nothing),
            // A wait ends with another attempt, or because nobody wants one.
            (backoff(3, 1.0), Input::Tick, backoff(3, 1.0), Nothing),
            (due, Input::Tick, connecting(3), Dial),
            (due, Input::Wish(Wish::Serve), due, Nothing),
            (due, Input::Wish(Wish::Rest), Phase::Idle, Close),
            (due, Input::Wish(HURRY), drains(HURRY, Some(30.0), false), Close),
            // Who rests may come back; who finishes closes when quiet; who leaves is gone then, or at the deadline.
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
            // Calls on a connection before this one go on without it.
            (draining(CALM, None), Input::Lost, drains(CALM, None, false), Nothing),
            (drains(CALM, None, false), Input::Quiet, Phase::Closed, Close),
            (drains(HURRY, Some(0.0), false), Input::Tick, Phase::Closed, Close),
            (drains(HURRY, Some(1.0), false), Input::Wish(Wish::Serve), connecting(0), Dial),
            (drains(HURRY, Some(1.0), false), Input::Wish(Wish::Rest), Phase::Idle, Nothing),
            // The end is the end.
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
        /// Whatever happens: who is wanted ends up connected once nothing stands in the way, and who leaves ends up closed.
        #[test]
        fn no_sequence_leads_into_a_corner(inputs in prop::collection::vec(any_input(), 0..40), leave in any::<bool>()) {
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
