//! The lifecycle of a reflector: stopping, resyncs, full queues, and independence of other
//! reflectors.

use std::sync::Arc;

use dogwatch_core::{ListParams, Reason, ResourceType, WatchParams};
use dogwatch_informer::{Delta, DeltaQueue, ListWatch, Lists, Reflector, ReflectorEnded, Watches};
use futures_core::future::BoxFuture;

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, Thing, added, end, error, list, modified, options, refused,
    shown, things, watch, watch_closed,
};

/// Returns one script for each phase of a reflector.
fn phases() -> [Script; 5] {
    let opening_watch = Script::new([watch_closed(vec![added("a@1"), end("2")]), Answer::Silence]);
    [
        Script::new([Answer::Silence]),
        Script::new([watch(vec![added("a@1")])]),
        Script::new([watch(vec![added("a@1"), end("2")])]),
        Script::new([Answer::Refused(refused(Reason::TooManyRequests))]),
        opening_watch,
    ]
}

/// Ported from client-go: RunUntil, WatchStoppedAfter and StopWatch. Cancelling ends the reflector
/// at once and closes its requests.
#[tokio::test(start_paused = true)]
async fn ref_12_a_dropped_reflector_stops_at_once_in_every_phase() {
    let listing = Script::new([Answer::Refused(refused(Reason::Invalid)), Answer::Silence]);
    for script in phases().into_iter().chain([listing]) {
        let mut run = Run::start(script, options());
        run.now().await;
        let asked = run.script.requests();
        run.task.abort();
        run.after(MINUTE).await;
        assert!(run.task.is_finished());
        assert_eq!(
            (run.script.open(), run.script.requests()),
            (0, asked),
            "the request is closed, and there are no further ones"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn ref_12_dropping_the_receiver_ends_the_reflector_in_every_phase() {
    for script in phases() {
        let mut run = Run::start(script.clone(), options());
        run.now().await;
        let before = tokio::time::Instant::now();
        assert_eq!(run.stop_reading().await, ReflectorEnded::QueueClosed);
        assert_eq!((script.open(), before.elapsed()), (0, std::time::Duration::ZERO), "a wait is cut short");
    }
}

/// Ported from client-go: WatchStoppedBefore.
#[tokio::test(start_paused = true)]
async fn ref_12_a_reflector_whose_receiver_was_dropped_sends_no_request() {
    let (sender, receiver) = DeltaQueue::channel(1);
    let script = Script::new([]);
    let reflector = Reflector::new(Arc::new(script.clone()), options(), sender);
    drop(receiver);
    assert_eq!(reflector.run().await, ReflectorEnded::QueueClosed);
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ref_11_a_resync_comes_at_every_interval_and_never_before_the_initial_list() {
    let events =
        vec![added("a@1"), Step::Pause(25 * SECOND), end("2"), Step::Pause(20 * SECOND), modified("a@3")];
    let mut run = Run::start(Script::new([watch(events)]), options().resync_every(10 * SECOND));
    assert_eq!(run.after(24 * SECOND).await, ["begin", "item a@1"]);
    // Resyncs that were due before the initial list was complete come once, after it.
    assert_eq!(run.after(SECOND).await, ["end 2", "resync"]);
    assert_eq!(run.after(10 * SECOND).await, ["resync"]);
    assert_eq!(run.after(12 * SECOND).await, ["resync", "applied a@3"]);
}

#[tokio::test(start_paused = true)]
async fn ref_11_a_resync_never_comes_inside_a_list_and_does_not_wait_for_the_server() {
    let script = Script::new([
        watch(vec![added("a@1"), end("2"), error(Reason::TooManyRequests)]),
        Answer::Refused(refused(Reason::Expired)),
        watch(vec![added("a@1"), Step::Pause(30 * SECOND), end("3")]),
    ]);
    let options = options().resync_every(std::time::Duration::from_millis(500));
    let mut run = Run::start(script, options);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2", "resync", "resync"]);
    let received = run.after(MINUTE).await;
    let begin = received.iter().position(|it| it == "begin").expect("a list");
    assert_eq!(received[begin..begin + 4], ["begin", "item a@1", "end 3", "resync"]);
}

#[tokio::test(start_paused = true)]
async fn ref_11_without_an_interval_there_is_no_resync() {
    let mut run =
        Run::start(Script::new([watch(vec![end("2")])]), options().resync_every(std::time::Duration::ZERO));
    assert_eq!(run.after(3 * MINUTE).await, ["begin", "end 2"]);
}

/// A slow reader makes the server wait; this is not a silence of the server.
#[tokio::test(start_paused = true)]
async fn rf_4_a_full_queue_stops_reading_and_is_not_a_silence() {
    let (sender, mut receiver) = DeltaQueue::channel(2);
    let events = vec![end("2"), modified("a@3"), modified("a@4"), modified("a@5"), modified("a@6")];
    let script = Script::new([watch(events)]);
    let reflector = Reflector::new(Arc::new(script.clone()), options(), sender);
    let health = reflector.health();
    let task = tokio::spawn(reflector.run());
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!((receiver.depth(), script.requests().len()), (2, 1));
    assert_eq!(health.get().last_version.as_str(), "3", "nothing is read that cannot be delivered");
    let mut received = Vec::new();
    while received.len() < 6 {
        assert!(receiver.recv_batch(&mut received, 1).await);
    }
    let received: Vec<_> = received.iter().map(shown).collect();
    assert_eq!(received, ["begin", "end 2", "applied a@3", "applied a@4", "applied a@5", "applied a@6"]);
    tokio::time::sleep(MINUTE).await;
    assert_eq!((script.requests().len(), health.get().problem), (1, None));
    task.abort();
}

/// In kube-rs, one failing watch pauses all other watches of the stream.
#[tokio::test(start_paused = true)]
async fn ref_9_a_failing_reflector_does_not_slow_down_others() {
    let no = || Answer::Refused(refused(Reason::TooManyRequests));
    let mut failing = Run::start(Script::new((0..20).map(|_| no())), options());
    let steps = (3..30).flat_map(|it| [Step::Pause(SECOND), modified(&format!("a@{it}"))]);
    let mut well = Run::start(Script::new([watch([end("2")].into_iter().chain(steps).collect())]), options());
    assert_eq!(well.after(27 * SECOND).await.len(), 2 + 27);
    failing.now().await;
    assert_eq!(failing.script.times(), [0, 800, 2400, 5600, 12_000, 24_800]);
}

/// A source whose list panics.
struct Panicking(ResourceType);

impl ListWatch<Thing> for Panicking {
    fn resource(&self) -> &ResourceType {
        &self.0
    }

    fn list(&self, _: ListParams) -> Lists<Thing> {
        panic!("an intended panic")
    }

    fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<Thing>, dogwatch_client::Error>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn ref_12_a_panic_of_the_source_propagates_to_the_task_of_the_reflector() {
    let (sender, mut receiver) = DeltaQueue::channel(1);
    let options = options().without_watch_list();
    let task = tokio::spawn(Reflector::new(Arc::new(Panicking(things())), options, sender).run());
    assert!(task.await.expect_err("the reflector panics").is_panic());
    let mut batch: Vec<Delta<Thing>> = Vec::new();
    assert!(!receiver.recv_batch(&mut batch, 1).await, "the queue is closed");
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_a_complete_list() {
    let script = Script::new([list(&[], "1"), watch(Vec::new())]);
    let mut run = Run::start(script, options().without_watch_list());
    assert_eq!(run.now().await, ["begin", "end 1"]);
    assert!(run.health().is_ok());
}
