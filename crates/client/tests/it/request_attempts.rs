//! Repeated attempts in every mode: their number, their order with limits and waits, the errors
//! kept of earlier attempts, and the bodies released (rules RQ-5 to RQ-11).

use std::io::ErrorKind;
use std::time::Duration;

use dogwatch_client::config::RateLimit;
use dogwatch_client::{Api, Client, Config, Error, ServerBackoff};
use dogwatch_core::WatchParams;
use futures_util::StreamExt;
use futures_util::future::join_all;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use metrics_util::debugging::DebuggingRecorder;
use tokio::time::Instant;

use crate::scripted::{Reply, Script, fails, json, reply};

/// A response that upstream calls a retry-after response.
fn later(seconds: u32) -> Reply {
    reply(500).header("retry-after", seconds.to_string())
}

fn lost() -> Reply {
    fails(ErrorKind::UnexpectedEof)
}

fn client(script: &Script, retries: u32) -> Client {
    script.builder(|_| {}).max_retries(retries).build().expect("valid settings")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Decode,
    Bytes,
    Stream,
    Watch,
}

use Mode::{Bytes, Decode, Stream, Watch};

impl Mode {
    const ALL: [Self; 4] = [Decode, Bytes, Stream, Watch];

    /// Sends a GET and reads the response to its end.
    async fn run(self, client: &Client) -> Result<(), Error> {
        let request = client.get().path(&["/x"]);
        match self {
            Decode => request.send::<serde_json::Value>().await.map(drop),
            Bytes => request.bytes().await.map(drop),
            Stream => {
                let body = request.stream().await?;
                body.collect().await.map(drop).expect("the body is whole");
                Ok(())
            }
            Watch => {
                let maps = Api::<ConfigMap>::namespaced(client.clone(), "a");
                maps.watch(&WatchParams::after("5")).await?.for_each(async |_| {}).await;
                Ok(())
            }
        }
    }

    fn success(self) -> Reply {
        if self == Watch { reply(200) } else { json(200, "{}") }
    }
}

/// The upstream scenarios RequestDoWithRetry, …DoRaw…, …Stream… and …Watch…: the attempts, and no
/// response body is kept open.
#[tokio::test(start_paused = true)]
async fn rq_6_request_with_retry_in_every_mode() {
    for mode in Mode::ALL {
        let scripts = [
            (Script::new([later(0), later(0), later(0)]), 3, 3),
            (Script::new([lost(), lost(), lost()]), 3, 1),
            // A stream of bytes is never retried after a lost connection.
            (Script::new([later(0), lost(), mode.success()]), 3, 2),
        ];
        for (at, (script, attempts, as_stream)) in scripts.into_iter().enumerate() {
            let result = mode.run(&client(&script, 2)).await;
            let expected = if mode == Stream { as_stream } else { attempts };
            assert_eq!(script.seen().len(), expected, "{mode:?} {at}");
            let good = at == 2 && mode != Stream || at == 1 && mode == Watch;
            assert_eq!(result.is_ok(), good, "{mode:?} {at}");
            assert_eq!(script.open_bodies(), 0, "{mode:?} {at}");
        }
    }
}

/// The upstream scenario RequestWithRetry: with and without a body. A body is always held in
/// memory, so it can always be sent again.
#[tokio::test(start_paused = true)]
async fn rq_6_a_request_is_retried_with_its_body() {
    for body in ["", "bytes"] {
        let script = Script::new([later(0), later(0)]);
        let request = client(&script, 1).get().path(&["/x"]).body("text/plain", body);
        assert!(request.bytes().await.expect_err("refused").status().is_some_and(|it| it.code == 500));
        let script_2 = Script::new([lost(), lost()]);
        let request = client(&script_2, 1).get().path(&["/x"]).body("text/plain", body);
        assert!(matches!(request.bytes().await, Err(Error::Unreachable { .. })));
        for seen in [script.seen(), script_2.seen()] {
            assert_eq!(seen.iter().map(|it| it.body.as_str()).collect::<Vec<_>>(), [body, body]);
        }
    }
}

