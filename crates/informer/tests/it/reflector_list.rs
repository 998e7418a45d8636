//! Lists: which version, which pages, what becomes of errors (rules REF-1 to REF-3), and a collection that is not there.

use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{Cause, Details, Reason, Status};
use dogwatch_informer::{Ended, HealthState, ListEvent, NotFound, ReflectorOptions, Start};

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, Thing, error, list, modified, options, pages, refused, thing,
    unreachable, watch,
};

fn lists_only() -> ReflectorOptions<Thing> {
    options().without_watch_list()
}

fn item(text: &str) -> Step {
    Step::Listed(ListEvent::Item(thing(text)))
}

fn ends(version: &str) -> Step {
    Step::Listed(ListEvent::End { version: version.into(), paginated: false })
}

/// A watch that ends because its version is no longer kept.
fn expiring() -> Answer {
    watch(vec![Step::Pause(SECOND), error(Reason::Expired)])
}

/// The requests of a script once it has run for ten minutes.
async fn asked(answers: Vec<Answer>, options: ReflectorOptions<Thing>) -> Vec<String> {
    let mut run = Run::start(Script::new(answers), options);
    run.after(3 * MINUTE).await;
    run.script.asked()
}

#[tokio::test(start_paused = true)]
async fn ref_1_a_relist_asks_for_the_last_version() {
    let answers = vec![list(&["a@1"], "10"), expiring(), list(&["a@1"], "11"), watch(Vec::new())];
    let expected = ["list \"0\" limit 500", "watch \"10\"", "list \"10\"", "watch \"11\""];
    assert_eq!(asked(answers, lists_only()).await, expected);
}

#[tokio::test(start_paused = true)]
async fn ref_3_a_version_that_expired_is_followed_by_the_newest_at_once() {
    let answers = vec![
        list(&["a@1"], "10"),
        expiring(),
        Answer::Refused(refused(Reason::Expired)),
        list(&["a@1"], "12"),
        expiring(),
        list(&[], "13"),
        watch(Vec::new()),
    ];
    let mut run = Run::start(Script::new(answers), lists_only());
    run.after(MINUTE).await;
    let expected = [
        "list \"0\" limit 500",
        "watch \"10\"",
        "list \"10\"",
        "list \"\" limit 500",
        "watch \"12\"",
        "list \"12\"",
        "watch \"13\"",
    ];
    assert_eq!(run.script.asked(), expected);
    let times = run.script.times();
    assert_eq!(times[2], times[3], "no wait");
}

/// The upstream test FullListIfTooLarge, with its three ways to say so.
#[tokio::test(start_paused = true)]
async fn ref_3_a_version_that_the_server_has_not_reached_is_followed_by_the_newest_at_once() {
    let timeout = |message: &str| Status::failure(Reason::Timeout, message);
    let cause = Cause { reason: "ResourceVersionTooLarge".to_owned(), ..Cause::default() };
    let details = Some(Details { causes: vec![cause], ..Details::default() });
    let too_large = |status: Status| Answer::Refused(status.into());
    let answers = vec![
        list(&[], "20"),
        expiring(),
        too_large(Status { details, ..timeout("Timeout") }),
        list(&[], "30"),
        expiring(),
        too_large(timeout("Too large resource version: 30, current: 20")),
        list(&[], "40"),
        expiring(),
        too_large(timeout("Timeout: Too large resourceVersion")),
        list(&[], "50"),
        watch(Vec::new()),
    ];
    let lists: Vec<_> =
        asked(answers, lists_only()).await.into_iter().filter(|it| it.starts_with("list")).collect();
    let newest = "list \"\" limit 500";
    let expected =
        ["list \"0\" limit 500", "list \"20\"", newest, "list \"30\"", newest, "list \"40\"", newest];
    assert_eq!(lists, expected);
}

#[tokio::test(start_paused = true)]
async fn ref_3_the_newest_that_is_refused_too_is_asked_for_later() {
    let answers = vec![
        list(&[], "10"),
        expiring(),
        Answer::Refused(refused(Reason::Expired)),
        Answer::Refused(refused(Reason::Expired)),
        list(&[], "11"),
    ];
    let mut run = Run::start(Script::new(answers), lists_only());
    run.after(MINUTE).await;
    assert_eq!(run.script.asked()[2..5], ["list \"10\"", "list \"\" limit 500", "list \"\" limit 500"]);
    assert_eq!(run.script.times()[2..5], [1800, 1800, 3400]);
}

