//! Watches: the raw stream (RQ-8, RQ-15) and the one that starts again where it ended (RW-1).

use std::io::ErrorKind;
use std::time::Duration;

use dogwatch_client::transport::TransportErrorKind;
use dogwatch_client::{Api, Error};
use dogwatch_core::{Object, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::scripted::{Reply, Script, fails, refusal, reply};

fn event(kind: &str, version: &str) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"x","namespace":"a","resourceVersion":"{version}"}}}}}}"#
    )
}

fn error_event(code: u16, reason: &str, retry_after: u32) -> String {
    format!(
        r#"{{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code},"details":{{"retryAfterSeconds":{retry_after}}}}}}}"#
    )
}

fn watching(events: &[String]) -> Reply {
    events
        .iter()
        .fold(reply(200).header("content-type", "application/json"), |all, it| all.chunk(format!("{it}\n")))
}

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(script.client(), "a")
}

/// One word for each thing that comes out.
async fn told(events: impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>>) -> Vec<String> {
    let word = |event: Result<WatchEvent<ConfigMap>, Error>| match event {
        Ok(WatchEvent::Added(object)) => format!("added {}", object.version()),
        Ok(WatchEvent::Modified(object)) => format!("modified {}", object.version()),
        Ok(WatchEvent::Deleted(object)) => format!("deleted {}", object.version()),
        Ok(WatchEvent::Bookmark(bookmark)) => format!("bookmark {}", bookmark.version),
        Ok(WatchEvent::Error(status)) => format!("error {}", status.code),
        Ok(other) => format!("{other:?}"),
        Err(Error::Undecodable(bad)) => format!("bad {}", bad.version),
        Err(error) => format!("broken {:?}", error.transport()),
    };
    events.map(word).collect().await
}

async fn raw(answer: Reply) -> Vec<String> {
    let script = Script::new([answer]);
    told(maps(&script).watch(&WatchParams::from("5")).await.expect("opened")).await
}

/// What comes out of a resuming watch until it has nothing more to say for ten minutes, or ends.
async fn resumed(script: &Script) -> Vec<String> {
    let watch = maps(script).watch_from(WatchParams::from("5")).expect("a version");
    let deadline = tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(600));
    told(watch.take_until(deadline)).await
}

#[tokio::test]
async fn rq_15_events_come_in_order_and_a_clean_end_is_silent() {
    let events = [event("ADDED", "6"), event("MODIFIED", "7"), event("DELETED", "8"), event("BOOKMARK", "9")];
    assert_eq!(raw(watching(&events)).await, ["added 6", "modified 7", "deleted 8", "bookmark 9"]);
    assert!(raw(watching(&[])).await.is_empty());
}

#[tokio::test]
async fn rq_15_an_event_comes_out_as_soon_as_it_is_whole() {
    let script = Script::new([reply(200).chunk(event("ADDED", "6")).silence()]);
    let mut stream = maps(&script).watch(&WatchParams::default()).await.expect("opened");
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Added(_)))));
}