/// The upstream scenario CheckRetryClosesBody.
#[tokio::test(start_paused = true)]
async fn rq_10_the_body_of_every_failed_attempt_is_released() {
    let busy = || reply(429).header("retry-after", "1").chunk("Too many requests, please try again later.");
    let script = Script::new([busy(), busy(), busy(), busy(), reply(200)]);
    let start = Instant::now();
    let request = script.client().post().path(&["/x"]).body("text/plain", "abcd".repeat(1000));
    request.bytes().await.expect("answered in the end");
    let at: Vec<_> = script.seen().iter().map(|it| (it.at - start).as_secs()).collect();
    assert_eq!(at, [0, 1, 2, 3, 4]);
    assert_eq!(script.open_bodies(), 0);
    // An endless body is not awaited: 2 KiB of it are read, and the rest is dropped.
    let endless = reply(429).header("retry-after", "1").chunk(vec![b'x'; 4096]).silence();
    let script = Script::new([endless, reply(200)]);
    let start = Instant::now();
    script.client().get().path(&["/x"]).bytes().await.expect("answered in the end");
    assert_eq!((start.elapsed(), script.open_bodies()), (Duration::from_secs(1), 0));
}

/// The last error response is read whole, however long it is: the caller gets it.
#[tokio::test(start_paused = true)]
async fn rq_12_the_status_of_the_last_attempt_is_whole() {
    let message = "because ".repeat(1000);
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,"message":"{message}"}}"#
    );
    let refusal = || json(504, body.clone()).header("retry-after", "1");
    let script = Script::new([refusal(), refusal()]);
    let error = client(&script, 1).get().path(&["/x"]).bytes().await.expect_err("refused");
    assert_eq!(error.status().map(|it| it.message.len()), Some(message.len()), "{error}");
}

/// The upstream scenarios …RetryWithRateLimiterBackoffAndMetrics and …WithRetryInvokeOrder: first
/// the longer of `Retry-After` and backoff, then the client-side rate limit; the first attempt of a
/// watch is not limited.
#[tokio::test(start_paused = true)]
async fn rq_6_the_longer_wait_comes_before_the_rate_limit() {
    let limit = |config: &mut Config| config.rate_limit = Some(RateLimit { qps: 0.1, burst: 1 });
    for mode in Mode::ALL {
        for (asked, base, expected) in [(5, 1, 5), (2, 4, 4)] {
            let script = Script::new([later(asked), mode.success()]);
            let backoff = ServerBackoff::new(Duration::from_secs(base), Duration::from_secs(60));
            let client =
                script.builder(limit).server_backoff(backoff).max_retries(1).build().expect("valid settings");
            let start = Instant::now();
            mode.run(&client).await.expect("answered in the end");
            let at: Vec<_> = script.seen().iter().map(|it| (it.at - start).as_secs()).collect();
            // The first attempt took the only token; the next token comes after ten seconds. If the
            // rate limit came before the wait, both would add up.
            let second = if mode == Watch { expected } else { 10 };
            assert_eq!(at, [0, second], "{mode:?}");
        }
    }
}

#[test]
fn rq_17_every_attempt_is_counted_by_its_code_in_every_mode() {
    for mode in Mode::ALL {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let script = Script::new([later(1), mode.success()]);
        metrics::with_local_recorder(&recorder, || {
            let run = async { mode.run(&client(&script, 1)).await };
            runtime.expect("a runtime").block_on(run).expect("answered in the end");
        });
        let mut counted: Vec<_> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .filter(|(key, ..)| key.key().labels().any(|it| it.key() == "code"))
            .map(|(key, _, _, value)| {
                let code = key.key().labels().find(|it| it.key() == "code").expect("a code");
                format!("{} {} {value:?}", key.key().name(), code.value())
            })
            .collect();
        counted.sort();
        assert_eq!(
            counted,
            [
                "rest_client_request_retries_total 200 Counter(1)",
                "rest_client_requests_total 200 Counter(1)",
                "rest_client_requests_total 500 Counter(1)",
            ],
            "{mode:?}"
        );
    }
}

