//! The metrics of a controller, under controller-runtime's names, so that existing dashboards and
//! alerts work. Those that controller-runtime does not have are described in the documentation of
//! the crate.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, describe_counter, gauge, histogram};

use crate::causes::{CAUSE_LABELS, Causes};

/// The upper bounds, in seconds, that controller-runtime uses for
/// `controller_runtime_reconcile_time_seconds`. Pass them to the exporter to get the same buckets;
/// this crate does not choose an exporter.
pub const RECONCILE_TIME_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// The metrics of one controller, in the recorder that is installed when it is built.
pub(crate) struct ControllerMetrics {
    pub(crate) success: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) error: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    /// Reconciles that were deferred because the cache did not show the reconciler's own writes
    /// yet.
    pub(crate) stale: Counter,
    /// Keys that were reconciled although the cache did not show the reconciler's own writes.
    pub(crate) overdue: Counter,
    /// The first and the last causes of reconciles, by label.
    causes: [(&'static str, Counter); CAUSE_LABELS.len()],
    time: Histogram,
    active: Gauge,
}

/// Counts a worker as busy until it is dropped.
pub(crate) struct Busy<'a>(&'a Gauge);

impl ControllerMetrics {
    /// Registers all metrics, at zero.
    pub(crate) fn new(controller: &str, workers: usize) -> Self {
        let name = || controller.to_owned();
        let total = |result: &'static str| counter!("controller_runtime_reconcile_total", "controller" => name(), "result" => result);
        describe_counter!(
            "controller_reconcile_causes_total",
            "the first cause of each reconcile and, if it has several, the last one"
        );
        let cause = |cause: &'static str| counter!("controller_reconcile_causes_total", "controller" => name(), "cause" => cause);
        let numbers = Self {
            success: total("success"),
            requeue_after: total("requeue_after"),
            error: total("error"),
            errors: counter!("controller_runtime_reconcile_errors_total", "controller" => name()),
            terminal: counter!("controller_runtime_terminal_reconcile_errors_total", "controller" => name()),
            panics: counter!("controller_runtime_reconcile_panics_total", "controller" => name()),
            timeouts: counter!("controller_runtime_reconcile_timeouts_total", "controller" => name()),
            stale: counter!("dogwatch_controller_stale_reads_avoided_total", "controller" => name()),
            overdue: counter!("dogwatch_controller_stale_reads_total", "controller" => name()),
            causes: CAUSE_LABELS.map(|it| (it, cause(it))),
            time: histogram!("controller_runtime_reconcile_time_seconds", "controller" => name()),
            active: gauge!("controller_runtime_active_workers", "controller" => name()),
        };
        for it in [&numbers.success, &numbers.requeue_after, &numbers.error, &numbers.errors] {
            it.increment(0);
        }
        for it in [&numbers.terminal, &numbers.panics, &numbers.timeouts, &numbers.stale, &numbers.overdue] {
            it.increment(0);
        }
        numbers.causes.iter().for_each(|(_, it)| it.increment(0));
        numbers.active.set(0.0);
        gauge!("controller_runtime_max_concurrent_reconciles", "controller" => name()).set(workers as f64);
        numbers
    }

    /// Counts a worker as busy until the returned guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.active.increment(1.0);
        Busy(&self.active)
    }

    /// Counts the causes of a reconcile that are known: the first and the last.
    pub(crate) fn caused(&self, causes: &Causes) {
        for label in causes.iter().map(|it| it.label()) {
            self.causes.iter().filter(|(it, _)| *it == label).for_each(|(_, it)| it.increment(1));
        }
    }

    /// Records the duration of a reconcile.
    pub(crate) fn took(&self, time: Duration) {
        self.time.record(time);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl std::fmt::Debug for ControllerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerMetrics").finish_non_exhaustive()
    }
}
