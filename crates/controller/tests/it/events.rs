//! Events, on a server and in a sink that the test controls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_client::{Api, Error};
use dogwatch_controller::events::{EventBroadcaster, EventSink, NewEvent};
use dogwatch_core::{ListParams, Reason, Status, WriteParams};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::sync::Semaphore;

use crate::in_process::{config_map, server};

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3600);

/// A sink that keeps events, limited by permits, and fails on demand.
#[derive(Clone)]
struct RecordingSink {
    recorded: Arc<Mutex<Vec<(&'static str, Event)>>>,
    permits: Arc<Semaphore>,
    /// The number of consecutive requests that fail, and their reason.
    failures: Arc<Mutex<(u32, Reason)>>,
}

impl RecordingSink {
    fn new() -> Self {
        let failures = Arc::new(Mutex::new((0, Reason::InternalError)));
        Self { recorded: Arc::default(), permits: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)), failures }
    }

    fn fail(&self, times: u32, reason: Reason) {
        *self.failures.lock().unwrap() = (times, reason);
    }

    fn written(&self) -> Vec<(&'static str, i32)> {
        let recorded = self.recorded.lock().unwrap();
        recorded.iter().map(|(verb, it)| (*verb, it.series.as_ref().map_or(1, |it| it.count))).collect()
    }

    fn take(&self, verb: &'static str, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        let event = event.clone();
        Box::pin(async move {
            let _permit = self.permits.acquire().await.expect("open");
            let mut failures = self.failures.lock().unwrap();
            if failures.0 > 0 {
                failures.0 -= 1;
                return Err(Status::failure(failures.1.clone(), "no").into());
            }
            self.recorded.lock().unwrap().push((verb, event));
            Ok(())
        })
    }
}

impl EventSink for RecordingSink {
    fn create(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        self.take("create", event)
    }

    fn patch_series(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        self.take("patch", event)
    }
}

#[tokio::test]
async fn ev_2_events_of_a_server_become_a_series() {
    let (_server, client) = server().await;
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let object = maps.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    let events = EventBroadcaster::builder(client.clone()).instance("test-1").start();
    let recorder = events.recorder("example.com/tests").expect("a name");
    for number in 0..5 {
        recorder.record(&object, NewEvent::warning("TooRed", "Painting").message(format!("try {number}")));
    }
    recorder.record(&object, NewEvent::normal("Blue", "Painting").related(&object));
    assert!(events.shutdown(SHUTDOWN_TIMEOUT).await);

    let list = Api::<Event>::default_namespaced(client).list(&ListParams::default()).await.expect("listed");
    let mut recorded: Vec<_> = list.items.iter().collect();
    recorded.sort_by_key(|it| it.reason.clone());
    let [blue, red] = recorded.as_slice() else { panic!("{recorded:?}") };
    assert_eq!((blue.type_.as_deref(), blue.series.is_none()), (Some("Normal"), true));
    assert_eq!(red.series.as_ref().map(|it| it.count), Some(5));
    assert_eq!((red.note.as_deref(), red.reporting_instance.as_deref()), (Some("try 0"), Some("test-1")));
    assert_eq!(red.regarding.as_ref().and_then(|it| it.uid.as_ref()), object.metadata.uid.as_ref());
    recorder.record(&object, NewEvent::normal("Late", "Painting"));
}

