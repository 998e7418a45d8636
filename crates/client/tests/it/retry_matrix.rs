//! The upstream matrix RetryableConditions with a whole client: conditions by method by use of the
//! response.
//!
//! Every attempt meets the same condition; two retries are allowed. The test checks the number of
//! attempts, their duration, and the result.

use std::io;
use std::time::Duration;

use dogwatch_client::transport::TransportErrorKind;
use dogwatch_client::{Api, BoxError, Client, Error};
use dogwatch_core::WatchParams;
use futures_util::StreamExt;
use http::Method;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use tokio::time::Instant;

use crate::scripted::{Reply, Script, fails_with, json, reply};

const VERBS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH];
/// The `Retry-After` of the server.
const RETRY_AFTER: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
enum Condition {
    /// The server answers, with or without `Retry-After`.
    Answers { code: u16, retry_after: bool },
    /// The connection fails with an error of the operating system, plain or wrapped in another.
    Fails { kind: io::ErrorKind, wrapped: bool },
    /// The server closes the connection instead of answering.
    HangsUp,
    /// The server sends GOAWAY instead of answering.
    GoesAway,
}

use Condition::{Answers, Fails, GoesAway, HangsUp};
use io::ErrorKind::{
    BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut, UnexpectedEof,
};

/// The use of the response.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Decode,
    Bytes,
    Stream,
    Watch,
}

/// The caller's result.
#[derive(Debug, PartialEq)]
enum CallResult {
    /// A response, or a watch without events.
    Response,
    Refused(u16),
    Broken(TransportErrorKind),
}

/// The requests that are retried.
#[derive(Clone, Copy, Debug)]
enum Retried {
    Always,
    Never,
    /// Only reads and watches.
    ReadsAndWatches,
    /// Only watches.
    Watches,
}

/// The seventeen conditions, in upstream's order. Go distinguishes some of them by their text; here
/// they are the errors that the texts mean.
const MATRIX: [(&str, Condition, Retried); 17] = [
    ("429 with Retry-After", Answers { code: 429, retry_after: true }, Retried::Always),
    ("503 with Retry-After", Answers { code: 503, retry_after: true }, Retried::Always),
    ("500 without Retry-After", Answers { code: 500, retry_after: false }, Retried::Never),
    ("429 without Retry-After", Answers { code: 429, retry_after: false }, Retried::Never),
    ("connection reset", Fails { kind: ConnectionReset, wrapped: false }, Retried::ReadsAndWatches),
    ("end of file", HangsUp, Retried::ReadsAndWatches),
    ("unexpected end of file", Fails { kind: UnexpectedEof, wrapped: false }, Retried::ReadsAndWatches),
    ("write on a broken connection", Fails { kind: BrokenPipe, wrapped: false }, Retried::ReadsAndWatches),
    ("GOAWAY", GoesAway, Retried::ReadsAndWatches),
    (
        "connection reset by peer, inside",
        Fails { kind: ConnectionReset, wrapped: true },
        Retried::ReadsAndWatches,
    ),
    (
        "use of a closed connection",
        Fails { kind: ConnectionAborted, wrapped: true },
        Retried::ReadsAndWatches,
    ),
    ("connection refused", Fails { kind: ConnectionRefused, wrapped: false }, Retried::Never),
    ("connection refused, inside", Fails { kind: ConnectionRefused, wrapped: true }, Retried::Never),
    ("end of file, inside", Fails { kind: UnexpectedEof, wrapped: true }, Retried::ReadsAndWatches),
    ("timeout", Fails { kind: TimedOut, wrapped: false }, Retried::Watches),
    ("success", Answers { code: 200, retry_after: false }, Retried::Never),
    ("redirect with Retry-After", Answers { code: 301, retry_after: true }, Retried::Never),
];

impl Condition {
    async fn reply(self, mode: Mode) -> Reply {
        match self {
            Answers { code: 200, .. } if mode != Mode::Watch => json(200, "{}"),
            Answers { code, retry_after: false } => reply(code),
            Answers { code, retry_after: true } => {
                reply(code).header("retry-after", RETRY_AFTER.as_secs().to_string())
            }
            Fails { kind, wrapped: false } => fails_with(io::Error::from(kind)),
            Fails { kind, wrapped: true } => fails_with(io::Error::other(io::Error::from(kind))),
            HangsUp => fails_with(hung_up().await),
            GoesAway => fails_with(went_away().await),
        }
    }

