//! The lifecycle of a connection as a pure function from events to actions.
//!
//! ```text
//!            Serve                Connected          Lost (at once, or after a backoff if young)
//!   Idle ------------> Connecting ---------> Ready --------------------------> Connecting
//!     ^                 ^     | Failed         | Pause, Drain, Remove
//!     |           Tick  |     v                v
//!     |                Backoff              Draining --Serve--> Ready
//!     +----- no calls in Drain -------------'  `-- no calls or deadline in Remove --> Closed
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
pub(crate) enum DesiredState {
    /// Connect and accept calls.
    Serve,
    /// Accept no new calls, but keep the connection: the endpoint may be back soon.
    Pause,
    /// Accept no new calls, and close the connection when the last one has ended.
    Drain,
    /// Like `Drain`, and then end the task; `deadline` sets the drain deadline.
    Remove { deadline: bool },
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
    /// No new calls; open ones are finished, on this connection or an earlier one. `desired`
    /// decides how it ends.
    Draining {
        desired: DesiredState,
        until: Option<Instant>,
        connected: bool,
    },
    Closed,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Input {
    Desired(DesiredState),
    Connected,
    Failed,
    /// The connection ended, or the peer accepts no more streams.
    Lost,
    /// No call is in flight.
    NoCalls,
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

/// Returns the next phase and the action for an event; `random` is a random number from 0 to 1.
pub(crate) fn step(
    phase: Phase,
    input: Input,
    now: Instant,
    timing: &Timing,
    random: f64,
) -> (Phase, Action) {
    match input {
        Input::Desired(desired) => desired_changed(phase, desired, now, timing),
        Input::Connected => match phase {
            Phase::Connecting { failures } => (Phase::Ready { since: now, failures }, Action::Nothing),
            _ => (phase, Action::Nothing),
        },
        Input::Failed => match phase {
            Phase::Connecting { failures } => (wait(failures + 1, now, timing, random), Action::Nothing),
            _ => (phase, Action::Nothing),
        },
        Input::Lost => connection_lost(phase, now, timing, random),
        Input::NoCalls => match phase {
            Phase::Draining { desired: DesiredState::Drain, .. } => (Phase::Idle, Action::Close),
            Phase::Draining { desired: DesiredState::Remove { .. }, .. } => (Phase::Closed, Action::Close),
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

fn desired_changed(phase: Phase, desired: DesiredState, now: Instant, timing: &Timing) -> (Phase, Action) {
    let until = match desired {
        DesiredState::Remove { deadline: true } => Some(after(now, timing.drain)),
        _ => None,
    };
    match (phase, desired) {
        (Phase::Closed, _) => (Phase::Closed, Action::Nothing),
        (Phase::Idle, DesiredState::Serve) => (Phase::Connecting { failures: 0 }, Action::Dial),
        // A draining endpoint stayed connected, and for a reconnect it does not matter when it
        // became ready.
        (Phase::Draining { connected: true, .. }, DesiredState::Serve) => {
            (Phase::Ready { since: now, failures: 0 }, Action::Nothing)
        }
        (Phase::Draining { connected: false, .. }, DesiredState::Serve) => {
            (Phase::Connecting { failures: 0 }, Action::Dial)
        }
        (_, DesiredState::Serve) => (phase, Action::Nothing),
        // The deadline counts from the first request to remove.
        (Phase::Draining { until: Some(_), .. }, DesiredState::Remove { deadline: true }) => {
            (phase, Action::Nothing)
        }
        (Phase::Ready { .. }, _) => (Phase::Draining { desired, until, connected: true }, Action::Nothing),
        (Phase::Draining { connected: false, .. }, DesiredState::Pause | DesiredState::Drain) => {
            (Phase::Idle, Action::Nothing)
        }
        (Phase::Draining { connected, .. }, _) => {
            (Phase::Draining { desired, until, connected }, Action::Nothing)
        }
        // There may be open calls on a connection on which the peer has sent GOAWAY.
        (_, DesiredState::Remove { .. }) => {
            (Phase::Draining { desired, until, connected: false }, Action::Close)
        }
        (Phase::Idle, _) => (Phase::Idle, Action::Nothing),
        (Phase::Connecting { .. } | Phase::Backoff { .. }, _) => (Phase::Idle, Action::Close),
    }
}

/// Reconnects at once if the connection lasted for a while, otherwise after a backoff: a peer that
/// accepts and closes would keep us dialling without a pause.
fn connection_lost(phase: Phase, now: Instant, timing: &Timing, random: f64) -> (Phase, Action) {
    match phase {
        Phase::Ready { since, .. } if now - since >= timing.backoff.initial => {
            (Phase::Connecting { failures: 0 }, Action::Dial)
        }
        Phase::Ready { failures, .. } => (wait(failures + 1, now, timing, random), Action::Nothing),
        Phase::Draining { desired: desired @ DesiredState::Remove { .. }, until, .. } => {
            (Phase::Draining { desired, until, connected: false }, Action::Nothing)
        }
        Phase::Draining { .. } => (Phase::Idle, Action::Nothing),
        _ => (phase, Action::Nothing),
    }
}

fn wait(failures: u32, now: Instant, timing: &Timing, random: f64) -> Phase {
    Phase::Backoff { failures, until: after(now, timing.backoff.wait(failures, random)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WITH_DEADLINE: DesiredState = DesiredState::Remove { deadline: true };
    const WITHOUT_DEADLINE: DesiredState = DesiredState::Remove { deadline: false };

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
        let drains = |desired, wait: Option<f64>, connected| {
            let until = wait.map(|it| now + at(it));
            Phase::Draining { desired, until, connected }
        };
        let draining = |desired, wait| drains(desired, wait, true);
        let table = [
            // An idle endpoint connects when it is wanted, and has no calls to finish.
            (Phase::Idle, Input::Desired(DesiredState::Serve), connecting(0), Dial),
            (Phase::Idle, Input::Desired(DesiredState::Pause), Phase::Idle, Nothing),
            (Phase::Idle, Input::Desired(DesiredState::Drain), Phase::Idle, Nothing),
            (Phase::Idle, Input::Desired(WITH_DEADLINE), drains(WITH_DEADLINE, Some(30.0), false), Close),
            // An attempt succeeds, fails, or is abandoned.
            (connecting(2), Input::Connected, Phase::Ready { since: now, failures: 2 }, Nothing),
            (connecting(0), Input::Failed, backoff(1, 1.0), Nothing),
            (connecting(1), Input::Failed, backoff(2, 1.6), Nothing),
            (connecting(1), Input::Desired(DesiredState::Serve), connecting(1), Nothing),
            (connecting(1), Input::Desired(DesiredState::Pause), Phase::Idle, Close),
            (connecting(1), Input::Desired(WITHOUT_DEADLINE), drains(WITHOUT_DEADLINE, None, false), Close),
            // A connection that lasted is replaced at once, a young one after a growing backoff.
            (ready, Input::Lost, connecting(0), Dial),
            (young(0), Input::Lost, backoff(1, 1.0), Nothing),
            (young(1), Input::Lost, backoff(2, 1.6), Nothing),
            (ready, Input::Desired(DesiredState::Pause), draining(DesiredState::Pause, None), Nothing),
            (ready, Input::Desired(DesiredState::Drain), draining(DesiredState::Drain, None), Nothing),
            (ready, Input::Desired(WITH_DEADLINE), draining(WITH_DEADLINE, Some(30.0)), Nothing),
            (ready, Input::Desired(WITHOUT_DEADLINE), draining(WITHOUT_DEADLINE, None), Nothing),
            (ready, Input::NoCalls, ready, Nothing),
            // A backoff ends with another attempt, or because none is wanted.
            (backoff(3, 1.0), Input::Tick, backoff(3, 1.0), Nothing),
            (due, Input::Tick, connecting(3), Dial),
            (due, Input::Desired(DesiredState::Serve), due, Nothing),
            (due, Input::Desired(DesiredState::Pause), Phase::Idle, Close),
            (due, Input::Desired(WITH_DEADLINE), drains(WITH_DEADLINE, Some(30.0), false), Close),
            // A resting endpoint may come back; a finishing one closes without calls; a leaving one
            // is then gone, or at the deadline.
            (draining(DesiredState::Pause, None), Input::Desired(DesiredState::Serve), fresh, Nothing),
            (draining(WITH_DEADLINE, Some(1.0)), Input::Desired(DesiredState::Serve), fresh, Nothing),
            (
                draining(DesiredState::Pause, None),
                Input::NoCalls,
                draining(DesiredState::Pause, None),
                Nothing,
            ),
            (draining(DesiredState::Drain, None), Input::NoCalls, Phase::Idle, Close),
            (draining(WITH_DEADLINE, Some(1.0)), Input::NoCalls, Phase::Closed, Close),
            (draining(WITH_DEADLINE, Some(1.0)), Input::Tick, draining(WITH_DEADLINE, Some(1.0)), Nothing),
            (draining(WITH_DEADLINE, Some(0.0)), Input::Tick, Phase::Closed, Close),
            (
                draining(WITH_DEADLINE, Some(1.0)),
                Input::Desired(WITH_DEADLINE),
                draining(WITH_DEADLINE, Some(1.0)),
                Nothing,
            ),
            (
                draining(DesiredState::Drain, None),
                Input::Desired(WITH_DEADLINE),
                draining(WITH_DEADLINE, Some(30.0)),
                Nothing,
            ),
            (
                draining(WITH_DEADLINE, Some(1.0)),
                Input::Desired(WITHOUT_DEADLINE),
                draining(WITHOUT_DEADLINE, None),
                Nothing,
            ),
            (draining(DesiredState::Pause, None), Input::Lost, Phase::Idle, Nothing),
            // Calls on an earlier connection continue without this one.
            (draining(WITHOUT_DEADLINE, None), Input::Lost, drains(WITHOUT_DEADLINE, None, false), Nothing),
            (drains(WITHOUT_DEADLINE, None, false), Input::NoCalls, Phase::Closed, Close),
            (drains(WITH_DEADLINE, Some(0.0), false), Input::Tick, Phase::Closed, Close),
            (
                drains(WITH_DEADLINE, Some(1.0), false),
                Input::Desired(DesiredState::Serve),
                connecting(0),
                Dial,
            ),
            (
                drains(WITH_DEADLINE, Some(1.0), false),
                Input::Desired(DesiredState::Pause),
                Phase::Idle,
                Nothing,
            ),
            // Closed is final.
            (Phase::Closed, Input::Desired(DesiredState::Serve), Phase::Closed, Nothing),
            (Phase::Closed, Input::Tick, Phase::Closed, Nothing),
        ];
        for (phase, input, next, action) in table {
            assert_eq!(step(phase, input, now, &timing(), 0.5), (next, action), "{phase:?} {input:?}");
        }
    }

    fn any_input() -> impl Strategy<Value = Input> {
        prop_oneof![
            prop::sample::select(vec![
                DesiredState::Serve,
                DesiredState::Pause,
                DesiredState::Drain,
                WITHOUT_DEADLINE,
                WITH_DEADLINE
            ])
            .prop_map(Input::Desired),
            prop::sample::select(vec![
                Input::Connected,
                Input::Failed,
                Input::Lost,
                Input::NoCalls,
                Input::Tick
            ]),
        ]
    }

    proptest! {
        /// After any events, a wanted endpoint becomes connected once nothing prevents it, and a
        /// leaving one is closed.
        #[test]
        fn no_sequence_of_events_leads_to_a_dead_end(inputs in prop::collection::vec(any_input(), 0..40), remove in any::<bool>()) {
            let (mut phase, mut now) = (Phase::Idle, Instant::now());
            let timing = timing();
            let desired = if remove { DesiredState::Remove { deadline: true } } else { DesiredState::Serve };
            for input in inputs {
                now += at(0.7);
                phase = step(phase, input, now, &timing, 0.5).0;
            }
            let closed = phase == Phase::Closed;
            for input in [Input::Desired(desired), Input::Tick, Input::Connected, Input::NoCalls] {
                now += at(200.0);
                phase = step(phase, input, now, &timing, 0.5).0;
            }
            if remove || closed {
                prop_assert_eq!(phase, Phase::Closed);
            } else {
                prop_assert!(matches!(phase, Phase::Ready { .. }), "{:?}", phase);
            }
        }
    }
}