#[tokio::test(start_paused = true)]
async fn ref_2_pages_go_on_where_the_server_has_no_cache() {
    let answers = vec![pages(&["a@1"], "10", true), expiring(), pages(&[], "11", true)];
    let asked = asked(answers, lists_only()).await;
    assert_eq!(asked[..3], ["list \"0\" limit 500", "watch \"10\"", "list \"10\" limit 500"]);
}

#[tokio::test(start_paused = true)]
async fn ref_2_a_page_size_that_was_asked_for_is_kept_to() {
    let answers = vec![list(&["a@1"], "10"), expiring(), list(&[], "11")];
    let asked = asked(answers, lists_only().page_size(4)).await;
    assert_eq!(asked[..3], ["list \"0\" limit 4", "watch \"10\"", "list \"10\" limit 4"]);
}

#[tokio::test(start_paused = true)]
async fn ref_1_a_start_at_the_newest_reads_no_cache() {
    let asked = asked(vec![list(&[], "10")], lists_only().start(Start::Newest)).await;
    assert_eq!(asked[0], "list \"\" limit 500");
}

/// The upstream test FullListIfExpired; the pages themselves are followed by the client.
#[tokio::test(start_paused = true)]
async fn pg_1_a_list_that_the_server_forgot_half_way_begins_anew() {
    let steps = vec![item("a@1"), item("b@2"), Step::Listed(ListEvent::Restarted), item("b@3"), ends("4")];
    let mut run = Run::start(Script::new([Answer::Steps(steps)]), lists_only());
    assert_eq!(run.now().await, ["begin", "item a@1", "item b@2", "begin", "item b@3", "end 4"]);
    let steps = vec![Step::Listed(ListEvent::Restarted), item("b@3"), ends("4")];
    let mut run = Run::start(Script::new([Answer::Steps(steps)]), lists_only());
    assert_eq!(run.now().await, ["begin", "item b@3", "end 4"]);
}

