//! Rule WM-1: the metrics of a named queue.

use std::collections::HashMap;
use std::time::Duration;

use dogwatch_workqueue::{AddOptions, WorkQueue};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::advance;

const US: Duration = Duration::from_micros(1);

/// A queue named `pods`, and a reader of its metrics.
struct Measured {
    queue: WorkQueue<&'static str>,
    snapshotter: Snapshotter,
}

impl Measured {
    fn new() -> Self {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let queue = metrics::with_local_recorder(&recorder, || WorkQueue::builder().name("pods").build());
        Self { queue, snapshotter }
    }

    /// Returns the changes of `workqueue_METRIC` since the last reading, which resets everything to
    /// zero.
    fn read<const N: usize>(&self, metrics: [&str; N]) -> [Vec<f64>; N] {
        let snapshot = self.snapshotter.snapshot().into_vec();
        metrics.map(|metric| {
            let name = format!("workqueue_{metric}");
            let found = snapshot.iter().find(|(key, ..)| key.key().name() == name);
            let (key, _, _, value) = found.unwrap_or_else(|| panic!("there is no {name}"));
            let labels: Vec<_> = key.key().labels().map(|it| (it.key(), it.value())).collect();
            match metric {
                "depth" => assert_eq!(labels, [("name", "pods"), ("priority", "0")]),
                _ => assert_eq!(labels, [("name", "pods")]),
            }
            match value {
                DebugValue::Counter(it) => vec![*it as f64],
                DebugValue::Gauge(it) => vec![it.0],
                DebugValue::Histogram(all) => all.iter().map(|it| it.0).collect(),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn wm_1_adds_depth_and_durations_are_measured() {
    let measured = Measured::new();
    let queue = &measured.queue;
    queue.add("foo");
    assert_eq!(measured.read(["adds_total", "depth"]), [[1.0], [1.0]]);
    advance(50 * US).await;

    let item = queue.take().await.unwrap();
    let [depth, waited] = measured.read(["depth", "queue_duration_seconds"]);
    assert_eq!((depth, waited), (vec![-1.0], vec![50e-6]));

    // Added while it is held: outstanding from now on.
    queue.add("foo");
    queue.add("foo");
    assert_eq!(measured.read(["adds_total", "depth"]), [[1.0], [1.0]]);
    advance(25 * US).await;
    drop(item);
    let [depth, worked] = measured.read(["depth", "work_duration_seconds"]);
    assert_eq!((depth, worked), (vec![0.0], vec![25e-6]));

    advance(10 * US).await;
    let item = queue.take().await.unwrap();
    let [depth, waited] = measured.read(["depth", "queue_duration_seconds"]);
    assert_eq!((depth, waited), (vec![-1.0], vec![35e-6]));
    drop(item);
}

#[tokio::test(start_paused = true)]
async fn wm_1_a_delayed_key_waits_from_the_time_it_was_due() {
    let measured = Measured::new();
    measured.queue.add_after("foo", Duration::from_secs(5));
    assert_eq!(measured.read(["adds_total", "depth", "retries_total"]), [[0.0], [0.0], [1.0]]);
    advance(Duration::from_secs(8)).await;
    drop(measured.queue.take().await.unwrap());
    let [adds, waited] = measured.read(["adds_total", "queue_duration_seconds"]);
    assert_eq!((adds, waited), (vec![1.0], vec![3.0]));
}

/// As in controller-runtime: one depth for each priority, and after 25 of them one for all others.
#[test]
fn wm_1_the_depth_is_reported_by_priority() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let queue = WorkQueue::builder().name("pods").build();
        for key in 0..30 {
            queue.add_with(key, AddOptions { priority: -key, ..AddOptions::default() });
        }
        queue.add_with(29, AddOptions { priority: -1, ..AddOptions::default() });
        drop(queue.try_take());
    });
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let depths: HashMap<_, _> = snapshot
        .iter()
        .filter(|(key, ..)| key.key().name() == "workqueue_depth")
        .map(|(key, _, _, value)| {
            let DebugValue::Gauge(value) = value else { panic!("{value:?} is not a gauge") };
            let priority = key.key().labels().find(|it| it.key() == "priority").unwrap();
            (priority.value(), value.0)
        })
        .collect();
    assert_eq!(depths.len(), 26);
    assert_eq!((depths["0"], depths["-1"], depths["-24"]), (0.0, 2.0, 1.0));
    assert_eq!(depths["exceeded_cardinality_limit"], 4.0);
}

#[tokio::test(start_paused = true)]
async fn wm_1_retries_are_counted() {
    let measured = Measured::new();
    let queue = &measured.queue;
    queue.add("foo");
    queue.add_rate_limited("foo");
    queue.add_after("foo", Duration::ZERO);
    queue.add_after("foo", Duration::from_secs(1));
    assert_eq!(measured.read(["retries_total"]), [[3.0]]);
}

#[tokio::test(start_paused = true)]
async fn wm_1_unfinished_work_is_reported_while_the_metrics_are_kept_fresh() {
    let measured = Measured::new();
    let queue = &measured.queue;
    let fresh = tokio::spawn(queue.keep_metrics_fresh());
    tokio::task::yield_now().await;
    queue.add("one");
    queue.add("two");
    let first = queue.take().await.unwrap();
    advance(Duration::from_millis(100)).await;
    let second = queue.take().await.unwrap();
    tokio::time::sleep(Duration::from_millis(401)).await;
    let gauges = ["unfinished_work_seconds", "longest_running_processor_seconds"];
    assert_eq!(measured.read(gauges), [[0.9], [0.5]]);
    drop(first);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(measured.read(gauges), [[0.9], [0.9]]);

    queue.shut_down();
    fresh.await.unwrap();
    drop(second);
    queue.refresh_metrics();
    assert_eq!(measured.read(gauges), [[0.0], [0.0]], "no updates after the shutdown");
}

#[tokio::test(start_paused = true)]
async fn wm_1_keeping_metrics_fresh_does_not_keep_the_queue_alive() {
    let Measured { queue, .. } = Measured::new();
    let fresh = tokio::spawn(queue.keep_metrics_fresh());
    tokio::task::yield_now().await;
    drop(queue);
    fresh.await.unwrap();
}

#[test]
fn wm_1_a_queue_without_a_name_has_no_metrics() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let queue = WorkQueue::new();
        queue.add(1);
        drop(queue.try_take());
        queue.add_rate_limited(1);
        queue.refresh_metrics();
    });
    assert!(recorder.snapshotter().snapshot().into_vec().is_empty());
}
