//! Watches: resuming, waiting, relisting (rules REF-4 to REF-8), silence, and a server whose
//! history was reset.

use std::io::ErrorKind;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::Reason;
use dogwatch_informer::{HealthState, ReflectorOptions};

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, Thing, added, bookmark, deleted, end, error, list, modified,
    options, refused, unreachable, watch, watch_closed,
};

fn lists_only() -> ReflectorOptions<Thing> {
    options().without_watch_list()
}

/// Starts with a list at version 2, followed by these answers to watches.
fn following(watches: impl IntoIterator<Item = Answer>) -> Run {
    let mut answers = vec![list(&["a@1"], "2")];
    answers.extend(watches);
    Run::start(Script::new(answers), lists_only())
}

/// Returns a watch that lasts long enough not to be a short one, sends these events and ends.
fn lasting(mut events: Vec<Step>) -> Answer {
    events.insert(0, Step::Pause(SECOND));
    watch_closed(events)
}

#[tokio::test(start_paused = true)]
async fn ref_7_events_are_delivered_in_order_and_the_version_follows() {
    let events = vec![added("b@3"), modified("a@4"), deleted("b@5"), bookmark("7")];
    let mut run = following([watch(events)]);
    let expected = ["begin", "item a@1", "end 2", "applied b@3", "applied a@4", "deleted b@5", "bookmark 7"];
    assert_eq!(run.now().await, expected);
    assert_eq!(run.health().last_version.as_str(), "7");
}

/// Ported from client-go: ResourceVersionUpdate.
#[tokio::test(start_paused = true)]
async fn ref_8_every_event_advances_the_version_including_bookmarks() {
    let pause = || Step::Pause(SECOND);
    let events =
        vec![added("b@10"), pause(), modified("b@20"), pause(), bookmark("30"), pause(), deleted("b@40")];
    let mut run = following([watch(events)]);
    for (seconds, version) in [(0, "10"), (1, "20"), (1, "30"), (1, "40")] {
        run.after(seconds * SECOND).await;
        assert_eq!(run.health().last_version.as_str(), version);
    }
}

/// Ported from client-go: ListAndWatch. Each watch starts from the last version.
#[tokio::test(start_paused = true)]
async fn ref_6_a_watch_that_ends_is_resumed_at_once_from_the_last_version() {
    let mut run = following([
        lasting(vec![added("b@3")]),
        lasting(vec![bookmark("5")]),
        lasting(Vec::new()),
        watch(vec![modified("b@6")]),
    ]);
    let received = run.after(3 * SECOND).await;
    assert_eq!(received, ["begin", "item a@1", "end 2", "applied b@3", "bookmark 5", "applied b@6"]);
    let expected = ["list \"0\" limit 500", "watch \"2\"", "watch \"3\"", "watch \"5\"", "watch \"5\""];
    assert_eq!(run.script.requests(), expected);
    assert_eq!(run.script.times(), [0, 0, 1000, 2000, 3000]);
    assert_eq!((run.health().relists, run.health().problem), (0, None));
}

#[tokio::test(start_paused = true)]
async fn ref_4_every_watch_requests_bookmarks_and_a_random_timeout() {
    let mut run = following((0..30).map(|_| lasting(Vec::new())));
    run.after(40 * SECOND).await;
    let watches = run.script.watches();
    let timeouts: Vec<_> = watches.iter().filter_map(|it| it.timeout).collect();
    assert_eq!((watches.len(), timeouts.len()), (31, 31));
    assert!(watches.iter().all(|it| it.bookmarks));
    assert!(timeouts.iter().all(|it| (5 * MINUTE..=10 * MINUTE).contains(it)), "{timeouts:?}");
    assert!(timeouts.iter().any(|it| *it != timeouts[0]), "not all are the same");
}

#[tokio::test(start_paused = true)]
async fn ref_8_a_watch_without_a_version_advances_it_only_from_the_first_change_on() {
    let script = Script::new([
        list(&[], ""),
        lasting(vec![added("a@7"), added("b@3")]),
        lasting(vec![added("a@7"), added("b@3"), modified("b@9"), added("c@11")]),
        watch(Vec::new()),
    ]);
    let mut run = Run::start(script, lists_only());
    run.after(MINUTE).await;
    assert_eq!(run.script.requests()[1..], ["watch \"\"", "watch \"\"", "watch \"11\""]);
    assert_eq!(run.health().rewinds, 0, "unordered events are not a reset history");
}

