//! The initial state by a watch that streams it (WatchList, rule REF-10): the scenarios of
//! client-go's reflector_watchlist_test.go.

use dogwatch_core::Reason;
use dogwatch_informer::{HealthState, Start};
use dogwatch_wire::EventKind;

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, added, annotated, bad, bookmark, deleted, end, error, list,
    modified, options, refused, unreachable, watch, watch_closed,
};

/// Returns a watch that streams `a` at version 1 as the whole initial state.
fn one_thing() -> Answer {
    watch(vec![added("a@1"), end("2")])
}

#[tokio::test(start_paused = true)]
async fn ref_10_without_the_bookmark_nothing_is_synced() {
    let mut run = Run::start(Script::new([watch(vec![added("a@1")])]), options());
    assert_eq!(run.now().await, ["begin", "item a@1"]);
    assert_eq!(run.script.requests(), ["initial \"\""]);
    let health = run.health();
    assert!(!health.synced && health.last_version.is_unset());
    assert_eq!(health.state, HealthState::Listing { items: 1 });
}

#[tokio::test(start_paused = true)]
async fn ref_10_the_bookmark_ends_the_list_and_the_same_watch_continues() {
    let events = vec![added("a@1"), added("b@3"), end("5"), modified("a@6"), bookmark("8"), deleted("b@9")];
    let mut run = Run::start(Script::new([watch(events)]), options());
    let expected = ["begin", "item a@1", "item b@3", "end 5", "applied a@6", "bookmark 8", "deleted b@9"];
    assert_eq!(run.now().await, expected);
    assert_eq!(run.script.requests(), ["initial \"\""]);
    assert!(run.health().is_ok());
    assert_eq!(run.health().last_version.as_str(), "9");
}

#[tokio::test(start_paused = true)]
async fn ref_10_changes_and_deletions_before_the_bookmark_are_applied() {
    let events = vec![added("a@1"), added("b@2"), modified("a@3"), deleted("b@4"), added("c@5"), end("5")];
    let mut run = Run::start(Script::new([watch(events)]), options());
    let expected = ["begin", "item a@1", "item b@2", "item a@3", "dropped b", "item c@5", "end 5"];
    assert_eq!(run.now().await, expected);
}

#[tokio::test(start_paused = true)]
async fn ref_10_a_bookmark_annotated_false_is_an_ordinary_one() {
    let mut run = Run::start(Script::new([watch(vec![added("a@1"), annotated("2", "false")])]), options());
    assert_eq!(run.now().await, ["begin", "item a@1"]);
    assert!(!run.health().synced);
}

