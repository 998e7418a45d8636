//! The retry policy of a request (rules RQ-6, RQ-8, RQ-11): pure decisions, no clock.
//!
//! ```text
//! answered 429 or 5xx, with Retry-After ──► retry after max(Retry-After, backoff), any method
//! connection lost, GET/HEAD/OPTIONS     ──► retry after 1 s
//! connection lost or timed out, watch   ──► retry after 1 s
//! anything else                         ──► final
//! ```
//!
//! A server that sends `Retry-After` did not execute the request, so any method may be retried.
//! After a lost connection that is unknown: a POST may have been executed, and is never repeated.

use std::time::Duration;

use dogwatch_core::ExponentialDelay;
use http::{HeaderMap, Method, StatusCode};

use crate::transport::TransportErrorKind;

/// The default maximum number of retries, as in client-go.
pub const DEFAULT_MAX_RETRIES: u32 = 10;

/// The wait after a lost connection, as in client-go.
const AFTER_LOST_CONNECTION: Duration = Duration::from_secs(1);

/// The caller's use of the response, which decides how a lost connection is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The response is read whole.
    Whole,
    /// The response is read as a stream of bytes.
    Stream,
    /// The response is read as a stream of events that can be resumed.
    Watch,
}

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server answered.
    Answered { code: StatusCode, retry_after: Option<Duration> },
    /// The connection failed.
    Failed(TransportErrorKind),
}

/// The inputs of a decision, besides the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy<'a> {
    pub(crate) method: &'a Method,
    pub(crate) mode: Mode,
    pub(crate) max_retries: u32,
}

impl Policy<'_> {
    /// Returns the wait before the next attempt, or `None` if this outcome is final.
    ///
    /// `attempt` counts from 0: with `max_retries` of 2 there are 3 attempts.
    pub(crate) fn decide(&self, attempt: u32, outcome: Outcome) -> Option<Duration> {
        if attempt >= self.max_retries { None } else { self.delay(outcome) }
    }

    fn delay(&self, outcome: Outcome) -> Option<Duration> {
        match outcome {
            Outcome::Answered { code, retry_after } => {
                // `checkWait` in client-go v0.36.4 `rest/with_retry.go`.
                let overloaded = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
                retry_after.filter(|_| overloaded)
            }
            Outcome::Failed(kind) => self.is_retryable(kind).then_some(AFTER_LOST_CONNECTION),
        }
    }

    fn is_retryable(&self, kind: TransportErrorKind) -> bool {
        let harmless = matches!(*self.method, Method::GET | Method::HEAD | Method::OPTIONS);
        match self.mode {
            Mode::Whole => harmless && kind == TransportErrorKind::Lost,
            Mode::Watch => matches!(kind, TransportErrorKind::Lost | TransportErrorKind::Timeout),
            Mode::Stream => false,
        }
    }
}

/// Returns the `Retry-After` of a response in whole seconds; a date is ignored, as in client-go.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A backoff for a client whose server keeps failing (rule RQ-11). Off by default.
///
/// Each 429 or 5xx doubles the wait before the next request, up to a maximum; any other response
/// resets it.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::ServerBackoff;
///
/// let backoff = ServerBackoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// let variables = |name: &str| match name {
///     "KUBE_CLIENT_BACKOFF_BASE" => Some("1".to_owned()),
///     _ => Some("60".to_owned()),
/// };
/// assert_eq!(ServerBackoff::from_vars(variables), Some(backoff));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerBackoff {
    base: Duration,
    max: Duration,
}

impl ServerBackoff {
    /// Creates a backoff of `base` after the first failure, doubled after each further one, up to
    /// `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// Reads `KUBE_CLIENT_BACKOFF_BASE` and `KUBE_CLIENT_BACKOFF_DURATION`, in seconds; both must
    /// be positive. Returns `None` otherwise.
    pub fn from_vars(read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let seconds =
            |name: &str| read(name)?.trim().parse().ok().filter(|it| *it > 0).map(Duration::from_secs);
        Some(Self::new(seconds("KUBE_CLIENT_BACKOFF_BASE")?, seconds("KUBE_CLIENT_BACKOFF_DURATION")?))
    }