#[tokio::test(start_paused = true)]
async fn ref_5_refused_connections_are_retried_without_a_relist() {
    let no_connection = || Answer::Refused(unreachable(ErrorKind::ConnectionRefused));
    let mut run = following((0..5).map(|_| no_connection()));
    run.after(26 * SECOND).await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\""; 6]);
    assert_eq!(run.script.times()[1..], [0, 800, 2400, 5600, 12_000, 24_800]);
}

/// Ported from client-go: BackoffOnTooManyRequests and NoRelistOnTooManyRequests.
#[tokio::test(start_paused = true)]
async fn ref_5_and_ref_6_too_many_requests_at_the_start_or_in_the_stream_cause_no_relist() {
    let mut run = following([
        Answer::Refused(refused(Reason::TooManyRequests)),
        watch(vec![error(Reason::TooManyRequests)]),
        Answer::Refused(refused(Reason::TooManyRequests)),
        watch(vec![modified("a@3"), error(Reason::TooManyRequests)]),
        watch(Vec::new()),
    ]);
    run.after(MINUTE).await;
    let expected = ["watch \"2\"", "watch \"2\"", "watch \"2\"", "watch \"2\"", "watch \"3\""];
    assert_eq!(run.script.requests()[1..], expected);
    assert_eq!(run.script.times()[1..], [0, 800, 2400, 5600, 12_000]);
}

/// k/k#86483 and others: when a server went down, all clients that watched it listed everything
/// again.
#[tokio::test(start_paused = true)]
async fn after_a_short_outage_watches_are_resumed_without_a_relist() {
    let lost = || Answer::Refused(unreachable(ErrorKind::ConnectionReset));
    let down = || Answer::Refused(refused(Reason::ServiceUnavailable));
    let late = || Answer::Refused(Error::TimedOut(SECOND));
    let who = || Answer::Refused(refused(Reason::Unauthorized));
    let answers = [lost(), down(), late(), who(), lost(), down(), watch(vec![modified("a@3")])];
    let mut run = following(answers);
    run.after(2 * MINUTE).await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\""; 7]);
    assert_eq!(run.health().last_version.as_str(), "3");
}

#[tokio::test(start_paused = true)]
async fn ref_5_other_rejections_lead_to_a_relist_after_several_attempts() {
    let no = || Answer::Refused(refused(Reason::Forbidden));
    let mut run = following([no(), no(), no(), list(&["a@1"], "3"), watch(Vec::new())]);
    run.after(MINUTE).await;
    assert_eq!(run.script.requests()[1..4], ["watch \"2\""; 3]);
    assert_eq!(run.script.requests()[4..], ["list \"2\"", "watch \"3\""]);
}

/// kube-rs#1042: a watch whose version was too old was opened again with the same version, for
/// ever.
#[tokio::test(start_paused = true)]
async fn ref_5_an_expired_version_at_the_start_leads_to_a_relist() {
    let mut run =
        following([Answer::Refused(refused(Reason::Expired)), list(&["a@1"], "5"), watch(Vec::new())]);
    run.after(SECOND).await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\"", "list \"2\"", "watch \"5\""]);
    assert_eq!(run.script.times()[1..], [0, 800, 800]);
}

