//! The metrics of a controller, under controller-runtime's names.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_controller::{Action, BoxError, Context, Controller, Terminal};
use dogwatch_core::ObjectKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::test_cluster::{Running, SECOND, TestCluster};

/// The metrics of the controller and of its queue so far, as `name{result}`; a histogram is
/// represented by the count of its values.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    /// Adds the changes since the last snapshot, since each snapshot begins at zero.
    fn look(&mut self, snapshotter: &Snapshotter) {
        for (name, value) in numbers(snapshotter) {
            *self.0.entry(name).or_default() += value;
        }
    }

    fn of(&self, name: &str) -> f64 {
        self.0[&format!("controller_runtime_{name}")]
    }
}

fn numbers(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let mut recorded = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let labels: BTreeMap<_, _> = key.labels().map(|it| (it.key(), it.value())).collect();
        let named = labels.get("controller").or_else(|| labels.get("name"));
        if named != Some(&"tested") {
            continue;
        }
        let result = labels.get("result").map(|it| format!("{{{it}}}")).unwrap_or_default();
        let value = match value {
            DebugValue::Counter(it) => it as f64,
            DebugValue::Gauge(it) => it.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        recorded.insert(format!("{}{result}", key.name()), value);
    }
    recorded
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_counted_under_the_names_of_controller_runtime() {
    let cluster = TestCluster::with(&["done", "error", "later", "panic", "slow", "terminal"]).await;
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let maps = cluster.informer();
    let builder = Controller::of(&maps).named("tested").workers(2).reconcile_timeout(SECOND);
    let controller = metrics::with_local_recorder(&recorder, || {
        builder.build(|key: ObjectKey, context: Context| async move {
            match (key.name(), context.attempt()) {
                ("error", 0) => Err(BoxError::from("busy")),
                ("terminal", _) => Err(Terminal::new("never").into()),
                ("panic", 0) => panic!("once"),
                ("slow", 0) => std::future::pending().await,
                ("later", _) => Ok(Action::RequeueAfter(100 * SECOND)),
                _ => Ok(Action::Done),
            }
        })
    });
    let mut numbers = Numbers::default();
    numbers.look(&snapshotter);
    for name in ["reconcile_errors_total", "reconcile_panics_total", "reconcile_total{success}"] {
        assert_eq!(numbers.of(name), 0.0, "{name} exists from the start");
    }
    assert_eq!(numbers.of("max_concurrent_reconciles"), 2.0);
    let running = Running::new(controller);
    tokio::time::sleep(SECOND / 2).await;
    numbers.look(&snapshotter);
    assert_eq!(numbers.of("active_workers"), 1.0, "one worker is busy with the slow key");
    tokio::time::sleep(Duration::from_secs(5)).await;
    running.stop().await.expect("clean shutdown");
    numbers.look(&snapshotter);
    for (name, count) in [
        ("reconcile_total{success}", 4.0),
        ("reconcile_total{requeue_after}", 1.0),
        ("reconcile_total{error}", 4.0),
        ("reconcile_errors_total", 4.0),
        ("terminal_reconcile_errors_total", 1.0),
        ("reconcile_panics_total", 1.0),
        ("reconcile_timeouts_total", 1.0),
        ("reconcile_time_seconds", 9.0),
        ("active_workers", 0.0),
    ] {
        assert_eq!(numbers.of(name), count, "{name}");
    }
    assert!(numbers.0["workqueue_adds_total"] >= 6.0, "the queue has the controller's name");
    assert_eq!(numbers.0["dogwatch_controller_stale_reads_avoided_total"], 0.0);
}
