//! Watches: the raw stream (RQ-8, RQ-15) and the one that resumes where it ended (RW-1).

use std::io::ErrorKind;
use std::time::Duration;

use dogwatch_client::config::{ExecConfig, InteractiveMode};
use dogwatch_client::transport::TransportErrorKind;
use dogwatch_client::{Api, Client, Config, Error};
use dogwatch_core::{Object, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::{Stream, StreamExt};
use http_body_util::BodyExt;
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

/// Describes each item of a stream in a word or two.
async fn describe_all(events: impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>>) -> Vec<String> {
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
    describe_all(maps(&script).watch(&WatchParams::after("5")).await.expect("opened")).await
}

/// Collects the items of a resuming watch until it ends, or for ten minutes.
async fn resumed(script: &Script) -> Vec<String> {
    let watch = maps(script).watch_from(WatchParams::after("5")).expect("a version");
    let deadline = tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(600));
    describe_all(watch.take_until(deadline)).await
}

#[tokio::test]
async fn rq_15_events_come_in_order_and_a_clean_end_yields_nothing() {
    let events = [event("ADDED", "6"), event("MODIFIED", "7"), event("DELETED", "8"), event("BOOKMARK", "9")];
    assert_eq!(raw(watching(&events)).await, ["added 6", "modified 7", "deleted 8", "bookmark 9"]);
    assert!(raw(watching(&[])).await.is_empty());
}

#[tokio::test]
async fn rq_15_an_event_is_yielded_as_soon_as_it_is_complete() {
    let script = Script::new([reply(200).chunk(event("ADDED", "6")).silence()]);
    let mut stream = maps(&script).watch(&WatchParams::default()).await.expect("opened");
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Added(_)))));
}

