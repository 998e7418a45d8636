//! The metrics of a channel, through the `metrics` facade. Handles are made once per endpoint, so that a call only adds to them.
//!
//! Endpoints come and go for ever, and label values must not add up: at most so many addresses of a channel have a label of their own
//! at a time, the others share `other`. The place of an address that left is free for the next one, since every pod of a rollout has a
//! new address. An exporter that keeps series for ever should drop those that are idle.
//!
//! Channels of one target add their endpoints up in one gauge, and a channel that is gone takes its share out of it.

use std::sync::Arc;

use hashbrown::HashMap;
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use parking_lot::Mutex;

use super::status::Code;
use crate::connection::State;

/// How many addresses have a label of their own at a time.
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
    labels: Arc<Labels>,
    pub(crate) transparent_retries: Counter,
    pub(crate) retries: Counter,
    pub(crate) ejections: Counter,
    pub(crate) ready: Share,
    pub(crate) endpoints: Share,
    /// How long calls waited that found nobody to call at once.
    pub(crate) waits: Histogram,
    /// How often an endpoint came to be in a state, in the order of [`STATES`].
    states: [Counter; STATES.len()],
}

/// Addresses that have a label of their own, and how many endpoints each has: one that leaves and one that comes may be at the same.
/// Never more than so many.
#[derive(Debug, Default)]
struct Labels(Mutex<HashMap<String, usize>>);

/// The label of an address, for as long as an endpoint or a call of it has this.
#[derive(Debug)]
struct Labelled {
    address: String,
    labels: Arc<Labels>,
}

impl Labels {
    /// A label for this address, if it has one or one is free.
    fn take(self: &Arc<Self>, address: &str) -> Option<Labelled> {
        let mut all = self.0.lock();
        let free = all.len() < LABELLED;
        match all.get_mut(address) {
            Some(count) => *count += 1,
            None if free => drop(all.insert(address.to_owned(), 1)),
            None => return None,
        }
        Some(Labelled { address: address.to_owned(), labels: Arc::clone(self) })
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        let mut all = self.labels.0.lock();
        if let Some(count) = all.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.address);
            }
        }
    }
}

/// What a channel adds to a gauge that it shares with other channels of its target.
#[derive(Debug)]
pub(crate) struct Share {
    gauge: Gauge,
    added: Mutex<usize>,
}

impl Share {
    fn of(gauge: Gauge) -> Self {
        Self { gauge, added: Mutex::new(0) }
    }

    /// Makes this channel's share this number.
    pub(crate) fn set(&self, count: usize) {
        let mut added = self.added.lock();
        self.gauge.increment(count as f64 - *added as f64);
        *added = count;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The numbers of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    /// `None` where it shares `other`.
    _label: Option<Arc<Labelled>>,
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
            labels: Arc::default(),
            transparent_retries: counter!("dogwatch_grpc_retries_total", kind("transparent")),
            retries: counter!("dogwatch_grpc_retries_total", kind("policy")),
            ejections: counter!("dogwatch_grpc_ejections_total", labels()),
            ready: Share::of(gauge!("dogwatch_grpc_endpoints_ready", labels())),
            endpoints: Share::of(gauge!("dogwatch_grpc_endpoints", labels())),
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

    /// The numbers of another endpoint.
    pub(crate) fn endpoint(&self, name: &str) -> Meter {
        let label = self.labels.take(name).map(Arc::new);
        let name = if label.is_some() { name.to_owned() } else { "other".to_owned() };
        let labels = || vec![Label::new("target", self.target.clone()), Label::new("endpoint", name.clone())];
        let result = |it: &'static str| {
            let mut labels = labels();
            labels.push(Label::new("result", it));
            counter!("dogwatch_grpc_calls_total", labels)
        };
        Meter {
            _label: label,
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
    use std::collections::BTreeMap;

    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;

    /// The series of calls that succeeded, by their label of the endpoint.
    fn counted(recorder: &DebuggingRecorder) -> BTreeMap<String, u64> {
        let all = recorder.snapshotter().snapshot().into_vec();
        let mut counted = BTreeMap::new();
        for (key, _, _, value) in all {
            let labels: BTreeMap<_, _> = key.key().labels().map(|it| (it.key(), it.value())).collect();
            if let (DebugValue::Counter(count), Some(&"ok")) = (value, labels.get("result")) {
                counted.insert(labels["endpoint"].to_owned(), count);
            }
        }
        counted
    }

    fn gauge_of(recorder: &DebuggingRecorder, name: &str) -> f64 {
        let all = recorder.snapshotter().snapshot().into_vec();
        let found = all.into_iter().find(|it| it.0.key().name() == name).expect(name);
        match found.3 {
            DebugValue::Gauge(value) => value.into_inner(),
            other => panic!("{name} is no gauge: {other:?}"),
        }
    }

    fn call(meter: &Meter) {
        meter.begin();
        meter.end(Some(Code::Ok));
    }

    #[test]
    fn labels_are_bounded_however_many_endpoints_there_are() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMeter::new("shop/greeter");
            let all: Vec<_> = (0..1_000).map(|it| channel.endpoint(&format!("10.0.0.1:{it}"))).collect();
            all.iter().for_each(call);
        });
        let counted = counted(&recorder);
        assert_eq!((counted.len(), counted["other"]), (LABELLED + 1, 1_000 - LABELLED as u64));
    }

    /// Pods of a rollout have new addresses: those of the hundredth are labelled as well as those of the first.
    #[test]
    fn what_left_gives_its_place_to_what_comes() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMeter::new("shop/greeter");
            let mut running: Vec<Meter> = Vec::new();
            for rollout in 0..100 {
                let next = (0..20).map(|pod| channel.endpoint(&format!("10.0.{rollout}.{pod}:80")));
                running = next.collect();
                running.iter().for_each(call);
            }
            drop(running);
            assert!(channel.labels.0.lock().is_empty(), "nothing is held for those that are gone");
        });
        let counted = counted(&recorder);
        assert_eq!((counted.len(), counted.get("other")), (2_000, None));
    }

    /// One that leaves finishes its calls while the next one at its address is there already.
    #[test]
    fn an_address_has_its_label_until_the_last_of_its_endpoints_is_gone() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMeter::new("shop/greeter");
            let (old, new) = (channel.endpoint("10.0.0.1:80"), channel.endpoint("10.0.0.1:80"));
            let in_a_call = old.clone();
            drop(old);
            drop(in_a_call);
            assert_eq!(channel.labels.0.lock().get("10.0.0.1:80"), Some(&1));
            drop(new);
            assert!(channel.labels.0.lock().is_empty());
        });
    }

    #[test]
    fn gauges_of_channels_of_one_target_add_up_and_go_with_their_channel() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let (one, other) = (ChannelMeter::new("shop/greeter"), ChannelMeter::new("shop/greeter"));
            // The recorder sets a gauge back to 0 when it is read: these are changes.
            one.ready.set(5);
            one.ready.set(3);
            other.ready.set(1);
            assert_eq!(gauge_of(&recorder, "dogwatch_grpc_endpoints_ready"), 4.0);
            drop(one);
            assert_eq!(gauge_of(&recorder, "dogwatch_grpc_endpoints_ready"), -3.0);
            drop(other);
            assert_eq!(gauge_of(&recorder, "dogwatch_grpc_endpoints_ready"), -1.0);
        });
    }
}