/// kube-rs#1615: an expired watch was an error that ended the reader's loop.
#[tokio::test(start_paused = true)]
async fn ref_6_an_expired_watch_is_relisted_from_the_last_version_without_an_error_for_the_reader() {
    let mut run = following([watch(vec![modified("a@4"), error(Reason::Expired)]), list(&["a@4"], "6")]);
    let received = run.after(SECOND).await;
    assert_eq!(received, ["begin", "item a@1", "end 2", "applied a@4", "begin", "item a@4", "end 6"]);
    assert_eq!(run.script.requests()[2], "list \"4\"");
    assert!(!run.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn ref_6_an_error_event_closes_the_stream() {
    let mut run = following([watch(vec![error(Reason::Unknown), modified("never@9")])]);
    assert_eq!(run.now().await, ["begin", "item a@1", "end 2"]);
    assert_eq!(run.script.open(), 0);
    assert!(matches!(run.health().state, HealthState::Retrying { .. }));
}

/// Ported from client-go: ReplacesStoreOnUnsafeDelete.
#[tokio::test(start_paused = true)]
async fn ref_6_an_object_that_the_server_cannot_read_leads_to_a_relist_without_it() {
    let mut run = following([watch(vec![error(Reason::StorageReadError)]), list(&["b@1"], "4")]);
    assert_eq!(run.after(SECOND).await[3..], ["begin", "item b@1", "end 4"]);
}

#[tokio::test(start_paused = true)]
async fn ref_6_internal_errors_are_retried_with_a_watch_only_with_the_option() {
    let broken = || watch(vec![Step::Pause(SECOND), error(Reason::InternalError)]);
    let mut run = following([broken(), list(&[], "3")]);
    run.after(3 * SECOND).await;
    assert_eq!(run.script.requests()[1..3], ["watch \"2\"", "list \"2\""]);

    let mut answers = vec![list(&["a@1"], "2")];
    answers.extend((0..40).map(|_| broken()));
    let options = lists_only().internal_error_retry(Duration::from_secs(30));
    let mut run = Run::start(Script::new(answers), options);
    run.after(31 * SECOND + Duration::from_millis(500)).await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\""; 32]);
    run.after(2 * SECOND).await;
    assert_eq!(run.script.requests()[33], "list \"2\"");
}

#[tokio::test(start_paused = true)]
async fn ref_6_immediate_internal_errors_are_retried_with_a_backoff() {
    let broken = || watch(vec![error(Reason::InternalError)]);
    let answers = [list(&["a@1"], "2"), broken(), broken(), watch(Vec::new())];
    let mut run = Run::start(Script::new(answers), lists_only().internal_error_retry(MINUTE));
    run.after(MINUTE).await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\""; 3]);
    assert_eq!(run.script.times()[1..], [0, 800, 2400]);
}

/// client-go lists again after the first one of these, so a proxy that fails briefly makes all its
/// clients list.
#[tokio::test(start_paused = true)]
async fn ref_6_very_short_watches_are_retried_later_and_lead_to_a_relist_after_several() {
    let short = || watch_closed(Vec::new());
    let mut run = following([short(), short(), short(), list(&["a@1"], "3"), watch(Vec::new())]);
    run.after(MINUTE).await;
    assert_eq!(run.script.requests()[1..4], ["watch \"2\""; 3]);
    assert_eq!(run.script.requests()[4..], ["list \"2\"", "watch \"3\""]);
    assert_eq!(run.script.times()[1..], [0, 800, 2400, 5600, 5600]);
}

#[tokio::test(start_paused = true)]
async fn ref_6_watches_that_end_at_once_without_a_new_version_are_short() {
    let again = || watch_closed(vec![bookmark("2")]);
    let mut run = following([again(), again(), watch(Vec::new())]);
    run.after(MINUTE).await;
    assert_eq!(run.script.times()[1..], [0, 800, 2400], "every retry waits");
}

#[tokio::test(start_paused = true)]
async fn ref_6_a_short_watch_with_an_event_is_resumed_at_once() {
    let mut run = following([watch_closed(vec![modified("a@3")]), watch(Vec::new())]);
    run.now().await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\"", "watch \"3\""]);
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_the_watch_is_resumed_from_the_last_version() {
    let torn = || Step::Fails(unreachable(ErrorKind::UnexpectedEof));
    let mut run = following([
        watch(vec![modified("a@3"), torn()]),
        watch(vec![Step::Pause(SECOND), torn()]),
        watch(vec![modified("a@4")]),
    ]);
    assert_eq!(run.after(SECOND).await[3..], ["applied a@3", "applied a@4"]);
    assert_eq!(run.script.requests()[1..], ["watch \"2\"", "watch \"3\"", "watch \"3\""]);
    assert_eq!(run.script.times()[1..], [0, 0, 1000]);
}

