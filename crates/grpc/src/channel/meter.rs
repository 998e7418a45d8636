//! What a channel tells the `metrics` facade. Handles are made once per endpoint, so that a call only adds to them.
//!
//! Endpoints come and go for ever, label values must not: only so many endpoints of a channel get a label of their own, the
//! rest share `other`.

use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{Counter, Gauge, Label, counter, gauge};

use super::status::Code;

/// How many endpoints get a label of their own.
const LABELLED: usize = 100;

/// The numbers of one channel.
#[derive(Debug)]
pub(crate) struct ChannelMeter {
    target: String,
    labelled: AtomicUsize,
    pub(crate) transparent_retries: Counter,
    pub(crate) retries: Counter,
    pub(crate) ejections: Counter,
    pub(crate) ready: Gauge,
    pub(crate) endpoints: Gauge,
}

/// The numbers of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    succeeded: Counter,
    failed: Counter,
    cancelled: Counter,
    in_flight: Gauge,
}

impl ChannelMeter {
    pub(crate) fn new(target: &str) -> Self {
        let kind = |it: &'static str| vec![Label::new("target", target.to_owned()), Label::new("kind", it)];
        let labels = || vec![Label::new("target", target.to_owned())];
        Self {
            target: target.to_owned(),
            labelled: AtomicUsize::new(0),
            transparent_retries: counter!("dogwatch_grpc_retries_total", kind("transparent")),
            retries: counter!("dogwatch_grpc_retries_total", kind("policy")),
            ejections: counter!("dogwatch_grpc_ejections_total", labels()),
            ready: gauge!("dogwatch_grpc_endpoints_ready", labels()),
            endpoints: gauge!("dogwatch_grpc_endpoints", labels()),
        }
    }

    /// The numbers of another endpoint.
    pub(crate) fn endpoint(&self, name: &str) -> Meter {
        let own = self.labelled.fetch_add(1, Ordering::Relaxed) < LABELLED;
        let name = if own { name.to_owned() } else { "other".to_owned() };
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
            in_flight: gauge!("dogwatch_grpc_calls_in_flight", labels()),
        }
    }
}

impl Meter {
    pub(crate) fn begin(&self) {
        self.in_flight.increment(1);
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
}