    /// Returns the wait after this number of failures in a row.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        ExponentialDelay::doubling(self.base, self.max).after(failures)
    }

    /// Returns the number of failures in a row after one more response.
    pub(crate) fn count(failures: u32, code: StatusCode) -> u32 {
        let failed = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
        if failed { failures.saturating_add(1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn answered(code: u16, retry_after: Option<u64>) -> Outcome {
        let code = StatusCode::from_u16(code).expect("a status code");
        Outcome::Answered { code, retry_after: retry_after.map(Duration::from_secs) }
    }

    /// The matrix of client-go's `TestRetryableConditions`: conditions by method by mode.
    #[test]
    fn rq_6_retryable_conditions() {
        use TransportErrorKind::{Dns, Lost, Other, Proxy, Refused, Timeout, Tls};
        let harmless: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS];
        let writing: &[Method] = &[Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        // Condition, then the expected retry: whole and safe, whole and writing, stream, watch.
        let matrix: &[(Outcome, [bool; 4])] = &[
            (answered(200, None), [false; 4]),
            (answered(200, Some(1)), [false; 4]),
            (answered(301, Some(1)), [false; 4]),
            (answered(400, Some(1)), [false; 4]),
            (answered(404, Some(1)), [false; 4]),
            (answered(409, Some(1)), [false; 4]),
            (answered(429, None), [false; 4]),
            (answered(429, Some(1)), [true; 4]),
            (answered(500, None), [false; 4]),
            (answered(500, Some(1)), [true; 4]),
            (answered(502, Some(1)), [true; 4]),
            (answered(503, None), [false; 4]),
            (answered(503, Some(1)), [true; 4]),
            (answered(504, Some(1)), [true; 4]),
            (Outcome::Failed(Lost), [true, false, false, true]),
            (Outcome::Failed(Timeout), [false, false, false, true]),
            (Outcome::Failed(Refused), [false; 4]),
            (Outcome::Failed(Tls), [false; 4]),
            (Outcome::Failed(Proxy), [false; 4]),
            (Outcome::Failed(Dns), [false; 4]),
            (Outcome::Failed(Other), [false; 4]),
        ];
        for &(outcome, [whole, writes, stream, watch]) in matrix {
            let again =
                |method: &Method, mode| Policy { method, mode, max_retries: 1 }.decide(0, outcome).is_some();
            for method in harmless {
                assert_eq!(again(method, Mode::Whole), whole, "{method} {outcome:?}");
            }
            for method in writing {
                assert_eq!(again(method, Mode::Whole), writes, "{method} {outcome:?}");
            }
            for method in harmless.iter().chain(writing) {
                assert_eq!(again(method, Mode::Stream), stream, "stream {method} {outcome:?}");
            }
            assert_eq!(again(&Method::GET, Mode::Watch), watch, "watch {outcome:?}");
        }
    }

    /// The cases of client-go's `TestIsNextRetry`. An attempt ends with a response or an error, so
    /// "neither" and "both" are left out.
    #[test]
    fn rq_6_is_next_retry() {
        let lost = Outcome::Failed(TransportErrorKind::Lost);
        let seconds = |it| Some(Duration::from_secs(it));
        for (max_retries, outcome, expected) in [
            (0, answered(429, Some(1)), vec![None]),
            (3, lost, vec![seconds(1)]),
            (3, answered(429, Some(2)), vec![seconds(2)]),
            (3, answered(503, Some(3)), vec![seconds(3)]),
            (1, answered(429, None), vec![None]),
            (3, lost, vec![seconds(1), seconds(1), seconds(1), None]),
        ] {
            let policy = Policy { method: &Method::GET, mode: Mode::Whole, max_retries };
            let decided: Vec<_> = (0..).zip(&expected).map(|(at, _)| policy.decide(at, outcome)).collect();
            assert_eq!(decided, expected, "{max_retries} {outcome:?}");
        }
    }

    #[test]
    fn rq_6_two_retries_are_three_attempts() {
        let policy = Policy { method: &Method::GET, mode: Mode::Whole, max_retries: 2 };
        let outcome = answered(429, Some(7));
        let waits: Vec<_> = (0..4).map(|attempt| policy.decide(attempt, outcome)).collect();
        assert_eq!(waits, [Some(7 * SECOND), Some(7 * SECOND), None, None]);
        let never = Policy { max_retries: 0, ..policy };
        assert_eq!(never.decide(0, outcome), None);
    }

    #[test]
    fn rq_6_only_whole_seconds_count_as_retry_after() {
        for (value, expected) in [
            ("3", Some(3)),
            (" 0 ", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ] {
            let headers =
                HeaderMap::from_iter([(http::header::RETRY_AFTER, value.parse().expect("a header"))]);
            assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn rq_11_failures_double_the_wait_and_a_success_resets_it() {
        let backoff = ServerBackoff::new(SECOND, 5 * SECOND);
        let waits: Vec<_> = (0..6).map(|failures| backoff.delay(failures).as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 4, 5, 5]);
        assert_eq!(backoff.delay(u32::MAX), 5 * SECOND);
        assert_eq!(ServerBackoff::count(3, StatusCode::TOO_MANY_REQUESTS), 4);
        assert_eq!(ServerBackoff::count(3, StatusCode::BAD_GATEWAY), 4);
        assert_eq!(ServerBackoff::count(3, StatusCode::NOT_FOUND), 0);
    }

    #[test]
    fn rq_11_backoff_is_off_unless_both_variables_are_positive() {
        let vars = |base: &'static str, max: &'static str| {
            ServerBackoff::from_vars(|name| Some(if name.ends_with("BASE") { base } else { max }.to_owned()))
        };
        assert_eq!(vars("1", "60"), Some(ServerBackoff::new(SECOND, 60 * SECOND)));
        assert_eq!(vars("0", "60"), None);
        assert_eq!(vars("1", "x"), None);
        assert_eq!(ServerBackoff::from_vars(|_| None), None);
    }
}
