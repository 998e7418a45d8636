//! The metrics of a channel, through the `metrics` facade. Handles are created once per endpoint,
//! so that a call only increments them.
//!
//! Endpoints come and go indefinitely, and the number of label values must be bounded: at most a
//! hundred addresses of a channel have their own label at a time, the others share `other`. A
//! removed address makes room for a new one, since every pod of a rollout has a new address. An
//! exporter that keeps series forever should drop idle ones.
//!
//! Channels of one target share one gauge of endpoints; a dropped channel subtracts its share.

use std::sync::Arc;

use hashbrown::HashMap;
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use parking_lot::Mutex;

use super::status::Code;
use crate::connection::ConnectionState;

/// The maximum number of addresses with their own label at a time.
const LABELLED: usize = 100;

/// The states and their label values.
const STATES: [(ConnectionState, &str); 6] = [
    (ConnectionState::Idle, "idle"),
    (ConnectionState::Connecting, "connecting"),
    (ConnectionState::Ready, "ready"),
    (ConnectionState::Backoff, "backoff"),
    (ConnectionState::Draining, "draining"),
    (ConnectionState::Closed, "closed"),
];

/// The metrics of one channel.
#[derive(Debug)]
pub(crate) struct ChannelMetrics {
    target: String,
    labels: Arc<Labels>,
    pub(crate) transparent_retries: Counter,
    pub(crate) retries: Counter,
    pub(crate) ejections: Counter,
    pub(crate) ready: Share,
    pub(crate) endpoints: Share,
    /// The waiting time of calls that found no endpoint at once.
    pub(crate) waits: Histogram,
    /// The number of transitions of endpoints into each state, in the order of [`STATES`].
    states: [Counter; STATES.len()],
}

/// The addresses with their own label, and the number of endpoints at each: a removed and a new
/// endpoint may have the same address. Bounded by [`LABELLED`].
#[derive(Debug, Default)]
struct Labels(Mutex<HashMap<String, usize>>);

/// The label of an address, held by its endpoints and their calls.
#[derive(Debug)]
struct Labelled {
    address: String,
    labels: Arc<Labels>,
}

impl Labels {
    /// Returns a label for this address, if it already has one or one is free.
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

/// The share of a channel in a gauge that it shares with other channels of its target.
#[derive(Debug)]
pub(crate) struct Share {
    gauge: Gauge,
    added: Mutex<usize>,
}

impl Share {
    fn of(gauge: Gauge) -> Self {
        Self { gauge, added: Mutex::new(0) }
    }

    /// Sets the share of this channel.
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

/// The metrics of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct EndpointMetrics {
    /// `None` if it shares `other`.
    _label: Option<Arc<Labelled>>,
    succeeded: Counter,
    failed: Counter,
    cancelled: Counter,
    unprocessed: Counter,
    in_flight: Gauge,
}

impl ChannelMetrics {
    /// Returns the target.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

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

    /// Counts a transition of an endpoint into this state.
    pub(crate) fn state(&self, state: ConnectionState) {
        let index = STATES.iter().position(|it| it.0 == state);
        index.into_iter().for_each(|it| self.states[it].increment(1));
    }

    /// Creates the metrics of an endpoint.
    pub(crate) fn endpoint(&self, name: &str) -> EndpointMetrics {
        let label = self.labels.take(name).map(Arc::new);
        let name = if label.is_some() { name.to_owned() } else { "other".to_owned() };
        let labels = || vec![Label::new("target", self.target.clone()), Label::new("endpoint", name.clone())];
        let result = |it: &'static str| {
            let mut labels = labels();
            labels.push(Label::new("result", it));
            counter!("dogwatch_grpc_calls_total", labels)
        };
        EndpointMetrics {
            _label: label,
            succeeded: result("ok"),
            failed: result("error"),
            cancelled: result("cancelled"),
            unprocessed: result("unprocessed"),
            in_flight: gauge!("dogwatch_grpc_calls_in_flight", labels()),
        }
    }
}

impl EndpointMetrics {
    pub(crate) fn begin(&self) {
        self.in_flight.increment(1);
    }

    /// Counts a call that ended before any server had processed it; it may continue on another
    /// endpoint.
    pub(crate) fn end_unprocessed(&self) {
        self.in_flight.decrement(1);
        self.unprocessed.increment(1);
    }

    /// Counts a call that ended with a code, or was cancelled.
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

    /// Returns the number of successful calls by their `endpoint` label.
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
            other => panic!("{name} is not a gauge: {other:?}"),
        }
    }

    fn call(metrics: &EndpointMetrics) {
        metrics.begin();
        metrics.end(Some(Code::Ok));
    }

    #[test]
    fn the_number_of_labels_is_bounded() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMetrics::new("shop/greeter");
            let all: Vec<_> = (0..1_000).map(|it| channel.endpoint(&format!("10.0.0.1:{it}"))).collect();
            all.iter().for_each(call);
        });
        let counted = counted(&recorder);
        assert_eq!((counted.len(), counted["other"]), (LABELLED + 1, 1_000 - LABELLED as u64));
    }

    /// The pods of a rollout have new addresses: those of the hundredth rollout get labels like
    /// those of the first.
    #[test]
    fn a_removed_address_makes_room_for_a_new_one() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMetrics::new("shop/greeter");
            let mut running: Vec<EndpointMetrics> = Vec::new();
            for rollout in 0..100 {
                let next = (0..20).map(|pod| channel.endpoint(&format!("10.0.{rollout}.{pod}:80")));
                running = next.collect();
                running.iter().for_each(call);
            }
            drop(running);
            assert!(channel.labels.0.lock().is_empty(), "a label of a removed endpoint is still held");
        });
        let counted = counted(&recorder);
        assert_eq!((counted.len(), counted.get("other")), (2_000, None));
    }

    /// A removed endpoint finishes its calls while the next one at its address already exists.
    #[test]
    fn an_address_has_its_label_until_its_last_endpoint_is_gone() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let channel = ChannelMetrics::new("shop/greeter");
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
    fn channels_of_one_target_add_up_in_a_gauge_and_subtract_themselves() {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            let (one, other) = (ChannelMetrics::new("shop/greeter"), ChannelMetrics::new("shop/greeter"));
            // The recorder resets a gauge to 0 when it is read: these are changes.
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