#[tokio::test(start_paused = true)]
async fn ref_10_initial_events_are_requested_unless_disabled_or_unsupported() {
    for (wanted, lacking, expected) in
        [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
    {
        let answers = if expected { vec![one_thing()] } else { vec![list(&["a@1"], "2"), watch(Vec::new())] };
        let script = Script::new(answers);
        let script = if lacking { script.lacking_initial_events() } else { script };
        let options = if wanted { options() } else { options().without_watch_list() };
        let mut run = Run::start(script, options);
        assert_eq!(run.now().await, ["begin", "item a@1", "end 2"]);
        let asked: &[&str] =
            if expected { &["initial \"\""] } else { &["list \"0\" limit 500", "watch \"2\""] };
        assert_eq!(run.script.requests(), asked, "wanted {wanted}, lacking {lacking}");
    }
}

#[tokio::test(start_paused = true)]
async fn ref_1_the_version_is_that_of_the_bookmark_and_unset_before_it() {
    let events = vec![added("a@7"), Step::Pause(SECOND), end("9")];
    let mut run = Run::start(Script::new([watch(events)]), options());
    run.now().await;
    assert!(run.health().last_version.is_unset());
    run.after(SECOND).await;
    assert_eq!(run.health().last_version.as_str(), "9");
}

#[tokio::test(start_paused = true)]
async fn ref_1_a_cached_start_accepts_any_version() {
    let mut run = Run::start(Script::new([one_thing()]), options().start(Start::Cached));
    run.now().await;
    assert_eq!(run.script.requests(), ["initial \"0\""]);
}

#[tokio::test(start_paused = true)]
async fn ref_10_a_server_that_rejects_initial_events_is_listed_and_tried_again_next_time() {
    let malformed =
        dogwatch_client::Error::Malformed { request: "GET /things".to_owned(), problem: "no".to_owned() };
    for why in
        [malformed, refused(Reason::Invalid), refused(Reason::Forbidden), refused(Reason::InternalError)]
    {
        let script = Script::new([
            Answer::Refused(why),
            list(&["a@1"], "2"),
            watch(vec![error(Reason::Expired)]),
            one_thing(),
        ]);
        let mut run = Run::start(script, options());
        assert_eq!(run.now().await, ["begin", "item a@1", "end 2"]);
        assert_eq!(run.script.requests(), ["initial \"\"", "list \"0\" limit 500", "watch \"2\""]);
        assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2"]);
        assert_eq!(run.script.requests()[3], "initial \"2\"");
    }
}

#[tokio::test(start_paused = true)]
async fn ref_10_an_error_in_the_stream_is_handled_like_one_at_its_start() {
    let script = Script::new([watch(vec![added("a@1"), error(Reason::InternalError)]), list(&["a@1"], "2")]);
    let mut run = Run::start(script, options());
    assert_eq!(run.now().await, ["begin", "item a@1", "abort", "begin", "item a@1", "end 2"]);
    let script = Script::new([watch(vec![added("a@1"), error(Reason::TooManyRequests)]), one_thing()]);
    let mut run = Run::start(script, options());
    assert_eq!(run.now().await, ["begin", "item a@1", "abort"]);
    run.after(SECOND).await;
    assert_eq!(run.script.requests(), ["initial \"\"", "initial \"\""]);
}

#[tokio::test(start_paused = true)]
async fn ref_10_a_busy_server_and_a_refused_connection_are_retried_after_a_backoff() {
    let busy = || Answer::Refused(refused(Reason::TooManyRequests));
    let no_connection = || Answer::Refused(unreachable(std::io::ErrorKind::ConnectionRefused));
    for answers in [[busy(), busy(), one_thing()], [no_connection(), no_connection(), one_thing()]] {
        let mut run = Run::start(Script::new(answers), options());
        assert_eq!(run.after(3 * SECOND).await, ["begin", "item a@1", "end 2"]);
        assert_eq!(run.script.requests(), ["initial \"\""; 3]);
        assert_eq!(run.script.times(), [0, 800, 2400]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_10_a_stream_that_ends_before_the_bookmark_is_restarted() {
    let script = Script::new([watch_closed(vec![added("a@1")]), one_thing()]);
    let mut run = Run::start(script, options());
    assert_eq!(run.now().await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2"]);
    assert_eq!(run.script.requests(), ["initial \"\"", "initial \"\""]);
}

/// client-go restarts such a stream at once, for ever, if it lasted for more than a second.
#[tokio::test(start_paused = true)]
async fn ref_10_a_stream_that_ends_repeatedly_is_retried_with_a_backoff_and_then_listed() {
    let short = || watch_closed(vec![added("a@1"), Step::Pause(2 * SECOND)]);
    let script = Script::new([short(), short(), short(), list(&["a@1"], "2"), watch(Vec::new())]);
    let mut run = Run::start(script, options());
    run.after(20 * SECOND).await;
    let expected = ["initial \"\"", "initial \"\"", "initial \"\"", "list \"0\" limit 500", "watch \"2\""];
    assert_eq!(run.script.requests(), expected);
    assert_eq!(run.script.times(), [0, 2800, 6400, 8400, 8400]);
    assert!(run.health().synced);
}

#[tokio::test(start_paused = true)]
async fn ref_10_a_lost_connection_is_retried_and_listed_only_after_several_attempts() {
    let lost = || Answer::Refused(unreachable(std::io::ErrorKind::ConnectionReset));
    let script = Script::new([lost(), lost(), lost(), list(&["a@1"], "2")]);
    let mut run = Run::start(script, options());
    run.after(3 * SECOND).await;
    assert_eq!(run.script.requests()[..3], ["initial \"\""; 3]);
    assert_eq!(run.script.requests()[3], "list \"0\" limit 500");
}

#[tokio::test(start_paused = true)]
async fn ref_10_after_the_sync_an_ended_stream_is_resumed_by_a_plain_watch() {
    let script = Script::new([watch_closed(vec![added("a@1"), end("3")]), watch(vec![modified("a@4")])]);
    let mut run = Run::start(script, options());
    assert_eq!(run.now().await, ["begin", "item a@1", "end 3", "applied a@4"]);
    assert_eq!(run.script.requests(), ["initial \"\"", "watch \"3\""]);
}

#[tokio::test(start_paused = true)]
async fn ref_10_an_expired_resumed_watch_leads_to_a_new_sync_from_the_last_version() {
    let script = Script::new([
        watch_closed(vec![added("a@1"), end("3")]),
        Answer::Refused(refused(Reason::Expired)),
        watch(vec![added("a@4"), end("5")]),
    ]);
    let mut run = Run::start(script, options());
    run.after(SECOND).await;
    assert_eq!(run.script.requests(), ["initial \"\"", "watch \"3\"", "initial \"3\""]);
    assert_eq!(run.script.times(), [0, 0, 800]);
    assert_eq!(run.health().relists, 1);
}

#[tokio::test(start_paused = true)]
async fn ref_10_an_expired_version_is_given_up_at_once_and_only_once() {
    let script = Script::new([
        watch(vec![added("a@1"), end("3"), error(Reason::Expired)]),
        Answer::Refused(refused(Reason::Expired)),
        Answer::Refused(refused(Reason::Expired)),
        watch(vec![added("a@4"), end("5"), error(Reason::Expired)]),
        one_thing(),
    ]);
    let mut run = Run::start(script, options());
    run.after(3 * SECOND).await;
    let asked = run.script.requests();
    assert_eq!(asked[..4], ["initial \"\"", "initial \"3\"", "initial \"\"", "initial \"\""]);
    assert_eq!(run.script.times()[..4], [0, 800, 800, 2400]);
    run.after(10 * SECOND).await;
    assert_eq!(
        run.script.requests()[4],
        "initial \"5\"",
        "success clears the mark that the version was unavailable"
    );
}

/// Ported from client-go: InitialEventsEndBookmarkTicker, as a problem in the health instead of a
/// log line.
#[tokio::test(start_paused = true)]
async fn ref_10_a_pause_before_the_bookmark_is_reported_every_ten_seconds_until_an_event() {
    let events = vec![added("a@1"), Step::Pause(25 * SECOND), added("b@2"), Step::Pause(SECOND), end("3")];
    let mut run = Run::start(Script::new([watch(events)]), options());
    let problem = |run: &Run| run.health().problem.map(|it| it.message);
    run.after(9 * SECOND).await;
    assert_eq!(problem(&run), None);
    run.after(2 * SECOND).await;
    let received =
        "the server sent nothing for things in 10s, after 1 objects and before the end of the list";
    assert_eq!(problem(&run).as_deref(), Some(received));
    run.after(10 * SECOND).await;
    assert_eq!(problem(&run), Some(received.replace("10s", "20s")));
    run.after(5 * SECOND).await;
    assert_eq!(problem(&run), None, "an event arrived");
    run.after(SECOND).await;
    assert!(run.health().is_ok());
}

#[tokio::test(start_paused = true)]
async fn ref_10_stalled_initial_events_are_given_up() {
    let script = Script::new([watch(vec![added("a@1")]), Answer::Silence, one_thing()]);
    let mut run = Run::start(script, options().stall_after(Some(MINUTE)));
    assert_eq!(run.after(MINUTE).await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.after(2 * MINUTE).await, ["begin", "item a@1", "end 2"]);
    assert_eq!(run.script.requests().len(), 3);
    assert_eq!(run.script.open(), 1, "the abandoned requests are closed");
}

/// kube-rs#1844: readers saw a difference between a streamed and a listed initial state.
#[tokio::test(start_paused = true)]
async fn a_streamed_and_a_listed_state_give_the_same_deltas() {
    let streamed = Script::new([watch(vec![added("a@1"), added("b@2"), end("3"), modified("a@4")])]);
    let listed = Script::new([list(&["a@1", "b@2"], "3"), watch(vec![modified("a@4")])]);
    let mut streamed = Run::start(streamed, options());
    let mut listed = Run::start(listed, options().without_watch_list());
    assert_eq!(streamed.now().await, listed.now().await);
}

#[tokio::test(start_paused = true)]
async fn undecodable_objects_are_named_at_the_end_of_the_initial_events() {
    let undecodable = |text, kind| Step::Fails(bad(text, Some(kind)).into());
    let events = vec![
        undecodable("a@1", EventKind::Added),
        undecodable("b@2", EventKind::Added),
        added("c@3"),
        undecodable("d@4", EventKind::Added),
        modified("b@5"),
        undecodable("d@6", EventKind::Deleted),
        end("6"),
    ];
    let mut run = Run::start(Script::new([watch(events)]), options());
    let expected = ["begin", "item c@3", "item b@5", "dropped d", "end 6 but for a"];
    assert_eq!(run.now().await, expected);
    assert_eq!(run.health().decode_failures, 4);
}