#[tokio::test]
async fn rq_15_a_torn_event_a_lost_connection_and_a_bad_frame_are_told_apart() {
    let torn = reply(200).chunk(event("ADDED", "6")).chunk(r#"{"type":"MODIF"#);
    assert_eq!(
        raw(torn).await,
        ["added 6".to_owned(), format!("broken {:?}", Some(TransportErrorKind::Lost))]
    );
    let lost = reply(200).chunk(event("ADDED", "6")).lost();
    assert_eq!(
        raw(lost).await,
        ["added 6".to_owned(), format!("broken {:?}", Some(TransportErrorKind::Lost))]
    );
    let nonsense = reply(200).chunk(format!("{}<html>", event("ADDED", "6")));
    assert_eq!(raw(nonsense).await, ["added 6", "broken None"]);
}

#[tokio::test]
async fn rq_15_a_poison_object_does_not_end_the_watch() {
    let poison = r#"{"type":"MODIFIED","object":{"metadata":{"name":"x","namespace":"a","resourceVersion":"7"},"data":5}}"#;
    assert_eq!(
        raw(watching(&[event("ADDED", "6"), poison.to_owned(), event("MODIFIED", "8")])).await,
        ["added 6", "bad 7", "modified 8"]
    );
}

#[tokio::test]
async fn rq_15_a_frame_without_end_is_refused_and_not_buffered() {
    let start = reply(200).chunk(r#"{"type":"ADDED","object":{"data":{"x":""#);
    let endless = (0..1700).fold(start, |all, _| all.chunk(vec![b'x'; 64 * 1024]));
    assert_eq!(raw(endless).await, ["broken None"]);
}

#[tokio::test]
async fn rq_8_a_refused_watch_is_an_error_with_its_status() {
    for (answer, code) in
        [(refusal(410, "Expired"), 410), (refusal(403, "Forbidden"), 403), (reply(500), 500)]
    {
        let opened = maps(&Script::new([answer])).watch(&WatchParams::from("5")).await;
        assert_eq!(opened.expect_err("refused").status().map(|it| it.code), Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn rq_8_a_watch_that_keeps_losing_its_connection_is_one_that_ended_at_once() {
    for kind in [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof, ErrorKind::TimedOut] {
        let script = Script::new((0..20).map(|_| fails(kind)));
        let opened = maps(&script).watch(&WatchParams::from("5")).await.expect("no error");
        assert!(told(opened).await.is_empty());
        assert_eq!(script.seen().len(), 11);
    }
    let script = Script::new([fails(ErrorKind::ConnectionRefused)]);
    assert!(maps(&script).watch(&WatchParams::from("5")).await.is_err());
}

#[tokio::test]
async fn a_watch_asks_for_bookmarks_and_for_no_compression() {
    let script = Script::new([watching(&[])]);
    maps(&script)
        .watch(&WatchParams::from("5").timeout(Duration::from_secs(300)))
        .await
        .map(drop)
        .expect("opened");
    let seen = &script.seen()[0];
    assert_eq!(
        seen.target,
        "/base/api/v1/namespaces/a/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300"
    );
    assert_eq!(seen.headers[http::header::ACCEPT_ENCODING], "identity");
}

#[tokio::test]
async fn rw_1_a_version_that_names_no_point_is_rejected() {
    for version in ["", "0"] {
        assert!(maps(&Script::default()).watch_from(WatchParams::from(version)).is_err(), "{version:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rw_1_restarts_from_the_last_version_and_swallows_bookmarks() {
    let script = Script::new([
        watching(&[event("ADDED", "6"), event("BOOKMARK", "8")]),
        watching(&[event("MODIFIED", "9")]),
        watching(&[]).silence(),
    ]);
    assert_eq!(resumed(&script).await, ["added 6", "modified 9"]);
    let from: Vec<_> =
        script.targets().iter().map(|it| it.split("resourceVersion=").nth(1).unwrap().to_owned()).collect();
    assert_eq!(from, ["5", "8", "9"]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_at_least_a_second_between_restarts_and_as_long_as_the_server_asks() {
    let script = Script::new([
        watching(&[]),
        watching(&[error_event(500, "InternalError", 7)]),
        refusal(503, "ServiceUnavailable"),
        watching(&[]).silence(),
    ]);
    let start = tokio::time::Instant::now();
    assert!(resumed(&script).await.is_empty());
    let at: Vec<_> = script.seen().iter().map(|it| (it.at - start).as_secs()).collect();
    assert_eq!(at, [0, 1, 8, 9]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_gone_in_the_stream_is_the_end_and_is_told() {
    for reason in ["Gone", "Expired"] {
        let script = Script::new([watching(&[event("ADDED", "6"), error_event(410, reason, 0)])]);
        assert_eq!(resumed(&script).await, ["added 6", "error 410"]);
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rw_1_no_right_at_the_start_is_the_end_and_gone_at_the_start_is_not() {
    for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden")] {
        let script = Script::new([refusal(code, reason), watching(&[event("ADDED", "6")])]);
        assert_eq!(resumed(&script).await, [format!("error {code}")]);
    }
    let script = Script::new([refusal(410, "Gone"), watching(&[event("ADDED", "6")]).silence()]);
    assert_eq!(resumed(&script).await, ["added 6"]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_an_event_without_a_version_is_the_end() {
    let script =
        Script::new([watching(&[event("ADDED", "6"), event("MODIFIED", ""), event("MODIFIED", "8")])]);
    assert_eq!(resumed(&script).await, ["added 6", "error 500"]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_lost_connections_and_torn_frames_lose_no_event() {
    let script = Script::new([
        reply(200).chunk(event("ADDED", "6")).lost(),
        reply(200).chunk(event("MODIFIED", "7")).chunk(r#"{"type":"MODI"#),
        fails(ErrorKind::ConnectionRefused),
        watching(&[event("MODIFIED", "8")]).silence(),
    ]);
    assert_eq!(resumed(&script).await, ["added 6", "modified 7", "modified 8"]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_a_poison_object_is_told_once_and_passed() {
    let poison = r#"{"type":"MODIFIED","object":{"metadata":{"name":"x","namespace":"a","resourceVersion":"7"},"data":5}}"#;
    let script = Script::new([watching(&[poison.to_owned()]), watching(&[event("MODIFIED", "8")]).silence()]);
    assert_eq!(resumed(&script).await, ["bad 7", "modified 8"]);
    assert!(script.targets()[1].ends_with("resourceVersion=7"));
}
