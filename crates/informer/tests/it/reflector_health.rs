//! The health of a reflector: as a message, as a state to wait for, and in metrics.

use std::io::ErrorKind;
use std::time::Duration;

use dogwatch_core::Reason;
use dogwatch_informer::{DeltaQueue, HealthState, Reflector};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, added, end, error, list, modified, options, refused,
    unreachable, watch, watch_closed,
};

/// controller-runtime#1222 and kube-rs: a watch that is not permitted hangs silently.
#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_reported() {
    let no = || Answer::Refused(refused(Reason::Forbidden));
    let mut run = Run::start(Script::new([no(), no()]), options());
    run.now().await;
    let health = run.health();
    assert_eq!(
        health.to_string(),
        "retrying after a failure: cannot list things: no (Forbidden); grant the verbs list and watch on things, or leave things out"
    );
    assert!(!health.synced);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_reported_with_its_address_and_since_when() {
    let no_connection = || Answer::Refused(unreachable(ErrorKind::ConnectionRefused));
    let mut run =
        Run::start(Script::new([no_connection(), no_connection(), watch(vec![end("2")])]), options());
    let started = tokio::time::Instant::now();
    run.after(SECOND).await;
    let health = run.health();
    let problem = health.problem.clone().expect("one");
    assert_eq!(
        problem.message,
        "cannot watch things: cannot reach the API server at https://server.test: connection refused; check that the server is running and that the address is correct"
    );
    assert_eq!(problem.count, 2);
    let HealthState::Retrying { since, attempts: 2, next } = health.state else { panic!("{health:?}") };
    assert_eq!((since - started, problem.since), (Duration::ZERO, since));
    assert_eq!((next - started).as_millis(), 2400);
    run.after(2 * SECOND).await;
    assert!(run.health().is_ok(), "{}", run.health());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_an_open_watch_resolves_the_problem() {
    let no_connection = || Answer::Refused(unreachable(ErrorKind::ConnectionRefused));
    let script = Script::new([watch_closed(vec![end("2")]), no_connection(), watch(Vec::new())]);
    let mut run = Run::start(script, options());
    run.now().await;
    assert!(!run.health().is_ok() && run.health().synced);
    run.after(SECOND).await;
    assert!(run.health().is_ok(), "no event is needed to know that the server is back");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_a_problem_until_an_event_arrives() {
    let short = || watch_closed(Vec::new());
    let quiet = watch(vec![Step::Pause(MINUTE), modified("a@3")]);
    let script = Script::new([watch_closed(vec![end("2")]), short(), short(), quiet]);
    let mut run = Run::start(script, options());
    run.after(SECOND).await;
    let problem = run.health().problem.expect("one");
    assert_eq!(problem.message, "the server or a proxy closes watches of things as soon as they are opened");
    assert_eq!(problem.count, 2, "an open watch without events is not a success");
    run.after(2 * MINUTE).await;
    assert!(run.health().is_ok());
}

#[tokio::test(start_paused = true)]
async fn progress_reports_the_number_of_objects_so_far() {
    let steps = (1..=3).flat_map(|it| [added(&format!("a{it}@{it}")), Step::Pause(SECOND)]).collect();
    let mut run = Run::start(Script::new([watch(steps)]), options());
    for items in 1..=3 {
        run.now().await;
        assert_eq!(run.health().state, HealthState::Listing { items });
        assert_eq!(run.health().to_string(), format!("listing, {items} objects so far"));
        run.after(SECOND - Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_known_state_is_kept_through_every_failure() {
    let script = Script::new([
        watch(vec![added("a@1"), end("2"), error(Reason::Expired)]),
        Answer::Refused(refused(Reason::InternalError)),
        Answer::Refused(refused(Reason::InternalError)),
    ]);
    let mut run = Run::start(script, options());
    run.after(SECOND).await;
    let health = run.health();
    assert!(health.synced && health.last_event_at.is_some());
    assert_eq!(health.last_version.as_str(), "2");
    assert!(matches!(health.state, HealthState::Retrying { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_sync_is_woken_by_it() {
    let (sender, _receiver) = DeltaQueue::channel(10);
    let script = Script::new([watch(vec![added("a@1"), Step::Pause(MINUTE), end("2")])]);
    let reflector = Reflector::new(std::sync::Arc::new(script), options(), sender);
    let mut health = reflector.health();
    assert_eq!(health.get().state, HealthState::Starting);
    let task = tokio::spawn(reflector.run());
    let synced = health.wait_for(|it| it.synced).await.expect("the reflector runs");
    assert_eq!(synced.last_version.as_str(), "2");
    task.abort();
    assert!(task.await.is_err());
    assert_eq!(
        health.wait_for(|it| it.decode_failures > 0).await,
        None,
        "the end wakes the waiting task too"
    );
    assert!(health.get().synced, "the last health stays readable");
}

/// The names and labels of client-go's reflector metrics.
#[test]
fn the_metrics_have_the_names_of_client_go() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let script = Script::new([
                list(&["a@1", "b@1"], "2"),
                watch_closed(vec![Step::Pause(2 * SECOND), modified("a@3")]),
                watch_closed(Vec::new()),
                watch(Vec::new()),
            ]);
            let mut run = Run::start(script, options().without_watch_list().name("mine"));
            run.after(MINUTE).await;
        });
    });
    let mut lines: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let (_, key) = key.into_parts();
            let labels: Vec<_> = key.labels().map(|it| format!("{}={}", it.key(), it.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count.to_string(),
                DebugValue::Gauge(value) => value.to_string(),
                DebugValue::Histogram(values) => {
                    format!("{:?}", values.iter().map(|it| it.0.round()).collect::<Vec<_>>())
                }
            };
            format!("{}{{{}}} {value}", key.name(), labels.join(","))
        })
        .collect();
    lines.sort();
    let labels = "{name=mine,resource=things}";
    let expected = [
        format!("reflector_items_per_list{labels} [2.0]"),
        format!("reflector_items_per_watch{labels} [1.0, 0.0]"),
        format!("reflector_last_resource_version{labels} 3"),
        format!("reflector_list_duration_seconds{labels} [0.0]"),
        format!("reflector_lists_total{labels} 1"),
        format!("reflector_short_watches_total{labels} 1"),
        format!("reflector_undecodable_total{labels} 0"),
        format!("reflector_watch_duration_seconds{labels} [2.0, 0.0]"),
        format!("reflector_watches_total{labels} 3"),
    ];
    assert_eq!(lines, expected);
}