#[tokio::test(start_paused = true)]
async fn ref_9_success_alone_does_not_reset_the_backoff() {
    // Each watch brings something and then fails: kube-rs would start with the shortest wait each
    // time.
    let flaky = |version: u32| watch(vec![modified(&format!("a@{version}")), error(Reason::TooManyRequests)]);
    let mut run = following([flaky(3), flaky(4), flaky(5), watch(Vec::new())]);
    run.after(MINUTE).await;
    assert_eq!(run.script.times()[1..], [0, 800, 2400, 5600]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_closed_and_resumed() {
    let mut run = following([watch(vec![modified("a@3")]), watch(vec![modified("a@4")])]);
    run.after(Duration::from_secs(239)).await;
    assert_eq!(run.script.requests().len(), 2);
    assert_eq!(run.after(SECOND).await, ["applied a@4"]);
    assert_eq!(run.script.requests()[2], "watch \"3\"");
    assert_eq!(run.script.open(), 1, "only the new watch");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_end_a_silence_and_a_watch_that_is_never_opened_is_silent() {
    let minute = || Step::Pause(MINUTE);
    let events =
        vec![minute(), bookmark("3"), minute(), bookmark("3"), minute(), bookmark("4"), minute(), minute()];
    let options = lists_only().stall_after(Duration::from_secs(90));
    let script = Script::new([list(&[], "2"), watch(events), Answer::Silence, watch(vec![bookmark("5")])]);
    let mut run = Run::start(script, options);
    run.after(4 * MINUTE).await;
    assert_eq!(run.script.requests().len(), 2);
    run.after(MINUTE).await;
    assert_eq!(run.script.requests()[2], "watch \"4\"");
    assert!(
        run.health().problem.expect("one").message.starts_with("the server sent nothing for things in 90s")
    );
    run.after(2 * MINUTE).await;
    assert_eq!(run.script.requests()[3], "watch \"4\"");
    assert_eq!(run.health().last_version.as_str(), "5");
}

/// k/k#107457: a server restored from a backup waits in silence for a version that is long in its
/// future.
#[tokio::test(start_paused = true)]
async fn a_second_silence_leads_to_a_relist_if_the_server_sends_bookmarks() {
    let first = watch(vec![added("a@9"), end("10")]);
    let too_large =
        dogwatch_core::Status::failure(Reason::Timeout, "Too large resource version: 10, current: 5");
    let script = Script::new([
        first,
        watch(Vec::new()),
        Answer::Refused(too_large.into()),
        watch(vec![added("a@4"), end("5")]),
        watch(vec![added("a@4"), end("5")]),
    ]);
    let mut run = Run::start(script, options());
    let received = run.after(10 * MINUTE).await;
    let expected = [
        "begin", "item a@9", "end 10", "begin", "item a@4", "abort", "rewound", "begin", "item a@4", "end 5",
    ];
    assert_eq!(received, expected);
    let expected = ["initial \"\"", "watch \"10\"", "initial \"10\"", "initial \"\"", "initial \"\""];
    assert_eq!(run.script.requests()[..5], expected);

    // It is not known whether this server sends bookmarks at all.
    let mut run = following([watch(Vec::new()), watch(Vec::new()), watch(Vec::new())]);
    run.after(13 * MINUTE).await;
    assert_eq!(run.script.requests()[1..], ["watch \"2\""; 4]);
}

#[tokio::test(start_paused = true)]
async fn an_event_or_bookmark_with_an_older_version_means_that_the_history_was_reset() {
    for older in [modified("a@5"), bookmark("5"), deleted("a@5"), added("b@5")] {
        let script = Script::new([
            watch(vec![added("a@9"), end("10"), older, modified("never@11")]),
            watch(vec![added("a@5"), end("6"), modified("a@7")]),
        ]);
        let mut run = Run::start(script, options());
        assert_eq!(run.now().await, ["begin", "item a@9", "end 10", "rewound"]);
        assert!(run.health().problem.expect("one").message.contains("history was reset"));
        assert_eq!(run.after(SECOND).await, ["begin", "item a@5", "end 6", "applied a@7"]);
        assert_eq!(run.script.requests(), ["initial \"\"", "initial \"\""]);
        assert_eq!((run.health().rewinds, run.health().problem), (1, None));
    }
}

/// Versions are opaque to clients; one that cannot be compared proves nothing.
#[tokio::test(start_paused = true)]
async fn versions_that_cannot_be_compared_are_never_a_reset() {
    let mut run = following([watch(vec![modified("a@x7"), modified("a@c3"), bookmark("")])]);
    assert_eq!(run.now().await[3..], ["applied a@x7", "applied a@c3", "bookmark "]);
    assert_eq!(run.health().last_version.as_str(), "c3");
}
