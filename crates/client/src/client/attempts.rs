//! The loop that attempts one request until it succeeds or fails for good.
//!
//! ```text
//! rate limit ─► attempt ─► outcome ─► policy ─┬─► wait, and attempt again
//!                                             └─► the response, or the error
//! ```
//!
//! [`crate::exchange::retry`] decides, without I/O; this file does what it decides.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::Instrument;

use super::client::Client;
use super::prepared::{OpenResponse, Prepared};
use super::stack::HttpService;
use crate::body::{BoxError, RequestBody, ResponseBody};
use crate::error::{Error, InvalidRequest};
use crate::exchange::error_response::{self, RequestInfo};
use crate::exchange::retry::{self, Outcome, Policy};
use crate::exchange::{ServerBackoff, warning};
use crate::transport::TransportErrorKind;

/// The number of bytes of an error response that are read.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
/// The time limit for reading the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of bytes of a response that are read, to reuse the connection, before the request is
/// retried (rule RQ-10). `maxBodySlurpSize` in client-go v0.36.4 `rest/with_retry.go`.
const MAX_DRAINED_BYTES: usize = 2048;

impl Client {
    /// Sends a request, with retries, until it succeeds or fails for good.
    ///
    /// The first attempt does not wait for the client-side rate limit: the caller does, with
    /// [`Self::throttle`], before the time limit of the request begins. Only a watch skips the rate
    /// limit: watches are long and few (rule RQ-5).
    ///
    /// The body of the response is not read. Dropping the future cancels the attempt in progress.
    pub(crate) async fn exchange(&self, request: &Prepared) -> Result<OpenResponse, Error> {
        self.attempts(request, &mut None).await
    }

    /// Like [`Self::exchange`], but reads the whole body. All of it happens within the request's
    /// time limit, which begins when the client-side rate limit has admitted the request.
    pub(crate) async fn exchange_and_read(
        &self,
        request: &Prepared,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        self.throttle(request).await;
        let mut previous = None;
        let read = async {
            let answer = self.attempts(request, &mut previous).await?;
            let body = self.read_whole(request, answer.body).await?;
            Ok((answer.code, answer.headers, body))
        };
        let Some(limit) = request.timeout else { return read.await };
        match tokio::time::timeout(limit, read).await {
            Ok(read) => read,
            Err(_) => Err(Error::TimedOut(limit).after(previous)),
        }
    }

    async fn read_whole(&self, request: &Prepared, body: ResponseBody) -> Result<Bytes, Error> {
        let limit = self.inner.max_response_bytes;
        let Some(body) = read_within(body, limit).await.map_err(|error| self.connection_error(error))? else {
            let request = format!("{} {}", request.method, request.template);
            let problem = format!(
                "it is longer than {limit} bytes; read it as a stream, or raise max_response_bytes of the client"
            );
            return Err(Error::Malformed { request, problem });
        };
        self.record_response_size(&request.method, body.len());
        Ok(body)
    }

    /// Records the size of a response that was read to its end.
    pub(crate) fn record_response_size(&self, method: &Method, bytes: usize) {
        self.inner.metrics_recorder.response_read(method, bytes);
    }

    /// Returns the stack that requests go through.
    pub(crate) fn service(&self) -> HttpService {
        self.inner.service.clone()
    }

    /// Converts an error of the stack, adding the server's address for messages.
    pub(crate) fn connection_error(&self, error: BoxError) -> Error {
        Error::from_stack(error, self.inner.server.as_str())
    }

    /// Attempts the request until one attempt is final. `previous` receives the error of an earlier
    /// attempt, for a caller that cuts this short.
    async fn attempts(
        &self,
        request: &Prepared,
        previous: &mut Option<Error>,
    ) -> Result<OpenResponse, Error> {
        let span = tracing::debug_span!("request", method = %request.method, path = request.template);
        self.attempts_in_span(request, previous).instrument(span).await
    }

