//! The life of a reflector: how it stops, how it resyncs, what a full queue does, and that one does not slow down another.

use std::sync::Arc;

use dogwatch_core::{ListParams, Reason, ResourceType, WatchParams};
use dogwatch_informer::{Delta, DeltaQueue, Ended, ListWatch, Lists, Reflector, Watches};
use futures_core::future::BoxFuture;

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, Thing, added, end, error, list, modified, options, refused,
    shown, things, watch, watch_closed,
};

/// One script for each thing that a reflector can be at.
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

/// The upstream tests RunUntil, WatchStoppedAfter and StopWatch: cancelling ends it at once and closes what is open.
#[tokio::test(start_paused = true)]
async fn ref_12_a_reflector_that_is_dropped_stops_at_once_whatever_it_is_at() {
    let listing = Script::new([Answer::Refused(refused(Reason::Invalid)), Answer::Silence]);
    for script in phases().into_iter().chain([listing]) {
        let mut run = Run::start(script, options());
        run.now().await;
        let asked = run.script.asked();
        run.task.abort();
        run.after(MINUTE).await;
        assert!(run.task.is_finished());
        assert_eq!((run.script.open(), run.script.asked()), (0, asked), "closed, and nothing more asked");
    }
}

#[tokio::test(start_paused = true)]
async fn ref_12_a_queue_that_nobody_reads_any_more_ends_it_whatever_it_is_at() {
    for script in phases() {
        let mut run = Run::start(script.clone(), options());
        run.now().await;
        let before = tokio::time::Instant::now();
        assert_eq!(run.stop_reading().await, Ended::QueueClosed);
        assert_eq!((script.open(), before.elapsed()), (0, std::time::Duration::ZERO), "no wait is sat out");
    }
}

/// The upstream test WatchStoppedBefore.
#[tokio::test(start_paused = true)]
async fn ref_12_a_reflector_that_is_not_wanted_any_more_asks_for_nothing() {
    let (sender, receiver) = DeltaQueue::channel(1);
    let script = Script::new([]);
    let reflector = Reflector::new(Arc::new(script.clone()), options(), sender);
    drop(receiver);
    assert_eq!(reflector.run().await, Ended::QueueClosed);
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ref_11_a_resync_comes_each_time_the_period_has_passed_and_never_before_the_first_state() {
    let events =
        vec![added("a@1"), Step::Pause(25 * SECOND), end("2"), Step::Pause(20 * SECOND), modified("a@3")];
    let mut run = Run::start(Script::new([watch(events)]), options().resync(10 * SECOND));
    assert_eq!(run.after(24 * SECOND).await, ["begin", "item a@1"]);
    // What was due while nothing was known comes once, behind the list.
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
    let options = options().resync(std::time::Duration::from_millis(500));
    let mut run = Run::start(script, options);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2", "resync", "resync"]);
    let told = run.after(MINUTE).await;
    let begin = told.iter().position(|it| it == "begin").expect("a list");
    assert_eq!(told[begin..begin + 4], ["begin", "item a@1", "end 3", "resync"]);
}

#[tokio::test(start_paused = true)]
async fn ref_11_without_a_period_there_is_no_resync() {
    let mut run =
        Run::start(Script::new([watch(vec![end("2")])]), options().resync(std::time::Duration::ZERO));
    assert_eq!(run.after(3 * MINUTE).await, ["begin", "end 2"]);
}

/// A reader that is slow makes the server wait; it is not the server that is silent then.
#[tokio::test(start_paused = true)]
async fn rf_4_a_full_queue_stops_the_reading_and_is_no_silence() {
    let (sender, mut receiver) = DeltaQueue::channel(2);
    let events = vec![end("2"), modified("a@3"), modified("a@4"), modified("a@5"), modified("a@6")];
    let script = Script::new([watch(events)]);
    let reflector = Reflector::new(Arc::new(script.clone()), options(), sender);
    let health = reflector.health();
    let task = tokio::spawn(reflector.run());
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!((receiver.depth(), script.asked().len()), (2, 1));
    assert_eq!(health.get().last_version.as_str(), "3", "nothing is read that cannot be passed on");
    let mut told = Vec::new();
    while told.len() < 6 {
        assert!(receiver.recv_batch(&mut told, 1).await);
    }
    let told: Vec<_> = told.iter().map(shown).collect();
    assert_eq!(told, ["begin", "end 2", "applied a@3", "applied a@4", "applied a@5", "applied a@6"]);
    tokio::time::sleep(MINUTE).await;
    assert_eq!((script.asked().len(), health.get().problem), (1, None));
    task.abort();
}

/// kube-rs: one watch that fails pauses every watch beside it.
#[tokio::test(start_paused = true)]
async fn ref_9_one_that_fails_slows_down_no_other() {
    let no = || Answer::Refused(refused(Reason::TooManyRequests));
    let mut failing = Run::start(Script::new((0..20).map(|_| no())), options());
    let steps = (3..30).flat_map(|it| [Step::Pause(SECOND), modified(&format!("a@{it}"))]);
    let mut well = Run::start(Script::new([watch([end("2")].into_iter().chain(steps).collect())]), options());
    assert_eq!(well.after(27 * SECOND).await.len(), 2 + 27);
    failing.now().await;
    assert_eq!(failing.script.times(), [0, 800, 2400, 5600, 12_000, 24_800]);
}

/// A collection whose list panics.
struct Panicking(ResourceType);

impl ListWatch<Thing> for Panicking {
    fn resource(&self) -> &ResourceType {
        &self.0
    }

    fn list(&self, _: ListParams) -> Lists<Thing> {
        panic!("as the test wants it")
    }

    fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<Thing>, dogwatch_client::Error>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn ref_12_a_panic_of_the_source_reaches_whoever_runs_the_reflector() {
    let (sender, mut receiver) = DeltaQueue::channel(1);
    let options = options().without_watch_list();
    let task = tokio::spawn(Reflector::new(Arc::new(Panicking(things())), options, sender).run());
    assert!(task.await.expect_err("it panics").is_panic());
    let mut batch: Vec<Delta<Thing>> = Vec::new();
    assert!(!receiver.recv_batch(&mut batch, 1).await, "and the queue is closed");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nothing_is_a_list() {
    let script = Script::new([list(&[], "1"), watch(Vec::new())]);
    let mut run = Run::start(script, options().without_watch_list());
    assert_eq!(run.now().await, ["begin", "end 1"]);
    assert!(run.health().is_ok());
}