    fn wait(self) -> Duration {
        match self {
            Answers { .. } => RETRY_AFTER,
            _ => Duration::from_secs(1),
        }
    }

    fn got(self, mode: Mode) -> CallResult {
        match self {
            Answers { code: 200, .. } => CallResult::Response,
            Answers { code, .. } => CallResult::Refused(code),
            Fails { kind: ConnectionRefused, .. } => CallResult::Broken(TransportErrorKind::Refused),
            // A watch that cannot be opened for such a reason is returned as one that ended at once
            // (rule RQ-8).
            _ if mode == Mode::Watch => CallResult::Response,
            Fails { kind: TimedOut, .. } => CallResult::Broken(TransportErrorKind::Timeout),
            _ => CallResult::Broken(TransportErrorKind::Lost),
        }
    }
}

impl Retried {
    fn attempts(self, verb: &Method, mode: Mode) -> usize {
        let again = match self {
            Self::Always => true,
            Self::Never => false,
            Self::ReadsAndWatches => mode == Mode::Watch || (mode != Mode::Stream && *verb == Method::GET),
            Self::Watches => mode == Mode::Watch,
        };
        if again { 3 } else { 1 }
    }
}

/// Returns hyper's error for a server that closes the connection instead of answering.
async fn hung_up() -> BoxError {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.expect("a connection");
    tokio::spawn(connection);
    drop(theirs);
    let request = http::Request::new(Empty::<bytes::Bytes>::new());
    sender.send_request(request).await.expect_err("the server is gone").into()
}

/// Returns hyper's error for a server that sends GOAWAY instead of answering.
async fn went_away() -> BoxError {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = tokio::spawn(async move {
        let mut server = h2::server::handshake(theirs).await.expect("a client");
        let asked = server.accept().await;
        server.abrupt_shutdown(h2::Reason::NO_ERROR);
        while server.accept().await.is_some() {}
        drop(asked);
    });
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(ours))
            .await
            .expect("a connection");
    tokio::spawn(connection);
    let request =
        http::Request::get("https://script.test/").body(Empty::<bytes::Bytes>::new()).expect("a request");
    let error = sender.send_request(request).await.expect_err("no answer");
    server.abort();
    error.into()
}

async fn run(client: &Client, verb: &Method, mode: Mode) -> Result<(), Error> {
    let request = || client.request(verb.clone()).path(&["/x"]);
    match mode {
        Mode::Decode => request().send::<Value>().await.map(drop),
        Mode::Bytes => request().bytes().await.map(drop),
        Mode::Stream => request().stream().await.map(drop),
        Mode::Watch => {
            let maps = Api::<ConfigMap>::namespaced(client.clone(), "a");
            let events = maps.watch(&WatchParams::after("5")).await?;
            assert_eq!(events.count().await, 0, "a watch without events yields nothing");
            Ok(())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rq_6_retryable_conditions_by_verb_and_mode() {
    for (name, condition, again) in MATRIX {
        for mode in [Mode::Decode, Mode::Bytes, Mode::Stream, Mode::Watch] {
            // A watch is always a GET.
            let verbs = if mode == Mode::Watch { &VERBS[..1] } else { &VERBS[..] };
            for verb in verbs {
                let script = Script::default();
                for _ in 0..3 {
                    script.then([condition.reply(mode).await]);
                }
                let client = script.builder(|_| {}).max_retries(2).build().expect("valid settings");
                let start = Instant::now();
                let got = match run(&client, verb, mode).await {
                    Ok(()) => CallResult::Response,
                    Err(error) => match (error.status(), error.transport()) {
                        (Some(status), _) => CallResult::Refused(status.code),
                        (None, Some(kind)) => CallResult::Broken(kind),
                        (None, None) => panic!("{name} {mode:?} {verb}: {error}"),
                    },
                };
                let attempts = again.attempts(verb, mode);
                assert_eq!(script.seen().len(), attempts, "{name} {mode:?} {verb}");
                let waited = condition.wait() * (attempts as u32 - 1);
                assert_eq!(start.elapsed(), waited, "{name} {mode:?} {verb}");
                assert_eq!(got, condition.got(mode), "{name} {mode:?} {verb}");
            }
        }
    }
}