/// The upstream scenarios RequestDoWithWrapPreviousError and RequestWatch…, case by case.
#[tokio::test(start_paused = true)]
async fn rq_9_wrap_previous_error_case_by_case() {
    let eof = || fails(ErrorKind::UnexpectedEof);
    let reset = || fails(ErrorKind::ConnectionReset);
    // An error that is not retried.
    let fatal = || fails(ErrorKind::PermissionDenied);
    for mode in [Decode, Watch] {
        // The number of retries, the server's responses, and the final error if there is one: with
        // or without an earlier error.
        type Case = (u32, Vec<Reply>, Option<Option<&'static str>>);
        let cases: Vec<Case> = vec![
            (2, vec![mode.success()], None),
            (2, vec![later(0), later(0), mode.success()], None),
            (2, vec![eof(), eof(), mode.success()], None),
            (2, vec![fatal()], Some(None)),
            (2, vec![later(0), later(0), fatal()], Some(None)),
            (3, vec![eof(), later(0), later(0), fatal()], Some(Some("unexpected end of file"))),
            (
                8,
                vec![later(0), later(0), reset(), later(0), later(0), eof(), later(0), later(0), fatal()],
                Some(Some("unexpected end of file")),
            ),
            (3, vec![eof(), fatal()], Some(Some("unexpected end of file"))),
            (2, vec![reset(), eof(), fatal()], Some(Some("unexpected end of file"))),
        ];
        for (at, (retries, replies, failure)) in cases.into_iter().enumerate() {
            let attempts = replies.len();
            let script = Script::new(replies);
            let result = mode.run(&client(&script, retries)).await;
            assert_eq!(script.seen().len(), attempts, "{mode:?} {at}");
            let Some(previous) = failure else {
                result.expect("answered in the end");
                continue;
            };
            let error = result.expect_err("failed in the end");
            let end = previous.map(|it| format!(" - error from a previous attempt: {it}"));
            assert_eq!(error.to_string().contains(" - error from"), end.is_some(), "{mode:?} {at}: {error}");
            assert!(error.to_string().ends_with(&end.unwrap_or_default()), "{mode:?} {at}: {error}");
            // The last error is the one that counts.
            let current = if let Error::AfterRetries(error) = error { *error.current } else { error };
            let Error::Unreachable { source, .. } = current else { panic!("{mode:?} {at}: {current}") };
            assert_eq!(source.to_string(), "permission denied", "{mode:?} {at}");
        }
    }
}

/// The wait for another attempt is part of the time limit; the earlier error is part of the
/// message.
#[tokio::test(start_paused = true)]
async fn rq_9_a_request_that_times_out_reports_the_previous_error() {
    let script = Script::new([lost(), reply(200).silence()]);
    let request = script.client().get().path(&["/x"]).timeout(Duration::from_secs(3));
    let error = request.bytes().await.expect_err("no whole answer");
    assert_eq!(
        error.to_string(),
        "no answer from the API server within 3s - error from a previous attempt: unexpected end of file"
    );
    let script = Script::new([reply(500).header("retry-after", "60")]);
    let request = script.client().get().path(&["/x"]).timeout(Duration::from_secs(3));
    let error = request.bytes().await.expect_err("no whole answer");
    assert_eq!(error.to_string(), "no answer from the API server within 3s");
}

/// The upstream scenario RequestConcurrencyWithRetry.
#[tokio::test(start_paused = true)]
async fn rq_6_twenty_requests_at_once_have_ten_attempts_each() {
    let script = Script::new((0..300).map(|_| later(1)));
    let client = client(&script, 9);
    let request = client.post().path(&["/x"]);
    let answers = join_all((0..20).map(|_| request.clone().bytes())).await;
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(script.seen().len(), 200);
}

#[tokio::test(start_paused = true)]
async fn rq_5_the_time_limit_of_a_stream_begins_after_the_client_side_rate_limit() {
    let script = Script::new([reply(200).chunk("a"), reply(200).chunk("b")]);
    let limit = RateLimit { qps: 0.1, burst: 1 };
    let client = script.builder(|config| config.rate_limit = Some(limit)).build().expect("valid settings");
    for _ in 0..2 {
        let request = client.get().path(&["/x"]).timeout(Duration::from_secs(5));
        request.stream().await.expect("the server answers at once");
    }
}
