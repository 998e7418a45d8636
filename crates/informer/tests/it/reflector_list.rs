//! Lists: versions, pages and errors (rules REF-1 to REF-3), and a collection that does not exist.

use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{Cause, Details, Reason, Status};
use dogwatch_informer::{HealthState, ListEvent, NotFound, ReflectorEnded, ReflectorOptions, Start};

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

/// Returns a watch that ends because its version has expired.
fn expiring() -> Answer {
    watch(vec![Step::Pause(SECOND), error(Reason::Expired)])
}

/// Returns the requests of a script after three minutes.
async fn requests(answers: Vec<Answer>, options: ReflectorOptions<Thing>) -> Vec<String> {
    let mut run = Run::start(Script::new(answers), options);
    run.after(3 * MINUTE).await;
    run.script.requests()
}

#[tokio::test(start_paused = true)]
async fn ref_1_a_relist_requests_the_last_version() {
    let answers = vec![list(&["a@1"], "10"), expiring(), list(&["a@1"], "11"), watch(Vec::new())];
    let expected = ["list \"0\" limit 500", "watch \"10\"", "list \"10\"", "watch \"11\""];
    assert_eq!(requests(answers, lists_only()).await, expected);
}

#[tokio::test(start_paused = true)]
async fn ref_3_after_an_expired_version_the_newest_is_requested_at_once() {
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
    assert_eq!(run.script.requests(), expected);
    let times = run.script.times();
    assert_eq!(times[2], times[3], "no wait");
}

/// Ported from client-go: FullListIfTooLarge, with its three forms of the error.
#[tokio::test(start_paused = true)]
async fn ref_3_after_a_version_that_is_too_large_the_newest_is_requested_at_once() {
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
        requests(answers, lists_only()).await.into_iter().filter(|it| it.starts_with("list")).collect();
    let newest = "list \"\" limit 500";
    let expected =
        ["list \"0\" limit 500", "list \"20\"", newest, "list \"30\"", newest, "list \"40\"", newest];
    assert_eq!(lists, expected);
}

#[tokio::test(start_paused = true)]
async fn ref_3_if_the_newest_is_rejected_too_it_is_requested_later() {
    let answers = vec![
        list(&[], "10"),
        expiring(),
        Answer::Refused(refused(Reason::Expired)),
        Answer::Refused(refused(Reason::Expired)),
        list(&[], "11"),
    ];
    let mut run = Run::start(Script::new(answers), lists_only());
    run.after(MINUTE).await;
    assert_eq!(run.script.requests()[2..5], ["list \"10\"", "list \"\" limit 500", "list \"\" limit 500"]);
    assert_eq!(run.script.times()[2..5], [1800, 1800, 3400]);
}

#[tokio::test(start_paused = true)]
async fn ref_2_pages_are_kept_if_the_server_has_no_cache() {
    let answers = vec![pages(&["a@1"], "10", true), expiring(), pages(&[], "11", true)];
    let asked = requests(answers, lists_only()).await;
    assert_eq!(asked[..3], ["list \"0\" limit 500", "watch \"10\"", "list \"10\" limit 500"]);
}

#[tokio::test(start_paused = true)]
async fn ref_2_a_configured_page_size_is_used_in_every_list() {
    let answers = vec![list(&["a@1"], "10"), expiring(), list(&[], "11")];
    let asked = requests(answers, lists_only().page_size(4)).await;
    assert_eq!(asked[..3], ["list \"0\" limit 4", "watch \"10\"", "list \"10\" limit 4"]);
}

#[tokio::test(start_paused = true)]
async fn ref_1_a_start_at_the_newest_version_bypasses_the_cache() {
    let asked = requests(vec![list(&[], "10")], lists_only().start(Start::Newest)).await;
    assert_eq!(asked[0], "list \"\" limit 500");
}

/// Ported from client-go: FullListIfExpired. The client follows the pages.
#[tokio::test(start_paused = true)]
async fn pg_1_a_list_whose_continue_token_expires_starts_over() {
    let steps = vec![item("a@1"), item("b@2"), Step::Listed(ListEvent::Restarted), item("b@3"), ends("4")];
    let mut run = Run::start(Script::new([Answer::Steps(steps)]), lists_only());
    assert_eq!(run.now().await, ["begin", "item a@1", "item b@2", "begin", "item b@3", "end 4"]);
    let steps = vec![Step::Listed(ListEvent::Restarted), item("b@3"), ends("4")];
    let mut run = Run::start(Script::new([Answer::Steps(steps)]), lists_only());
    assert_eq!(run.now().await, ["begin", "item b@3", "end 4"]);
}