#[tokio::test(start_paused = true)]
async fn ev_2_a_series_is_patched_at_its_second_occurrence_and_finished_after_six_idle_minutes() {
    let sink = RecordingSink::new();
    let events = EventBroadcaster::over(sink.clone()).start();
    let recorder = events.recorder("tests").expect("a name");
    for _ in 0..7 {
        recorder.record(&config_map("a"), NewEvent::normal("r", "a"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sink.written(), [("create", 1), ("patch", 2)]);
    tokio::time::sleep(Duration::from_secs(7 * 60)).await;
    assert_eq!(sink.written(), [("create", 1), ("patch", 2), ("patch", 7)]);
    recorder.record(&config_map("a"), NewEvent::normal("r", "a"));
    assert!(events.shutdown(SHUTDOWN_TIMEOUT).await);
    assert_eq!(sink.written().last(), Some(&("create", 1)), "a later occurrence is a new event");
}

#[tokio::test(start_paused = true)]
async fn ev_1_a_series_whose_event_is_gone_is_created_and_a_rejected_event_is_dropped() {
    let sink = RecordingSink::new();
    let events = EventBroadcaster::over(sink.clone()).start();
    let recorder = events.recorder("tests").expect("a name");
    recorder.record(&config_map("a"), NewEvent::normal("r", "a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    sink.fail(1, Reason::NotFound);
    recorder.record(&config_map("a"), NewEvent::normal("r", "a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sink.written(), [("create", 1), ("create", 2)]);
    sink.fail(1, Reason::Forbidden);
    recorder.record(&config_map("b"), NewEvent::normal("r", "a"));
    assert!(events.shutdown(SHUTDOWN_TIMEOUT).await);
    assert_eq!(sink.written().len(), 2, "rejected permanently");
}

#[tokio::test(start_paused = true)]
async fn ev_1_transient_failures_are_retried_up_to_twelve_attempts() {
    for (failures, arrives) in [(11, 1), (12, 0)] {
        let sink = RecordingSink::new();
        sink.fail(failures, Reason::InternalError);
        let events = EventBroadcaster::over(sink.clone()).start();
        events.recorder("tests").expect("a name").record(&config_map("a"), NewEvent::normal("r", "a"));
        assert!(events.shutdown(SHUTDOWN_TIMEOUT).await);
        assert_eq!(sink.written().len(), arrives, "{failures} failures");
    }
}

/// Upstream once had a task for every event: three million of them in an event storm.
#[tokio::test(start_paused = true)]
async fn a_storm_fills_a_bounded_buffer_and_the_rest_is_dropped_and_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let sink = RecordingSink::new();
    sink.permits.forget_permits(usize::MAX);
    let events = metrics::with_local_recorder(&recorder, || {
        EventBroadcaster::over(sink.clone()).queue(10).workers(2).start()
    });
    let recorder = events.recorder("tests").expect("a name");
    for number in 0..1_000 {
        recorder.record(&config_map(&format!("a-{number}")), NewEvent::normal("r", "a"));
        tokio::task::yield_now().await;
    }
    sink.permits.add_permits(2);
    assert!(events.shutdown(SHUTDOWN_TIMEOUT).await);
    let dropped: u64 = snapshots
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().labels().any(|it| it.value() == "full"))
        .map(|(.., value)| if let DebugValue::Counter(count) = value { count } else { 0 })
        .sum();
    assert_eq!(sink.written().len() as u64 + dropped, 1_000, "each event is written or counted");
    assert!(sink.written().len() <= 10 + 2 * 65 + 1, "{}", sink.written().len());
}

#[tokio::test(start_paused = true)]
async fn ev_1_many_events_of_one_source_about_one_object_are_limited() {
    let sink = RecordingSink::new();
    let events = EventBroadcaster::over(sink.clone()).start();
    let recorder = events.recorder("tests").expect("a name");
    for number in 0..100 {
        recorder.record(&config_map("a"), NewEvent::normal(format!("r{number}"), "a"));
    }
    recorder.record(&config_map("a"), NewEvent::normal("", "a"));
    assert!(events.shutdown(SHUTDOWN_TIMEOUT).await);
    assert_eq!(sink.written().len(), 25);
}

/// Fails for events about one object, and accepts all others.
#[derive(Clone)]
struct PartlyFailingSink(RecordingSink);

impl EventSink for PartlyFailingSink {
    fn create(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        let bad = event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some("bad");
        match bad {
            true => Box::pin(std::future::ready(Err(Status::failure(Reason::InternalError, "no").into()))),
            false => self.0.create(event),
        }
    }

    fn patch_series(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        self.0.patch_series(event)
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_written_do_not_hold_up_others() {
    let sink = RecordingSink::new();
    let broadcaster = EventBroadcaster::over(PartlyFailingSink(sink.clone())).workers(1).start();
    let recorder = broadcaster.recorder("example.com/tested").expect("a name");
    for number in 0..20 {
        recorder.record(&config_map("bad"), NewEvent::normal(format!("Reason{number}"), "Action"));
    }
    recorder.record(&config_map("good"), NewEvent::normal("Reason", "Action"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(sink.written(), [("create", 1)]);
    assert!(broadcaster.shutdown(SHUTDOWN_TIMEOUT).await, "failing events are given up in the end");
}
