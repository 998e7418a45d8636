//! Views: what a class of callers sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{Maps, Newest, Seen, map};
use crate::ResponseBody;
use crate::mirror::{MirrorEventType, MirrorObject, View};

const LIST: &str = "/api/v1/configmaps";
const JSON: &str = "application/json";

/// Hides green objects, and counts how often it is asked.
fn without_green(calls: &Arc<AtomicUsize>) -> View {
    let calls = Arc::clone(calls);
    View::new(1, move |object| {
        calls.fetch_add(1, Ordering::Relaxed);
        let value = object.to_value().expect("a stored object");
        (value["data"]["colour"] != "green").then(|| object.clone())
    })
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_hidden_is_deleted_and_one_that_appears_is_added() {
    let maps = Maps::listed(10, &[map("a", 5, "red"), map("b", 6, "green")]);
    let calls = Arc::default();
    let mut watching = maps.watch_as("", JSON, without_green(&calls)).await;
    assert_eq!(watching.now(), [Seen::Added(map("a", 5, "red"))]);
    let step = |event_type, name: &str, version, colour: &str| {
        maps.apply(event_type, &map(name, version, colour));
    };
    step(MirrorEventType::Modified, "a", 11, "green");
    // The last state that the caller was allowed to see.
    assert_eq!(watching.now(), [Seen::Deleted(map("a", 11, "red"))]);
    step(MirrorEventType::Modified, "b", 12, "blue");
    assert_eq!(watching.now(), [Seen::Added(map("b", 12, "blue"))]);
    step(MirrorEventType::Modified, "b", 13, "red");
    assert_eq!(watching.now(), [Seen::Modified(map("b", 13, "red"))]);
    step(MirrorEventType::Deleted, "a", 14, "green");
    step(MirrorEventType::Added, "c", 15, "green");
    assert_eq!(watching.now(), []);
    step(MirrorEventType::Deleted, "b", 16, "red");
    assert_eq!(watching.now(), [Seen::Deleted(map("b", 16, "red"))]);

    let seen = maps.ask(LIST, JSON, without_green(&calls), 16).await;
    assert_eq!((seen.names(), seen.version()), (vec![], 16));
    let hidden = "/api/v1/namespaces/default/configmaps/c";
    assert_eq!(maps.ask(hidden, JSON, without_green(&calls), 16).await.code, 404);
    assert_eq!(maps.get(hidden).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn selectors_apply_to_what_the_caller_sees() {
    let maps = Maps::listed(10, &[map("a", 5, "red"), map("b", 6, "blue")]);
    let view = || {
        View::new(2, |object| {
            let mut value = object.to_value().ok()?;
            value["metadata"]["labels"] = json!({ "colour": "hidden" });
            Some(MirrorObject::from_value(&value))
        })
    };
    let by = |colour: &str| format!("{LIST}?labelSelector=colour%3D{colour}");
    assert_eq!(maps.ask(&by("red"), JSON, view(), 10).await.names(), Vec::<String>::new());
    assert_eq!(maps.ask(&by("hidden"), JSON, view(), 10).await.names(), ["a", "b"]);
    let mut watching = maps.watch_as("resourceVersion=10&labelSelector=colour%3Dhidden", JSON, view()).await;
    maps.apply(MirrorEventType::Modified, &map("a", 11, "green"));
    let mut expected = map("a", 11, "green");
    expected["metadata"]["labels"] = json!({ "colour": "hidden" });
    assert_eq!(watching.now(), [Seen::Modified(expected)]);
}

#[tokio::test(start_paused = true)]
async fn a_view_is_applied_once_for_each_change_however_many_watches_there_are() {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    let calls: Arc<AtomicUsize> = Arc::default();
    let mut watches = Vec::new();
    for _ in 0..50 {
        watches.push(maps.watch_as("resourceVersion=10", JSON, without_green(&calls)).await);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0, "nothing has to be shown yet");
    for version in 11..=20 {
        maps.apply(MirrorEventType::Modified, &map("a", version, "red"));
        for watching in &mut watches {
            assert_eq!(watching.now(), [Seen::Modified(map("a", version, "red"))]);
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 11, "the first state and ten changes");
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_view_whose_rules_have_changed_end_with_410() {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    let calls = Arc::default();
    let mut of_view = maps.watch_as("resourceVersion=10", JSON, without_green(&calls)).await;
    let mut of_other = maps.watch("resourceVersion=10").await;
    assert_eq!((of_view.now(), of_other.now()), (vec![], vec![]));
    maps.mirror.end_watches_of(1);
    assert_eq!(of_view.now(), [Seen::Error(410), Seen::End]);
    assert_eq!(of_other.now(), []);
    // The next watch uses the new rules.
    let hides_all = View::new(1, |_| None);
    assert_eq!(maps.ask(LIST, JSON, hides_all, 10).await.names(), Vec::<String>::new());
}

/// An object that a view cannot rewrite must not be shown as it is.
#[tokio::test(start_paused = true)]
async fn a_view_that_breaks_an_object_hides_it() {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    let renamed = |value: &Value| {
        let mut value = value.clone();
        value["metadata"]["name"] = "other".into();
        MirrorObject::from_value(&value)
    };
    let broken = [MirrorObject::json("{"), MirrorObject::json("{}"), renamed(&map("a", 5, "red")), {
        MirrorObject::from_value(&map("a", 6, "red"))
    }];
    for (identity, result) in (10..).zip(broken) {
        let view = View::new(identity, move |_| Some(result.clone()));
        assert_eq!(maps.ask(LIST, JSON, view, 10).await.names(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_that_panics_is_an_error_of_the_request() {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    let panics = || View::new(3, |_| panic!("a broken rule"));
    assert_eq!(maps.ask(LIST, JSON, panics(), 10).await.code, 500);
    let mut watching = maps.watch_as("resourceVersion=10", JSON, panics()).await;
    maps.apply(MirrorEventType::Modified, &map("a", 11, "red"));
    assert_eq!(watching.now(), [Seen::Error(500), Seen::End]);
    assert_eq!(maps.get(LIST).await.code, 200, "other requests are served");
}

/// Reads a body to its end, or until it waits. Returns the number of steps, and the maximum number
/// of calls of a view in one of them.
fn steps(body: &mut ResponseBody, calls: &AtomicUsize) -> (usize, usize) {
    let (mut steps, mut most, mut idle) = (0, 0, 0);
    while idle < 3 {
        let before = calls.load(Ordering::Relaxed);
        let polled = body.frame().now_or_never();
        let called = calls.load(Ordering::Relaxed) - before;
        most = most.max(called);
        match polled {
            Some(None) => return (steps, most),
            // It lets other tasks have their turn, or waits.
            None if called == 0 => idle += 1,
            _ => (steps, idle) = (steps + 1, 0),
        }
    }
    (steps, most)
}

/// Regression test: a rule that hid most objects of a long list, or most changes of a watch, was
/// applied to all of them in one go, and the other requests of the thread waited.
#[tokio::test(start_paused = true)]
async fn hidden_objects_are_left_out_step_by_step() {
    const COUNT: u64 = 400;
    let object = |number: u64, version: u64| {
        let mut object = map(&format!("o{number:03}"), version, "green");
        object["data"]["text"] = "x".repeat(10 << 10).into();
        object
    };
    let maps = Maps::listed(1_000, &Vec::from_iter((0..COUNT).map(|it| object(it, 5))));
    for (path, encoding) in [
        (LIST.to_owned(), "identity"),
        (LIST.to_owned(), "gzip"),
        ("/api/v1/configmaps?watch=1".to_owned(), "identity"),
        ("/api/v1/configmaps?watch=1&resourceVersion=1000".to_owned(), "identity"),
    ] {
        let calls: Arc<AtomicUsize> = Arc::default();
        let request = Request::get(&path).header("accept", JSON).header("accept-encoding", encoding);
        let request = request.body(()).expect("a request");
        let view = without_green(&calls);
        let response = maps.mirror.respond(request, view, &Newest(1_000)).await;
        assert_eq!((response.status().as_u16(), calls.load(Ordering::Relaxed)), (200, 0), "{path}");
        if path.contains("resourceVersion") {
            for number in 0..COUNT {
                maps.apply(MirrorEventType::Modified, &object(number, 1_001 + number));
            }
        }
        let (steps, most) = steps(&mut response.into_body(), &calls);
        assert!(calls.load(Ordering::Relaxed) >= COUNT as usize, "{path}");
        // 64 KiB in one step, or 256 KiB that are compressed.
        let limit = if encoding == "gzip" { 27 } else { 14 };
        assert!(most <= limit && steps >= COUNT as usize / limit, "{path}: {most} in one of {steps} steps");
    }
}