    async fn attempts_in_span(
        &self,
        request: &Prepared,
        previous: &mut Option<Error>,
    ) -> Result<OpenResponse, Error> {
        let max_retries = request.max_retries.unwrap_or(self.inner.max_retries);
        let policy = Policy { method: &request.method, mode: request.mode, max_retries };
        for attempt in 0.. {
            if attempt > 0 {
                self.throttle(request).await;
            } else if let Some(backoff) = self.server_backoff() {
                tokio::time::sleep(backoff).await;
            }
            let (outcome, result) = self.attempt(request, &policy, attempt).await;
            let wait = policy.decide(attempt, outcome);
            match (result, wait) {
                (Ok(answer), _) => return Ok(answer),
                (Err(error), None) => return Err(error.after(previous.take())),
                (Err(error), Some(wait)) => {
                    let wait = wait.max(self.server_backoff().unwrap_or_default());
                    tracing::debug!(attempt, ?wait, %error, "sending the request again");
                    // A response that asks for a retry (`Retry-After`) is no failure: only a failed
                    // connection is kept for the final message.
                    if matches!(outcome, Outcome::Failed(_)) {
                        *previous = Some(error);
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
        unreachable!("the number of attempts is limited by the policy")
    }

    /// Makes one attempt; returns its outcome for the retry policy and its result for the caller.
    async fn attempt(
        &self,
        request: &Prepared,
        policy: &Policy<'_>,
        attempt: u32,
    ) -> (Outcome, Result<OpenResponse, Error>) {
        let start = Instant::now();
        let sent = match self.http_request(request) {
            Ok(sent) => sent,
            Err(error) => return (Outcome::Failed(TransportErrorKind::Config), Err(error)),
        };
        let answered = self.inner.service.clone().oneshot(sent).await;
        let code = answered.as_ref().ok().map(http::Response::status);
        self.inner.metrics_recorder.attempt(
            &request.method,
            attempt,
            start.elapsed(),
            request.body.len(),
            code,
        );
        let response = match answered {
            Ok(response) => response,
            Err(error) => {
                let kind = TransportErrorKind::of(error.as_ref());
                return (Outcome::Failed(kind), Err(self.connection_error(error)));
            }
        };
        let (parts, body) = response.into_parts();
        warning::parse(&parts.headers).iter().for_each(|it| self.warnings.warn(it));
        let count = |failures| Some(ServerBackoff::count(failures, parts.status));
        let _ = self.inner.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        let outcome =
            Outcome::Answered { code: parts.status, retry_after: retry::retry_after(&parts.headers) };
        if error_response::is_success(parts.status) {
            let (code, headers, extensions) = (parts.status, parts.headers, parts.extensions);
            return (outcome, Ok(OpenResponse { code, headers, extensions, body }));
        }
        let again = policy.decide(attempt, outcome).is_some();
        let limit = if again { MAX_DRAINED_BYTES } else { MAX_ERROR_BODY_BYTES };
        // An error response whose body breaks off is still an error response: the code says enough.
        let body =
            tokio::time::timeout(ERROR_BODY_TIMEOUT, read_up_to(body, limit)).await.unwrap_or_default();
        let info = RequestInfo { method: &request.method, resource: &request.resource, name: &request.name };
        (outcome, Err(error_response::to_status(info, parts.status, &parts.headers, &body).into()))
    }

    fn http_request(&self, request: &Prepared) -> Result<http::Request<RequestBody>, Error> {
        let server = &self.inner.server;
        let text = format!("{}{}", server.as_str().trim_end_matches('/'), request.target);
        let uri =
            Uri::try_from(text).map_err(|_| InvalidRequest::Address(path_of(&request.target).to_owned()))?;
        let mut sent = http::Request::new(Full::new(request.body.clone()));
        *sent.method_mut() = request.method.clone();
        *sent.uri_mut() = uri;
        *sent.headers_mut() = request.headers.clone();
        if let Some(impersonate) = &request.impersonate {
            sent.extensions_mut().insert(impersonate.clone());
        }
        Ok(sent)
    }

    /// Waits for the client-side rate limit.
    pub(crate) async fn throttle(&self, request: &Prepared) {
        let Some(limiter) = &self.inner.limiter else { return };
        let waited = limiter.wait().await;
        self.inner.metrics_recorder.throttled(&request.method, waited);
        if waited > Duration::from_secs(1) {
            tracing::info!(?waited, path = request.template, "request delayed by the client-side rate limit");
        }
    }

    fn server_backoff(&self) -> Option<Duration> {
        let failures = self.inner.failures.load(Ordering::Relaxed);
        self.inner.backoff.map(|it| it.delay(failures)).filter(|it| !it.is_zero())
    }
}

/// Returns a target without its query, which may hold values that do not belong in a message.
fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// Reads a whole body; returns `None` if it is longer than the limit, and leaves the rest unread.
async fn read_within(mut body: ResponseBody, limit: usize) -> Result<Option<Bytes>, BoxError> {
    let mut read = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let chunk = frame?.into_data().unwrap_or_default();
        if chunk.len() > limit - read.len() - first.len() {
            return Ok(None);
        }
        // Most bodies are one chunk, which is passed on without a copy.
        if first.is_empty() && read.is_empty() {
            first = chunk;
            continue;
        }
        read.extend_from_slice(&std::mem::take(&mut first));
        read.extend_from_slice(&chunk);
    }
    Ok(Some(if read.is_empty() { first } else { read.freeze() }))
}

/// Reads the start of a body: up to the limit, or to where the connection breaks.
async fn read_up_to(mut body: ResponseBody, limit: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let chunk = frame.into_data().unwrap_or_default();
        let room = limit - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if read.len() == limit {
            break;
        }
    }
    read
}