#[tokio::test(start_paused = true)]
async fn ref_9_list_errors_are_reported_and_retried_and_the_known_state_is_kept() {
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
    assert_eq!(run.health().problem.expect("one").count, 1, "the server started to answer in between");
    assert_eq!(run.after(2 * SECOND).await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.health().problem.expect("one").count, 2, "half a list is not a success");
    assert_eq!(run.after(3 * SECOND).await, ["begin", "item a@2", "end 3"]);
    assert_eq!(run.health().problem, None);
    // From now on, no delta may remove `a`.
    assert_eq!(run.after(30 * SECOND).await, ["begin", "item a@2", "end 4"]);
    assert_eq!(run.script.times()[..4], [0, 800, 2400, 5600]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_early_is_discarded() {
    let script = Script::new([Answer::Steps(vec![item("a@1"), Step::Close]), list(&["a@1"], "2")]);
    let mut run = Run::start(script, lists_only());
    assert_eq!(run.now().await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2"]);
}

/// kube-rs#1209 and others: a list was held in memory before its first object was visible.
#[tokio::test(start_paused = true)]
async fn objects_are_delivered_while_the_list_is_being_received() {
    let script = Script::new([Answer::Steps(vec![item("a@1"), Step::Pause(MINUTE), item("b@2"), ends("3")])]);
    let mut run = Run::start(script, lists_only());
    assert_eq!(run.now().await, ["begin", "item a@1"]);
    assert_eq!(run.health().state, HealthState::Listing { items: 1 });
    assert_eq!(run.after(MINUTE).await, ["item b@2", "end 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_list_is_given_up() {
    let script = Script::new([Answer::Steps(vec![item("a@1")]), list(&["a@1"], "2")]);
    let mut run = Run::start(script, lists_only().stall_after(MINUTE));
    assert_eq!(run.after(MINUTE).await, ["begin", "item a@1", "abort"]);
    assert_eq!(run.after(SECOND).await, ["begin", "item a@1", "end 2"]);
}

/// stackablectl#370: the delay that a server asked for was ignored.
#[tokio::test(start_paused = true)]
async fn the_delay_that_a_server_asks_for_is_respected() {
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

/// A proxy may ask for a delay of days; one answer must not leave a cache out of date for so long.
#[tokio::test(start_paused = true)]
async fn a_delay_of_days_is_capped_at_minutes() {
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
    // The known objects are not removed: the 404 may come from a proxy.
    assert_eq!(run.after(MINUTE).await, ["begin", "item a@1", "end 2"]);
    assert!(matches!(run.health().state, HealthState::Retrying { .. }));
    assert_eq!(run.after(3 * MINUTE).await, [] as [&str; 0]);
    let health = run.health();
    assert_eq!(health.state, HealthState::NotServed);
    let message = "cannot list things: no (NotFound); check that the definition of things is installed in the requested version";
    assert_eq!(health.to_string(), format!("not served: {message}"));
    assert_eq!(run.stop_reading().await, ReflectorEnded::Gone(message.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_served_yet_is_waited_for_with_keep_trying() {
    let gone = || Answer::Refused(refused(Reason::NotFound));
    let mut answers: Vec<_> = (0..20).map(|_| gone()).collect();
    answers.push(watch(vec![crate::script::added("a@1"), crate::script::end("2")]));
    let mut run = Run::start(Script::new(answers), options().not_found(NotFound::KeepTrying));
    assert_eq!(run.after(3 * MINUTE).await, ["begin", "item a@1", "end 2"]);
    assert!(run.health().is_ok());
}

#[tokio::test(start_paused = true)]
async fn only_consecutive_404s_end_the_reflector() {
    let gone = || Answer::Refused(refused(Reason::NotFound));
    let broken = || Answer::Refused(refused(Reason::InternalError));
    let script = Script::new([gone(), broken(), gone(), broken(), gone(), list(&[], "2")]);
    let mut run = Run::start(script, lists_only().not_found(NotFound::GoneAfter(SECOND / 10)));
    assert_eq!(run.after(2 * MINUTE).await, ["begin", "end 2"]);
    let script = Script::new([gone()]);
    let run = Run::start(script, lists_only().not_found(NotFound::GoneAfter(Duration::ZERO)));
    assert!(matches!(run.task.await, Ok(ReflectorEnded::Gone(_))), "one answer is enough");
}

/// kube-rs#1743: the version was dropped from a list with a limit, which then read from the
/// server's storage.
#[tokio::test(start_paused = true)]
async fn a_list_with_a_limit_keeps_its_version() {
    let asked = requests(vec![list(&[], "10")], lists_only().page_size(50)).await;
    assert_eq!(asked[0], "list \"0\" limit 50");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_older_version_means_that_the_history_was_reset() {
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
    let message =
        "the server's history was reset: it reports things at version 5 after version 10; listing again";
    assert_eq!(health.problem.expect("one").message, message);
    assert_eq!(run.after(Duration::from_secs(4)).await, ["begin", "item a@4", "end 5", "applied a@6"]);
    assert_eq!(run.script.requests()[4..], ["list \"\" limit 500", "watch \"5\""]);
    assert!(run.health().is_ok());
}
