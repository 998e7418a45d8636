//! The first state by a watch that sends it (WatchList, rule REF-10): the upstream scenarios of reflector_watchlist_test.go.

use dogwatch_core::Reason;
use dogwatch_informer::{HealthState, Start};
use dogwatch_wire::EventKind;

use crate::script::{
    Answer, MINUTE, Run, SECOND, Script, Step, added, annotated, bad, bookmark, deleted, end, error, list,
    modified, options, refused, unreachable, watch, watch_closed,
};

/// A watch that sends `a` at version 1 as the whole first state.
fn one_thing() -> Answer {
    watch(vec![added("a@1"), end("2")])
}

#[tokio::test(start_paused = true)]
async fn ref_10_without_the_bookmark_nothing_is_synced() {
    let mut run = Run::start(Script::new([watch(vec![added("a@1")])]), options());
    assert_eq!(run.now().await, ["begin", "item a@1"]);
    assert_eq!(run.script.asked(), ["initial \"\""]);
    let health = run.health();
    assert!(!health.synced && health.last_version.is_unset());
    assert_eq!(health.state, HealthState::Listing { items: 1 });
}

#[tokio::test(start_paused = true)]
async fn ref_10_the_bookmark_ends_the_list_and_the_same_watch_goes_on() {
    let events = vec![added("a@1"), added("b@3"), end("5"), modified("a@6"), bookmark("8"), deleted("b@9")];
    let mut run = Run::start(Script::new([watch(events)]), options());
    let expected = ["begin", "item a@1", "item b@3", "end 5", "applied a@6", "bookmark 8", "deleted b@9"];
    assert_eq!(run.now().await, expected);
    assert_eq!(run.script.asked(), ["initial \"\""]);
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
