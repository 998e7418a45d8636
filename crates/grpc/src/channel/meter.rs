//! What a channel tells the `metrics` facade. Handles are made once per endpoint, so that a call only adds to them.
//!
//! Endpoints come and go for ever, label values must not: only so many addresses of a channel get a label of their own, the
//! rest share `other`. An address that comes back has the label that it had.

use hashbrown::HashSet;
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};

use parking_lot::Mutex;

use super::status::Code;
use crate::connection::State;

/// How many addresses get a label of their own.
const LABELLED: usize = 100;

/// The states by name.
const STATES: [(State, &str); 6] = [
    (State::Idle, "idle"),
    (State::Connecting, "connecting"),
    (State::Ready, "ready"),
    (State::Backoff, "backoff"),
    (State::Draining, "draining"),
    (State::Closed, "closed"),
];

/// The numbers of one channel.
#[derive(Debug)]
pub(crate) struct ChannelMeter {
    target: String,
    /// Addresses that have a label of their own; never more than so many.
    labelled: Mutex<HashSet<String>>,
    pub(crate) transparent_retries: Counter,
    pub(crate) retries: Counter,
    pub(crate) ejections: Counter,
    pub(crate) ready: Gauge,
    pub(crate) endpoints: Gauge,
    /// How long calls waited that found nobody to call at once.
    pub(crate) waits: Histogram,
    /// How often an endpoint came to be in a state, in the order of [`STATES`].
    states: [Counter; STATES.len()],
}

/// The numbers of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    succeeded: Counter,
    failed: Counter,
    cancelled: Counter,
    unprocessed: Counter,
    in_flight: Gauge,
}

impl ChannelMeter {
    pub(crate) fn new(target: &str) -> Self {
        let kind = |it: &'static str| vec![Label::new("target", target.to_owned()), Label::new("kind", it)];
        let labels = || vec![Label::new("target", target.to_owned())];
        Self {
            target: target.to_owned(),
            labelled: Mutex::default(),
            transparent_retries: counter!("dogwatch_grpc_retries_total", kind("transparent")),
            retries: counter!("dogwatch_grpc_retries_total", kind("policy")),
            ejections: counter!("dogwatch_grpc_ejections_total", labels()),
            ready: gauge!("dogwatch_grpc_endpoints_ready", labels()),
            endpoints: gauge!("dogwatch_grpc_endpoints", labels()),
            waits: histogram!("dogwatch_grpc_pick_wait_seconds", labels()),
            states: STATES.map(|(_, name)| {
                let labels = vec![Label::new("target", target.to_owned()), Label::new("state", name)];
                counter!("dogwatch_grpc_endpoint_states_total", labels)
            }),
        }
    }

    /// An endpoint came to be in this state.
    pub(crate) fn state(&self, state: State) {
        let index = STATES.iter().position(|it| it.0 == state);
        index.into_iter().for_each(|it| self.states[it].increment(1));
    }

    fn has_label(&self, name: &str) -> bool {
        let mut labelled = self.labelled.lock();
        let room = labelled.len() < LABELLED;
        labelled.contains(name) || (room && labelled.insert(name.to_owned()))
    }

    /// The numbers of another endpoint.
    pub(crate) fn endpoint(&self, name: &str) -> Meter {
        let name = if self.has_label(name) { name.to_owned() } else { "other".to_owned() };
        let labels = || vec![Label::new("target", self.target.clone()), Label::new("endpoint", name.clone())];
        let result = |it: &'static str| {
            let mut labels = labels();
            labels.push(Label::new("result", it));
            counter!("dogwatch_grpc_calls_total", labels)
        };
        Meter {
            succeeded: result("ok"),
            failed: result("error"),
            cancelled: result("cancelled"),
            unprocessed: result("unprocessed"),
            in_flight: gauge!("dogwatch_grpc_calls_in_flight", labels()),
        }
    }
}

impl Meter {
    pub(crate) fn begin(&self) {
        self.in_flight.increment(1);
    }

    /// A call ended before any server had processed it; it may go on elsewhere.
    pub(crate) fn end_unprocessed(&self) {
        self.in_flight.decrement(1);
        self.unprocessed.increment(1);
    }

    /// A call ended: with a code, or because nobody waited for one.
    pub(crate) fn end(&self, code: Option<Code>) {
        self.in_flight.decrement(1);
        match code {
            Some(Code::Ok) => self.succeeded.increment(1),
            Some(_) => self.failed.increment(1),
            None => self.cancelled.increment(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::DebuggingRecorder;

    use super::*;

    #[test]
    fn labels_are_bounded_whatever_comes_and_goes() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMeter::new("shop/greeter");
            for number in 0..1_000 {
                let meter = channel.endpoint(&format!("10.0.0.1:{number}"));
                meter.begin();
                meter.end(Some(Code::Ok));
            }
        });
        let all = snapshotter.snapshot().into_vec();
        let counted = |it: &&(metrics_util::CompositeKey, _, _, metrics_util::debugging::DebugValue)| {
            it.0.key().name() == "dogwatch_grpc_calls_total"
                && it.0.key().labels().any(|it| it.value() == "ok")
        };
        assert_eq!(all.iter().filter(counted).count(), LABELLED + 1);
    }

    /// Readiness flaps, pods return to their address: that must not use up the labels.
    #[test]
    fn an_address_that_comes_back_has_the_label_that_it_had() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMeter::new("shop/greeter");
            for number in 0..1_000 {
                channel.endpoint(&format!("10.0.0.1:{}", number % 3)).begin();
            }
        });
        let all = snapshotter.snapshot().into_vec();
        assert!(all.iter().all(|it| it.0.key().labels().all(|it| it.value() != "other")));
    }
}
