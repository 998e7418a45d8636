//! Objects that cannot be decoded: counted, reported, skipped, and never taken for deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dogwatch_core::Reason;
use dogwatch_informer::ListEvent;
use dogwatch_wire::EventKind;

use crate::script::{
    Answer, Run, SECOND, Script, Step, Thing, added, bad, deleted, end, error, list, modified, options,
    thing, watch, watch_closed,
};

fn undecodable(text: &str, kind: EventKind) -> Step {
    Step::Fails(bad(text, Some(kind)).into())
}

/// In kube-rs, one such object fails its page, and the collection is listed for ever without
/// success.
#[tokio::test(start_paused = true)]
async fn a_list_continues_after_an_undecodable_object_and_names_it_at_its_end() {
    let listed = |event| Step::Listed(event);
    let steps = vec![
        listed(ListEvent::Item(thing("a@1"))),
        listed(ListEvent::Bad(bad("b@2", None))),
        listed(ListEvent::Bad(bad("@3", None))),
        listed(ListEvent::Item(thing("c@4"))),
        listed(ListEvent::End { version: "5".into(), paginated: false }),
    ];
    let script = Script::new([Answer::Steps(steps), watch(Vec::new())]);
    let mut run = Run::start(script, options().without_watch_list());
    assert_eq!(run.now().await, ["begin", "item a@1", "nameless", "item c@4", "end 5 but for b"]);
    assert_eq!(run.script.requests().len(), 2, "one list, one watch");
    let health = run.health();
    assert_eq!((health.decode_failures, health.undecodable, health.is_ok()), (2, 2, false), "{health}");
    run.after(20 * SECOND).await;
    assert_eq!(run.script.requests().len(), 2, "no further list");
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_after_an_undecodable_object() {
    let events = vec![
        added("a@1"),
        end("2"),
        undecodable("a@3", EventKind::Modified),
        undecodable("b@4", EventKind::Added),
        modified("a@5"),
        undecodable("@", EventKind::Modified),
    ];
    let mut run = Run::start(Script::new([watch(events)]), options());
    let received = run.now().await;
    let undecodable = ["undecodable a@3", "bookmark 3", "undecodable b@4", "bookmark 4"];
    assert_eq!(received, [&["begin", "item a@1", "end 2"], &undecodable[..], &["applied a@5"]].concat());
    let health = run.health();
    assert_eq!((health.decode_failures, health.last_version.as_str()), (3, "5"));
    assert_eq!(health.undecodable, 2, "a was decoded again; b was not, nor was one without a name");
    assert!(!health.is_ok() && health.to_string().contains("except for 2 objects"), "{health}");
}

#[tokio::test(start_paused = true)]
async fn the_last_undecodable_object_is_reported_with_its_key_path_and_reason() {
    let events = vec![end("2"), undecodable("b@4", EventKind::Added)];
    let mut run = Run::start(Script::new([watch(events)]), options());
    run.now().await;
    let last = run.health().last_decode_failure.expect("one");
    assert_eq!(last.to_string(), "b cannot be decoded at spec.size: not a number");
    assert_eq!(last.key.expect("a key").as_str(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_applies_even_if_the_deleted_object_cannot_be_decoded() {
    let events = vec![added("a@1"), end("2"), undecodable("a@3", EventKind::Deleted), Step::Close];
    let mut run = Run::start(Script::new([watch(events)]), options());
    assert_eq!(run.now().await, ["begin", "item a@1", "end 2", "dropped a", "bookmark 3"]);
    assert_eq!(run.script.requests()[1], "watch \"3\"");
}

/// In client-go, the watch fails at such an object, and is opened again right before it, for ever.
#[tokio::test(start_paused = true)]
async fn a_resumed_watch_starts_after_the_undecodable_object() {
    let script = Script::new([
        watch_closed(vec![end("2"), undecodable("a@3", EventKind::Modified)]),
        watch_closed(vec![undecodable("a@4", EventKind::Modified)]),
        watch(Vec::new()),
    ]);
    let mut run = Run::start(script, options());
    run.now().await;
    assert_eq!(run.script.requests(), ["initial \"\"", "watch \"3\"", "watch \"4\""]);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_error_event_does_not_advance_the_version() {
    let mut events = vec![end("2"), undecodable("a@9", EventKind::Error)];
    events.push(Step::Fails(bad("a@9", None).into()));
    events.push(modified("a@3"));
    let mut run = Run::start(Script::new([watch(events)]), options());
    assert_eq!(run.now().await, ["begin", "end 2", "applied a@3"]);
    assert_eq!((run.health().decode_failures, run.health().rewinds), (2, 0));
}

/// Ported from client-go's tests of `Table` objects and wrong types: here they decode to objects
/// without a name.
#[tokio::test(start_paused = true)]
async fn ref_7_an_item_that_is_not_an_object_of_the_collection_is_skipped() {
    let events = vec![added("@1"), added("a@1"), end("2"), modified("@3"), modified("a@4")];
    let mut run = Run::start(Script::new([watch(events)]), options());
    assert_eq!(run.now().await, ["begin", "nameless", "item a@1", "end 2", "bookmark 3", "applied a@4"]);
    assert_eq!(run.health().last_decode_failure.expect("one").reason, "it has no name");
    let script = Script::new([list(&["@1", "a@1"], "2"), watch(Vec::new())]);
    let mut run = Run::start(script, options().without_watch_list());
    assert_eq!(run.now().await, ["begin", "nameless", "item a@1", "end 2"]);
}

/// Ported from client-go: RespectStoreTransformer.
#[tokio::test(start_paused = true)]
async fn a_transform_is_called_once_for_each_object_of_lists_and_watches() {
    for (watch_list, first) in [
        (
            true,
            watch(vec![added("a@1"), added("b@1"), end("2"), modified("a@3"), deleted("a@4"), Step::Close]),
        ),
        (false, list(&["a@1", "b@1"], "2")),
    ] {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = calls.clone();
        let mut options = options().transform(move |mut it: Thing| {
            counted.fetch_add(1, Ordering::Relaxed);
            it.metadata.uid = "seen".into();
            it
        });
        options.watch_list = watch_list;
        let following = watch(vec![modified("a@5"), deleted("a@6")]);
        let mut run = Run::start(Script::new([first, following]), options);
        let received = run.now().await;
        let expected = if watch_list { 6 } else { 4 };
        assert_eq!(calls.load(Ordering::Relaxed), expected, "{received:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_or_renames_an_object_loses_only_that_object() {
    let options = options().transform(|mut it: Thing| {
        assert_ne!(it.metadata.name, "panics");
        if it.metadata.name == "renamed" {
            it.metadata.name = "other".into();
        }
        it
    });
    let events = vec![
        added("panics@1"),
        added("renamed@1"),
        added("a@1"),
        end("2"),
        modified("panics@3"),
        deleted("panics@4"),
    ];
    let mut run = Run::start(Script::new([watch(events)]), options);
    let received = run.now().await;
    let expected = [
        "begin",
        "item a@1",
        "end 2 but for panics,renamed",
        "undecodable panics@3",
        "bookmark 3",
        "dropped panics",
        "bookmark 4",
    ];
    assert_eq!(received, expected);
    assert_eq!(run.health().last_decode_failure.expect("one").reason, "the transform panicked");
    assert_eq!(run.health().undecodable, 1, "the deleted object does not count");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_still_undecodable_after_a_relist() {
    let steps = || {
        vec![
            Step::Listed(ListEvent::Bad(bad("a@1", None))),
            Step::Listed(ListEvent::End { version: "2".into(), paginated: false }),
        ]
    };
    let script =
        Script::new([Answer::Steps(steps()), watch(vec![error(Reason::Expired)]), Answer::Steps(steps())]);
    let mut run = Run::start(script, options().without_watch_list());
    let received = run.after(SECOND).await;
    assert_eq!(received, ["begin", "end 2 but for a", "begin", "end 2 but for a"]);
}
