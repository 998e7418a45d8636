//! Retries: which requests, when, how often, and with which errors of earlier attempts (rules RQ-5
//! to RQ-11).

use std::io::ErrorKind;
use std::time::Duration;

use dogwatch_client::config::RateLimit;
use dogwatch_client::{Config, Error, ServerBackoff};
use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use crate::scripted::{Reply, Script, fails, json, refusal, reply};

fn busy(code: u16, seconds: u32) -> Reply {
    reply(code).header("retry-after", seconds.to_string())
}

#[tokio::test(start_paused = true)]
async fn rq_6_handles_429_and_5xx_with_the_whole_body_each_time() {
    let script = Script::new([busy(429, 1), busy(500, 2), busy(501, 0), busy(504, 4), json(200, "{}")]);
    let start = Instant::now();
    let body = "abcd".repeat(1000);
    let request = script.client().post().path(&["/x"]).body("text/plain", body.clone());
    request.bytes().await.expect("answered in the end");
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    assert_eq!(script.seen().iter().map(|it| it.body.as_str()).collect::<Vec<_>>(), [body.as_str(); 5]);
}

#[tokio::test(start_paused = true)]
async fn rq_6_without_retry_after_nothing_is_retried() {
    for code in [429, 500, 502, 503, 504] {
        for method in [Method::GET, Method::POST] {
            let script = Script::new([reply(code), json(200, "{}")]);
            let result = script.client().request(method).path(&["/x"]).bytes().await;
            assert_eq!(result.expect_err("refused").status().map(|it| it.code), Some(code));
            assert_eq!(script.seen().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rq_6_connection_reset_by_peer_is_retried_for_get_only() {
    for (method, sent) in
        [(Method::GET, 3), (Method::POST, 1), (Method::PUT, 1), (Method::PATCH, 1), (Method::DELETE, 1)]
    {
        let reset = || fails(ErrorKind::ConnectionReset);
        let script = Script::new([reset(), reset(), json(200, "{}")]);
        let start = Instant::now();
        let result = script.client().request(method.clone()).path(&["/x"]).bytes().await;
        assert_eq!((result.is_ok(), script.seen().len()), (sent == 3, sent), "{method}");
        assert_eq!(start.elapsed(), Duration::from_secs(sent as u64 - 1), "one second between attempts");
    }
}

#[tokio::test(start_paused = true)]
async fn rq_6_connection_refused_is_never_retried() {
    let script = Script::new([fails(ErrorKind::ConnectionRefused), json(200, "{}")]);
    assert!(matches!(script.client().get().path(&["/x"]).bytes().await, Err(Error::Unreachable { .. })));
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rq_6_max_retries() {
    for (retries, attempts) in [(0, 1), (2, 3)] {
        let script = Script::new((0..20).map(|_| busy(429, 1)));
        let error =
            script.client().get().path(&["/x"]).max_retries(retries).bytes().await.expect_err("always busy");
        assert!(error.is_too_many_requests());
        assert_eq!(script.seen().len(), attempts);
    }
    for (retries, answered) in [(0, false), (1, true), (5, true)] {
        let script = Script::new([busy(429, 1), json(200, "{}")]);
        let result = script.client().get().path(&["/x"]).max_retries(retries).bytes().await;
        assert_eq!(result.is_ok(), answered, "{retries}");
    }
    let script = Script::new((0..20).map(|_| busy(429, 0)));
    assert!(script.client().get().path(&["/x"]).bytes().await.is_err());
    assert_eq!(script.seen().len(), 11, "10 retries by default");
}

#[tokio::test(start_paused = true)]
async fn rq_6_a_stream_is_retried_after_retry_after_but_not_after_a_lost_connection() {
    let script = Script::new([fails(ErrorKind::ConnectionReset), json(200, "{}")]);
    assert!(script.client().get().path(&["/x"]).stream().await.is_err());
    let script = Script::new([busy(503, 1), json(200, "{}")]);
    assert!(script.client().get().path(&["/x"]).stream().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn rq_9_wrap_previous_error() {
    let script = Script::new([fails(ErrorKind::ConnectionReset), refusal(404, "NotFound")]);
    let error = script.client().get().path(&["/x"]).send::<Value>().await.expect_err("refused");
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "NotFound - error from a previous attempt: connection reset");
    let script = Script::new([
        refusal(429, "TooManyRequests").header("retry-after", "1"),
        refusal(429, "TooManyRequests"),
    ]);
    let error = script.client().get().path(&["/x"]).send::<Value>().await.expect_err("refused");
    assert_eq!(error.to_string(), "TooManyRequests", "the same error twice is reported once");
}

#[tokio::test(start_paused = true)]
async fn rq_5_the_limit_is_shared_by_all_clones_and_spent_on_retries_too() {
    let script = Script::new([json(200, "{}"), busy(429, 0), json(200, "{}")]);
    let limit = |config: &mut Config| config.rate_limit = Some(RateLimit { qps: 1.0, burst: 1 });
    let client = script.builder(limit).build().expect("valid settings");
    let start = Instant::now();
    client.get().path(&["/x"]).bytes().await.expect("answered");
    client.clone().get().path(&["/x"]).bytes().await.expect("answered");
    let taken = start.elapsed();
    assert!((Duration::from_millis(1990)..Duration::from_millis(2050)).contains(&taken), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn rq_5_there_is_no_rate_limit_by_default() {
    let script = Script::new((0..200).map(|_| json(200, "{}")));
    let client = script.client();
    let start = Instant::now();
    for _ in 0..200 {
        client.get().path(&["/x"]).bytes().await.expect("answered");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn rq_5_waiting_for_the_limit_does_not_use_up_the_timeout() {
    let script = Script::new([json(200, "{}"), json(200, "{}")]);
    let limit = |config: &mut Config| config.rate_limit = Some(RateLimit { qps: 0.1, burst: 1 });
    let client = script.builder(limit).build().expect("valid settings");
    for _ in 0..2 {
        let request = client.get().path(&["/x"]).timeout(Duration::from_secs(1));
        request.bytes().await.expect("the wait of ten seconds comes before the limit of one");
    }
}

/// The upstream scenario TryThrottleWithInfoContextDeadline: dropping the request ends the wait;
/// there is no message about limits.
#[tokio::test(start_paused = true)]
async fn rq_5_a_request_dropped_while_it_waits_for_the_limit_is_never_sent() {
    let script = Script::new([json(200, "{}"), json(200, "{}")]);
    let limit = |config: &mut Config| config.rate_limit = Some(RateLimit { qps: 0.1, burst: 1 });
    let client = script.builder(limit).build().expect("valid settings");
    client.get().path(&["/x"]).bytes().await.expect("answered");
    let waiting = client.get().path(&["/x"]).bytes();
    assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rq_11_a_failing_server_slows_the_client_down_until_it_answers() {
    let script = Script::new([reply(500), reply(500), json(200, "{}"), json(200, "{}")]);
    let backoff = ServerBackoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let client = script.builder(|_| {}).server_backoff(backoff).build().expect("valid settings");
    let start = Instant::now();
    for _ in 0..4 {
        let _ = client.get().path(&["/x"]).bytes().await;
    }
    let at: Vec<_> = script.seen().iter().map(|it| (it.at - start).as_secs()).collect();
    assert_eq!(at, [0, 1, 3, 3]);
}

/// The upstream scenario BackoffLifecycle: four failures, a success, three failures, a success.
#[tokio::test(start_paused = true)]
async fn rq_11_backoff_lifecycle() {
    let codes = [504, 504, 504, 504, 200, 504, 504, 504, 200, 504];
    let script = Script::new(codes.map(reply));
    let backoff = ServerBackoff::new(Duration::from_secs(1), Duration::from_secs(200));
    let client = script.builder(|_| {}).server_backoff(backoff).build().expect("valid settings");
    for expected in [0, 1, 2, 4, 8, 0, 1, 2, 4, 0] {
        let start = Instant::now();
        let _ = client.post().path(&["/x"]).bytes().await;
        assert_eq!(start.elapsed(), Duration::from_secs(expected));
    }
}

/// The upstream scenario URLBackoffFunctionalityCollisions: the backoff is per server, whatever the
/// path.
#[tokio::test(start_paused = true)]
async fn rq_11_all_paths_of_a_server_share_one_backoff_and_another_server_has_its_own() {
    let (failing, sound) = (Script::new([reply(500), reply(200)]), Script::new([reply(200)]));
    let backoff = ServerBackoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let client =
        |script: &Script| script.builder(|_| {}).server_backoff(backoff).build().expect("valid settings");
    let (one, other) = (client(&failing), client(&sound));
    let start = Instant::now();
    one.get().path(&["/a"]).bytes().await.expect_err("refused");
    other.get().path(&["/a"]).bytes().await.expect("answered");
    assert_eq!(start.elapsed(), Duration::ZERO, "another server is asked at once");
    one.get().path(&["/b"]).bytes().await.expect("answered");
    assert_eq!(start.elapsed(), Duration::from_secs(1), "another path waits");
}

#[tokio::test(start_paused = true)]
async fn rq_11_the_longer_of_backoff_and_retry_after_counts() {
    let script = Script::new([busy(503, 1), busy(503, 9), json(200, "{}")]);
    let backoff = ServerBackoff::new(Duration::from_secs(4), Duration::from_secs(60));
    let client = script.builder(|_| {}).server_backoff(backoff).build().expect("valid settings");
    let start = Instant::now();
    client.get().path(&["/x"]).bytes().await.expect("answered in the end");
    let at: Vec<_> = script.seen().iter().map(|it| (it.at - start).as_secs()).collect();
    assert_eq!(at, [0, 4, 13]);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_request_cancels_its_attempts() {
    let script = Script::new([busy(503, 60), json(200, "{}")]);
    let request = script.client().get().path(&["/x"]).bytes();
    assert!(tokio::time::timeout(Duration::from_secs(1), request).await.is_err());
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rq_10_an_error_response_whose_body_never_ends_is_still_an_error_response() {
    let endless = || busy(503, 1).chunk("half a ").silence();
    let script = Script::new([endless(), json(200, "{}")]);
    let start = Instant::now();
    script.client().get().path(&["/x"]).bytes().await.expect("answered in the end");
    assert_eq!(start.elapsed(), Duration::from_secs(6), "five for the body, one for Retry-After");
    let script = Script::new([reply(404).chunk("half a ").silence()]);
    assert!(script.client().get().path(&["/x"]).bytes().await.expect_err("refused").is_not_found());
}