#[tokio::test]
async fn rq_15_a_torn_event_a_lost_connection_and_a_bad_frame_are_distinct_errors() {
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
async fn rq_15_an_endless_frame_is_rejected_and_not_buffered() {
    let start = reply(200).chunk(r#"{"type":"ADDED","object":{"data":{"x":""#);
    let endless = (0..1700).fold(start, |all, _| all.chunk(vec![b'x'; 64 * 1024]));
    assert_eq!(raw(endless).await, ["broken None"]);
}

#[tokio::test]
async fn rq_8_a_rejected_watch_is_an_error_with_its_status() {
    for (answer, code) in
        [(refusal(410, "Expired"), 410), (refusal(403, "Forbidden"), 403), (reply(500), 500)]
    {
        let opened = maps(&Script::new([answer])).watch(&WatchParams::after("5")).await;
        assert_eq!(opened.expect_err("refused").status().map(|it| it.code), Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn rq_8_a_watch_that_keeps_losing_its_connection_is_one_that_ended_at_once() {
    for kind in [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof, ErrorKind::TimedOut] {
        let script = Script::new((0..20).map(|_| fails(kind)));
        let opened = maps(&script).watch(&WatchParams::after("5")).await.expect("no error");
        assert!(describe_all(opened).await.is_empty());
        assert_eq!(script.seen().len(), 11);
    }
    let script = Script::new([fails(ErrorKind::ConnectionRefused)]);
    assert!(maps(&script).watch(&WatchParams::after("5")).await.is_err());
}

/// The upstream table RequestWatch: the server's responses, the number of attempts, and the result
/// of opening the watch.
#[tokio::test(start_paused = true)]
async fn rq_8_request_watch() {
    let lost = |kind: ErrorKind| move || fails(kind);
    let later = || reply(500).header("retry-after", "1");
    type Case = (&'static str, u32, Vec<Reply>, usize, Option<fn(&Error) -> bool>);
    let cases: Vec<Case> = vec![
        ("not retryable", 0, vec![fails(ErrorKind::PermissionDenied)], 1, Some(|it| it.status().is_none())),
        ("forbidden", 0, vec![refusal(403, "secrets is forbidden")], 1, Some(Error::is_forbidden)),
        ("forbidden without content", 0, vec![reply(403)], 1, Some(Error::is_forbidden)),
        ("unauthorized without content", 0, vec![reply(401)], 1, Some(Error::is_unauthorized)),
        ("unauthorized", 0, vec![refusal(401, "Unauthorized")], 1, Some(Error::is_unauthorized)),
        ("end of file", 0, vec![lost(ErrorKind::UnexpectedEof)()], 1, None),
        ("broken connection", 0, vec![lost(ErrorKind::BrokenPipe)()], 1, None),
        ("reset by peer", 0, vec![lost(ErrorKind::ConnectionReset)()], 1, None),
        ("always the end of file", 2, (0..3).map(|_| lost(ErrorKind::UnexpectedEof)()).collect(), 3, None),
        (
            "always later",
            2,
            (0..3).map(|_| later()).collect(),
            3,
            Some(|it| it.status().is_some_and(|it| it.is_internal_error())),
        ),
    ];
    for (name, retries, replies, attempts, refused) in cases {
        let script = Script::new(replies);
        let client = script.builder(|_| {}).max_retries(retries).build().expect("valid settings");
        let opened = Api::<ConfigMap>::namespaced(client, "a").watch(&WatchParams::after("5")).await;
        assert_eq!(script.seen().len(), attempts, "{name}");
        match (opened, refused) {
            (Ok(events), None) => assert!(describe_all(events).await.is_empty(), "{name}"),
            (Err(error), Some(expected)) => assert!(expected(&error), "{name}: {error}"),
            (opened, _) => panic!("{name}: {opened:?}"),
        }
    }
    // An invalid request is not sent.
    let script = Script::default();
    let opened = Api::<ConfigMap>::namespaced(script.client(), "..").watch(&WatchParams::default()).await;
    assert!(opened.is_err() && script.seen().is_empty());
}

/// The upstream table RequestStream. Bodies are held in memory, so the case of one that cannot be
/// sent again does not apply.
#[tokio::test(start_paused = true)]
async fn rq_6_request_stream() {
    let later = || reply(500).header("retry-after", "1");
    type Case = (&'static str, Vec<Reply>, usize, Option<fn(&Error) -> bool>);
    let message = "a container name must be specified";
    let cases: Vec<Case> = vec![
        ("an error", vec![fails(ErrorKind::PermissionDenied)], 1, Some(|it| it.status().is_none())),
        ("unauthorized", vec![refusal(401, "Unauthorized")], 1, Some(Error::is_unauthorized)),
        (
            "a bad request",
            vec![refusal(400, message)],
            1,
            Some(|it| it.to_string().contains("a container name must be specified")),
        ),
        (
            "always later",
            vec![later(), later(), later()],
            3,
            Some(|it| it.status().is_some_and(|it| it.is_internal_error())),
        ),
        (
            "lost at the second attempt",
            vec![later(), fails(ErrorKind::UnexpectedEof)],
            2,
            Some(|it| it.transport() == Some(TransportErrorKind::Lost)),
        ),
        ("good at the last attempt", vec![later(), later(), reply(200)], 3, None),
    ];
    for (name, replies, attempts, refused) in cases {
        let script = Script::new(replies);
        let opened = script.client().get().path(&["/x"]).max_retries(2).stream().await;
        assert_eq!(script.seen().len(), attempts, "{name}");
        match (opened.map(drop), refused) {
            (Ok(()), None) => {}
            (Err(error), Some(expected)) => assert!(expected(&error), "{name}: {error}"),
            (opened, _) => panic!("{name}: {opened:?}"),
        }
    }
    let script = Script::default();
    assert!(script.client().get().stream().await.is_err() && script.seen().is_empty());
    let script = Script::new([reply(200).chunk("expected ").chunk("body")]);
    let body = script.client().get().path(&["/x"]).stream().await.expect("answered");
    assert_eq!(body.collect().await.expect("whole").to_bytes(), "expected body");
}

/// The upstream scenario Watch, without and with retries before it opens.
#[tokio::test(start_paused = true)]
async fn rq_15_a_watch_yields_its_events_after_any_number_of_retries() {
    let events = [event("ADDED", "6"), event("MODIFIED", "7"), event("DELETED", "8")];
    for retries in [0, 3] {
        let later = (0..retries).map(|_| reply(429).header("retry-after", "1"));
        let script = Script::new(later.chain([watching(&events)]));
        let opened = maps(&script).watch(&WatchParams::after("5")).await.expect("opened");
        assert_eq!(describe_all(opened).await, ["added 6", "modified 7", "deleted 8"]);
        assert_eq!(script.seen().len(), retries + 1);
    }
}

/// The upstream scenarios WatchNonDefaultContentType and WatchUnknownContentType.
#[tokio::test]
async fn rq_15_a_watch_is_decoded_by_its_content_type_and_an_unknown_one_is_rejected_at_once() {
    let events = [event("ADDED", "6")];
    let answered = |content_type: &'static str| {
        let body = events.iter().fold(reply(200), |all, it| all.chunk(it.clone()));
        Script::new([body.header("content-type", content_type)])
    };
    for known in ["application/json", "application/json; charset=utf-8", "application/JSON;stream=watch"] {
        let opened = maps(&answered(known)).watch(&WatchParams::after("5")).await.expect("opened");
        assert_eq!(describe_all(opened).await, ["added 6"], "{known}");
    }
    for unknown in ["foobar", "application/cbor;stream=watch", "text/html"] {
        let refused = maps(&answered(unknown)).watch(&WatchParams::after("5")).await.expect_err("unknown");
        assert!(
            matches!(refused, Error::Malformed { .. }) && refused.to_string().contains(unknown),
            "{refused}"
        );
    }
}

/// The upstream scenarios Decoder, Decoder_SourceClose and EncodeDecodeRoundTrip: every type of
/// event, and the end of the body.
#[tokio::test]
async fn rq_15_every_type_of_event_is_delivered_and_an_unknown_one_is_undecodable() {
    for (kind, expected) in [
        ("ADDED", "added 6"),
        ("MODIFIED", "modified 6"),
        ("DELETED", "deleted 6"),
        ("BOOKMARK", "bookmark 6"),
        ("ERROR", "error 0"),
    ] {
        assert_eq!(raw(watching(&[event(kind, "6")])).await, [expected]);
    }
    assert!(raw(reply(200)).await.is_empty());
    let unknown = raw(watching(&[event("SURPRISE", "6"), event("ADDED", "7")])).await;
    assert_eq!(unknown, ["bad 6", "added 7"]);
}

#[tokio::test]
async fn a_watch_requests_bookmarks_and_no_compression() {
    let script = Script::new([watching(&[])]);
    maps(&script)
        .watch(&WatchParams::after("5").timeout(Duration::from_secs(300)))
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
async fn rw_1_a_version_that_is_not_specific_is_rejected() {
    for version in ["", "0"] {
        assert!(maps(&Script::default()).watch_from(WatchParams::after(version)).is_err(), "{version:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rw_1_restarts_from_the_last_version_and_does_not_deliver_bookmarks() {
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

/// Watches a server with a history: each watch yields the events after the requested version, at
/// most `most` of them.
async fn resumed_over(history: &[&str], from: &str, most: usize, watches: usize) -> Vec<String> {
    let number = |version: &str| version.parse::<u32>().expect("a number");
    let script = Script::default();
    let mut at = number(from);
    for _ in 0..watches {
        let after: Vec<_> = history.iter().filter(|it| number(it) > at).take(most).collect();
        at = after.last().map_or(at, |it| number(it));
        script.then([watching(&after.iter().map(|it| event("MODIFIED", it)).collect::<Vec<_>>())]);
    }
    script.then([watching(&[]).silence()]);
    let watch = maps(&script).watch_from(WatchParams::after(from)).expect("a version");
    let deadline = tokio::time::sleep(Duration::from_secs(600));
    let events = describe_all(watch.take_until(deadline)).await;
    assert_eq!(script.seen().len(), watches + 1);
    events
}

/// The cases of the upstream table RetryWatcher with closed watches: the history, the first
/// version, the events per watch, the number of watches, and the delivered events.
#[tokio::test(start_paused = true)]
async fn rw_1_retry_watcher_survives_closed_watches() {
    type Case = (&'static [&'static str], &'static str, usize, usize, &'static [&'static str]);
    let cases: [Case; 9] = [
        (&["2"], "1", 9, 1, &["2"]),
        (&["1", "2"], "1", 9, 1, &["2"]),
        (&["2"], "3", 9, 1, &[]),
        (&["6"], "5", 1, 1, &["6"]),
        (&["5", "6"], "4", 1, 2, &["5", "6"]),
        (&["5", "7"], "4", 1, 2, &["5", "7"]),
        (&["5", "7"], "2", 1, 2, &["5", "7"]),
        (&["1", "2", "5", "6", "7", "11"], "2", 1, 4, &["5", "6", "7", "11"]),
        (&["1", "2", "5", "6", "7", "11"], "1", 2, 3, &["2", "5", "6", "7", "11"]),
    ];
    for (history, from, most, watches, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|it| format!("modified {it}")).collect();
        assert_eq!(resumed_over(history, from, most, watches).await, expected, "{history:?} {from}");
    }
}

/// The cases of the upstream table RetryWatcher with errors: the first response, the number of
/// watches, and the delivered items.
#[tokio::test(start_paused = true)]
async fn rw_1_retry_watcher_recovers_from_temporary_errors_and_ends_with_the_others() {
    let six = || event("ADDED", "6");
    let error = |code: u16, reason: &str| watching(&[six(), error_event(code, reason, 0)]);
    let other = |object: &str| watching(&[six(), format!(r#"{{"type":"ERROR","object":{object}}}"#)]);
    let cases: Vec<(&str, Reply, usize, &[&str])> = vec![
        ("cannot be opened", fails(ErrorKind::PermissionDenied), 2, &["added 7"]),
        ("gone at the start", refusal(410, "Expired"), 2, &["added 7"]),
        ("nothing at all", reply(200), 2, &["added 7"]),
        ("gone", error(410, "Gone"), 1, &["added 6", "error 410"]),
        ("forbidden", refusal(403, "Forbidden"), 1, &["error 403"]),
        ("unauthorized", refusal(401, "Unauthorized"), 1, &["error 401"]),
        ("timeout", error(504, "Timeout"), 2, &["added 6", "added 7"]),
        ("internal error", error(500, "InternalError"), 2, &["added 6", "added 7"]),
        ("unexpected code", other(r#"{"kind":"Status","code":666}"#), 2, &["added 6", "added 7"]),
        ("unexpected type", other(r#"{"kind":"Surprise","apiVersion":"v9"}"#), 2, &["added 6", "added 7"]),
    ];
    for (name, first, watches, expected) in cases {
        let script = Script::new([first, watching(&[event("ADDED", "7")]).silence()]);
        assert_eq!(resumed(&script).await, expected, "{name}");
        assert_eq!(script.seen().len(), watches, "{name}");
    }
}

/// The upstream scenario RetryWatcherToFinishWithUnreadEvents.
#[tokio::test(start_paused = true)]
async fn rw_1_dropping_a_watch_with_unread_events_closes_it() {
    let script = Script::new([watching(&[event("ADDED", "6"), event("MODIFIED", "7")]).silence()]);
    let mut watch = maps(&script).watch_from(WatchParams::after("5")).expect("a version");
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert_eq!(script.open_bodies(), 1);
    drop(watch);
    assert_eq!(script.open_bodies(), 0);
}

#[tokio::test(start_paused = true)]
async fn rw_1_restarts_wait_at_least_a_second_and_as_long_as_retry_after() {
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
async fn rw_1_retry_after_counts_from_the_error_however_long_the_watch_was_open() {
    let minute = Duration::from_secs(60);
    let busy = watching(&[event("ADDED", "6")]).pause(minute);
    let busy = busy.chunk(format!("{}\n", error_event(429, "TooManyRequests", 30)));
    let script = Script::new([busy, watching(&[]).silence()]);
    let start = tokio::time::Instant::now();
    assert_eq!(resumed(&script).await, ["added 6"]);
    let at: Vec<_> = script.seen().iter().map(|it| (it.at - start).as_secs()).collect();
    assert_eq!(at, [0, 90]);
}

/// Collects the items of a watch that can never succeed, for an hour.
async fn hopeless(watch: impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>>) -> Vec<String> {
    let hour = tokio::time::sleep(Duration::from_secs(3600));
    let shown =
        |it: Result<_, Error>| it.map_or_else(|error| format!("{error}"), |event| format!("{event:?}"));
    watch.map(shown).take_until(hour).collect().await
}

#[tokio::test(start_paused = true)]
async fn rw_1_a_permanent_error_ends_the_watch_with_the_error() {
    let script = Script::new([]);
    let wrong_name = Api::<ConfigMap>::namespaced(script.client(), "a/b");
    let items = hopeless(wrong_name.watch_from(WatchParams::after("5")).expect("a version")).await;
    assert!(matches!(&items[..], [only] if only.contains("a/b")), "{items:?}");
    assert!(script.seen().is_empty());

    let html = || reply(200).header("content-type", "text/html").chunk("<html>");
    let script = Script::new((0..100).map(|_| html()));
    let items = hopeless(maps(&script).watch_from(WatchParams::after("5")).expect("a version")).await;
    assert!(matches!(&items[..], [only] if only.contains("text/html")), "{items:?}");
    assert_eq!(script.seen().len(), 1);

    let garbage = || reply(200).header("content-type", "application/json").chunk("this is no event\n");
    let script = Script::new((0..100).map(|_| garbage()));
    let items = hopeless(maps(&script).watch_from(WatchParams::after("5")).expect("a version")).await;
    assert_eq!((items.len(), script.seen().len()), (1, 1), "{items:?}");
}

#[tokio::test(start_paused = true)]
async fn rw_1_a_plugin_that_is_not_installed_ends_the_watch_with_the_error() {
    let mut config = Config::new("https://127.0.0.1:1".parse().expect("a URL"));
    config.auth.exec = Some(ExecConfig {
        api_version: "client.authentication.k8s.io/v1".to_owned(),
        command: "/nowhere/plugin".to_owned(),
        interactive_mode: Some(InteractiveMode::Never),
        ..ExecConfig::default()
    });
    let client = Client::new(config).expect("a client");
    let watch = Api::<ConfigMap>::namespaced(client, "a").watch_from(WatchParams::after("5"));
    let items = hopeless(watch.expect("a version")).await;
    assert!(matches!(&items[..], [only] if only.contains("credentials")), "{items:?}");
}

/// A Status of a server that is not written in Go.
#[tokio::test(start_paused = true)]
async fn rw_1_an_expiry_with_null_fields_is_an_expiry() {
    let expired = r#"{"type":"ERROR","object":{"kind":"Status","message":null,"reason":null,"code":410,"details":null}}"#;
    let script = Script::new([watching(&[event("ADDED", "6"), expired.to_owned()])]);
    assert_eq!(resumed(&script).await, ["added 6", "error 410"]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_gone_in_the_stream_is_delivered_and_ends_it() {
    for reason in ["Gone", "Expired"] {
        let script = Script::new([watching(&[event("ADDED", "6"), error_event(410, reason, 0)])]);
        assert_eq!(resumed(&script).await, ["added 6", "error 410"]);
        assert_eq!(script.seen().len(), 1);
    }
}

/// A `select!` loop polls all of its streams, also those that have ended.
#[tokio::test(start_paused = true)]
async fn a_watch_may_be_polled_after_its_end() {
    let script = Script::new([watching(&[error_event(410, "Gone", 0)])]);
    let mut watch = maps(&script).watch_from(WatchParams::after("5")).expect("a version");
    assert!(watch.next().await.is_some());
    for _ in 0..3 {
        assert!(watch.next().await.is_none());
    }
    let mut raw = maps(&Script::new([watching(&[])])).watch(&WatchParams::after("5")).await.expect("opened");
    for _ in 0..3 {
        assert!(raw.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn rw_1_missing_permissions_at_the_start_end_it_and_gone_at_the_start_does_not() {
    for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden")] {
        let script = Script::new([refusal(code, reason), watching(&[event("ADDED", "6")])]);
        assert_eq!(resumed(&script).await, [format!("error {code}")]);
    }
    let script = Script::new([refusal(410, "Gone"), watching(&[event("ADDED", "6")]).silence()]);
    assert_eq!(resumed(&script).await, ["added 6"]);
}

#[tokio::test(start_paused = true)]
async fn rw_1_an_event_without_a_version_ends_the_stream() {
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
async fn rw_1_a_poison_object_is_reported_once_and_skipped() {
    let poison = r#"{"type":"MODIFIED","object":{"metadata":{"name":"x","namespace":"a","resourceVersion":"7"},"data":5}}"#;
    let script = Script::new([watching(&[poison.to_owned()]), watching(&[event("MODIFIED", "8")]).silence()]);
    assert_eq!(resumed(&script).await, ["bad 7", "modified 8"]);
    assert!(script.targets()[1].ends_with("resourceVersion=7"));
}

/// kube-apiserver sends the columns with the first table of a watch, and `null` with all others.
#[tokio::test]
async fn a_watch_of_tables_continues_after_the_first_one() {
    use dogwatch_client::api::Table;
    let table = |columns: &str| {
        format!(
            r#"{{"type":"ADDED","object":{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"5"}},
            "columnDefinitions":{columns},"rows":[{{"cells":["a"],"object":{{"metadata":{{"name":"a"}}}}}}]}}}}"#
        )
    };
    let columns = r#"[{"name":"Name","type":"string","format":"name","description":"","priority":0}]"#;
    let script = Script::new([watching(&[table(columns), table("null")])]);
    let request = script.client().get().path(&["/api/v1/configmaps"]);
    let mut events = request.watch::<Table>(&WatchParams::default()).await.expect("a watch");
    for columns in [1, 0] {
        let event = events.next().await.expect("an event").expect("a table");
        let WatchEvent::Added(table) = event else { panic!("{event:?}") };
        assert_eq!((table.column_definitions.len(), table.rows.len()), (columns, 1));
    }
}
