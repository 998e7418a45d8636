//! The metrics of one named queue, under client-go's names (rule WM-1).
//!
//! They go through the `metrics` facade, to the recorder that is installed when the queue is built.
//! Queues without a name have none.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram};
use metrics::{Unit, gauge, histogram};
use parking_lot::Mutex;

/// The histogram buckets, in seconds, that Kubernetes uses for `workqueue_queue_duration_seconds`
/// and `workqueue_work_duration_seconds`, for exporters that need them: from 10 ns to 10 s, in
/// powers of ten (`k8s.io/component-base v0.36.4 metrics/prometheus/workqueue/metrics.go`).
pub const DURATION_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// The number of priorities with a depth gauge of their own. The limit and the label of the rest
/// are controller-runtime's.
const PRIORITIES: usize = 25;
const ANOTHER_PRIORITY: &str = "exceeded_cardinality_limit";

#[derive(Debug)]
pub(crate) struct QueueMetrics {
    name: String,
    /// One for each priority, in the order in which they were first seen; after the limit, one for
    /// all others.
    depths: Mutex<Vec<(i32, Gauge)>>,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest_running: Gauge,
    retries: Counter,
}

impl QueueMetrics {
    pub(crate) fn new(name: &str) -> Self {
        describe();
        let name = name.to_owned();
        Self {
            name: name.clone(),
            // The gauge exists before the first add, so that its graph begins at zero.
            depths: Mutex::new(vec![(0, depth(&name, "0"))]),
            adds: counter!("workqueue_adds_total", "name" => name.clone()),
            queue_duration: histogram!("workqueue_queue_duration_seconds", "name" => name.clone()),
            work_duration: histogram!("workqueue_work_duration_seconds", "name" => name.clone()),
            unfinished: gauge!("workqueue_unfinished_work_seconds", "name" => name.clone()),
            longest_running: gauge!("workqueue_longest_running_processor_seconds", "name" => name.clone()),
            retries: counter!("workqueue_retries_total", "name" => name),
        }
    }

    /// Counts keys that have outstanding work now and had none before; keys that a worker holds
    /// count too.
    pub(crate) fn added(&self, count: u64) {
        if count > 0 {
            self.adds.increment(count);
        }
    }

    /// Changes the number of keys with outstanding work at this priority.
    pub(crate) fn deepened(&self, priority: i32, by: i64) {
        let mut depths = self.depths.lock();
        let known = depths.iter().take(PRIORITIES).position(|(it, _)| *it == priority);
        let at = known.unwrap_or_else(|| {
            if depths.len() < PRIORITIES {
                depths.push((priority, depth(&self.name, &priority.to_string())));
            } else if depths.len() == PRIORITIES {
                depths.push((priority, depth(&self.name, ANOTHER_PRIORITY)));
            }
            depths.len() - 1
        });
        depths[at].1.increment(by as f64);
    }

    /// Records the time that a key waited before it was taken.
    pub(crate) fn taken(&self, waited: u64) {
        self.queue_duration.record(seconds(waited));
    }

    /// Records the time that a key was held.
    pub(crate) fn finished(&self, held: u64) {
        self.work_duration.record(seconds(held));
    }

    /// Counts an add with a delay or a rate limit.
    pub(crate) fn retried(&self) {
        self.retries.increment(1);
    }

    /// Sets the total time of the work in progress, and the time of the longest one.
    pub(crate) fn unfinished(&self, all: u128, longest: u64) {
        self.unfinished.set(seconds(u64::try_from(all).unwrap_or(u64::MAX)));
        self.longest_running.set(seconds(longest));
    }
}

fn depth(name: &str, priority: &str) -> Gauge {
    gauge!("workqueue_depth", "name" => name.to_owned(), "priority" => priority.to_owned())
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

fn describe() {
    describe_gauge!("workqueue_depth", "keys that were added and not yet taken, by priority");
    describe_counter!("workqueue_adds_total", "adds that were not merged into an earlier one");
    describe_histogram!(
        "workqueue_queue_duration_seconds",
        Unit::Seconds,
        "time that a key waits before it is taken"
    );
    describe_histogram!(
        "workqueue_work_duration_seconds",
        Unit::Seconds,
        "time that a key is held by a worker"
    );
    describe_gauge!(
        "workqueue_unfinished_work_seconds",
        Unit::Seconds,
        "total time that the keys in progress have been held; it grows when a worker is stuck"
    );
    describe_gauge!(
        "workqueue_longest_running_processor_seconds",
        Unit::Seconds,
        "time that the longest-held key has been held"
    );
    describe_counter!("workqueue_retries_total", "adds with a delay or a rate limit");
}