#[tokio::test(start_paused = true)]
async fn ref_9_list_errors_are_told_waited_for_and_cost_nothing_that_is_known() {
    let lost = || Step::Fails(unreachable(std::io::ErrorKind::ConnectionReset));
    let half = || Answer::Steps(vec![item("a@1"), lost()]);
    let script = Script::new([
        Answer::Refused(refused(Reason::InternalError)),
        half(),
        half(),
        list(&["a@2"], "3"),
        expiring(),
        Answer::Refused(refused(Reason::InternalError)),
        list(&["a@2"], "4"),
    ]);
    let mut run = Run::start(script, lists_only());
    assert_eq!(run.now().await, [""; 0]);
    assert_eq!(run.health().problem.expect("one").message, "cannot list things: no (InternalError)");
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.health().problem.expect("one").count, 1, "the server began to answer in between");
    assert_eq!(run.after(2 * SECOND).await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.health().problem.expect("one").count, 2, "half a list is no success");
    assert_eq!(run.after(3 * SECOND).await, ["begin", "item a@2", "end 3"]);
    assert_eq!(run.health().problem, None);
    // From now on nothing is said that would take `a` away.
    assert_eq!(run.after(30 * SECOND).await, ["begin", "item a@2", "end 4"]);
    assert_eq!(run.script.times()[..4], [0, 800, 2400, 5600]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stops_before_its_end_is_no_list() {
    let script = Script::new([Answer::Steps(vec![item("a@1"), Step::Close]), list(&["a@1"], "2")]);
    let mut run = Run::start(script, lists_only());
    assert_eq!(run.now().await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2"]);
}

/// kube-rs#1209 and others: a list was held in memory before anybody saw its first object.
#[tokio::test(start_paused = true)]
async fn objects_leave_while_the_list_is_still_read() {
    let script = Script::new([Answer::Steps(vec![item("a@1"), Step::Pause(MINUTE), item("b@2"), ends("3")])]);
    let mut run = Run::start(script, lists_only());
    assert_eq!(run.now().await, ["begin", "item a@1"]);
    assert_eq!(run.health().state, HealthState::Listing { items: 1 });
    assert_eq!(run.after(MINUTE).await, ["item b@2", "end 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_goes_on_is_given_up() {
    let script = Script::new([Answer::Steps(vec![item("a@1")]), list(&["a@1"], "2")]);
    let mut run = Run::start(script, lists_only().stall_after(Some(MINUTE)));
    assert_eq!(run.after(MINUTE).await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2"]);
}

/// stackablectl#370: a server that said when to come back was not listened to.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_to_come_back_is_listened_to() {
    let details = Some(Details { retry_after_seconds: 7, ..Details::default() });
    let busy = || -> Error {
        Status { details: details.clone(), ..Status::failure(Reason::TooManyRequests, "initializing") }.into()
    };
    let script = Script::new([
        Answer::Refused(busy()),
        list(&[], "2"),
        Answer::Refused(busy()),
        watch(vec![modified("a@3")]),
    ]);
    let mut run = Run::start(script, lists_only());
    run.after(20 * SECOND).await;
    assert_eq!(run.script.times(), [0, 7000, 7000, 14_000]);
}

/// Whatever stands before a server may ask for days; a cache must not be out of date for so long because of one answer.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_days_is_asked_again_after_minutes() {
    let details = Some(Details { retry_after_seconds: u32::MAX, ..Details::default() });
    let busy = Status { details, ..Status::failure(Reason::TooManyRequests, "later") };
    let script = Script::new([Answer::Refused(busy.into()), list(&["a@1"], "2")]);
    let mut run = Run::start(script, lists_only());
    assert_eq!(run.after(6 * MINUTE).await, ["begin", "item a@1", "end 2"]);
    assert_eq!(run.script.times()[..2], [0, 300_000]);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_served_ends_the_reflector_with_a_clear_state() {
    let gone = || Answer::Refused(refused(Reason::NotFound));
    let answers = [list(&["a@1"], "2"), expiring()].into_iter().chain((0..9).map(|_| gone()));
    let mut run = Run::start(Script::new(answers), lists_only());
    // What was known is not taken away: a 404 may come from something that only stands before the server.
    assert_eq!(run.after(MINUTE).await, ["begin", "item a@1", "end 2"]);
    assert!(matches!(run.health().state, HealthState::Retrying { .. }));
    assert_eq!(run.after(3 * MINUTE).await, [] as [&str; 0]);
    let health = run.health();
    assert_eq!(health.state, HealthState::Gone);
    let message =
        "cannot list things: no (NotFound); check that the definition of things is installed in the requested version";
    assert_eq!(health.to_string(), format!("gone: {message}"));
    assert_eq!(run.stop_reading().await, Ended::Gone(message.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_served_yet_is_waited_for_when_asked_to() {
    let gone = || Answer::Refused(refused(Reason::NotFound));
    let mut answers: Vec<_> = (0..20).map(|_| gone()).collect();
    answers.push(watch(vec![crate::script::added("a@1"), crate::script::end("2")]));
    let mut run = Run::start(Script::new(answers), options().not_found(NotFound::KeepTrying));
    assert_eq!(run.after(3 * MINUTE).await, ["begin", "item a@1", "end 2"]);
    assert!(run.health().is_ok());
}

#[tokio::test(start_paused = true)]
async fn only_answers_in_a_row_end_the_reflector() {
    let gone = || Answer::Refused(refused(Reason::NotFound));
    let broken = || Answer::Refused(refused(Reason::InternalError));
    let script = Script::new([gone(), broken(), gone(), broken(), gone(), list(&[], "2")]);
    let mut run = Run::start(script, lists_only().not_found(NotFound::GoneAfter(SECOND / 10)));
    assert_eq!(run.after(2 * MINUTE).await, ["begin", "end 2"]);
    let script = Script::new([gone()]);
    let run = Run::start(script, lists_only().not_found(NotFound::GoneAfter(Duration::ZERO)));
    assert!(matches!(run.task.await, Ok(Ended::Gone(_))), "one is enough");
}

/// kube-rs#1743: the version was dropped from a list with a limit, which then went to the server's storage.
#[tokio::test(start_paused = true)]
async fn a_limit_does_not_take_the_version_away() {
    let asked = asked(vec![list(&[], "10")], lists_only().page_size(50)).await;
    assert_eq!(asked[0], "list \"0\" limit 50");
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_what_was_seen_means_that_the_server_went_back_in_time() {
    let script = Script::new([
        list(&["a@9"], "10"),
        expiring(),
        Answer::Refused(refused(Reason::Expired)),
        list(&["a@4"], "5"),
        list(&["a@4"], "5"),
        watch(vec![modified("a@6")]),
    ]);
    let mut run = Run::start(script, lists_only());
    run.now().await;
    assert_eq!(run.after(2 * SECOND).await, ["begin", "item a@4", "abort", "rewound"]);
    let health = run.health();
    assert_eq!((health.rewinds, health.last_version.as_str()), (1, ""));
    let message = "the server's history was reset: it reports things at version 5 after version 10; listing again";
    assert_eq!(health.problem.expect("one").message, message);
    assert_eq!(run.after(Duration::from_secs(4)).await, ["begin", "item a@4", "end 5", "applied a@6"]);
    assert_eq!(run.script.asked()[4..], ["list \"\" limit 500", "watch \"5\""]);
    assert!(run.health().is_ok());
}
