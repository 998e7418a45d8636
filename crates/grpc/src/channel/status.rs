//! gRPC statuses on the wire: parses those of responses, and builds the response of a call that got
//! none from a server.
//!
//! Our own failures are responses too: headers with a status, as a server would send them. Clients
//! above the channel, tonic or not, read them the same way, and the metadata names the endpoint of
//! the last attempt.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::time::Instant;

/// The metadata key for the endpoint of the last attempt, in our own failures.
pub(crate) const ENDPOINT: &str = "dogwatch-endpoint";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// The number of attempts before this one, in the metadata of a retry (A6).
pub(crate) const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
/// The characters that gRPC percent-encodes in a message: everything but printable ASCII, and the
/// percent sign itself.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');
/// The largest number of eight digits, which is the limit of a `grpc-timeout`.
const LONGEST: u128 = 99_999_999;

/// The gRPC status codes.
///
/// ```
/// use dogwatch_grpc::Code;
///
/// assert_eq!(Code::Unavailable as i32, 14); // the number in `grpc-status`
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are gRPC's own")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

const ALL: [Code; 17] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

impl Code {
    /// Returns the code in headers or trailers, if there is one. An invalid one is `Unknown`.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let number = headers.get(STATUS)?.to_str().ok().and_then(|it| it.parse::<usize>().ok());
        Some(number.and_then(|it| ALL.get(it).copied()).unwrap_or(Self::Unknown))
    }

    /// Maps an HTTP/2 error to a code, by the table of gRPC's protocol document.
    pub(crate) fn of_error(error: &h2::Error) -> Self {
        use h2::Reason;
        match error.reason() {
            _ if error.is_io() || error.is_go_away() => Self::Unavailable,
            Some(Reason::REFUSED_STREAM) => Self::Unavailable,
            Some(Reason::CANCEL) => Self::Cancelled,
            Some(Reason::ENHANCE_YOUR_CALM) => Self::ResourceExhausted,
            Some(Reason::INADEQUATE_SECURITY) => Self::PermissionDenied,
            _ => Self::Internal,
        }
    }

    /// Maps an HTTP status to a code, by the table of gRPC's mapping document.
    fn of_http(status: StatusCode) -> Self {
        match status.as_u16() {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502..=504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// Maps `Cancelled` after the deadline to `DeadlineExceeded`. A server that also enforces the
    /// deadline cancels the call then, and may be slightly ahead of our own timer, which has
    /// millisecond resolution.
    pub(crate) fn at(self, deadline: Option<Instant>) -> Self {
        match self {
            Self::Cancelled if deadline.is_some_and(|it| it <= Instant::now()) => Self::DeadlineExceeded,
            other => other,
        }
    }

    /// Returns true if the code blames the server rather than the request: the codes that Envoy
    /// maps to 5xx.
    pub(crate) fn blames_server(self) -> bool {
        use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
        matches!(self, Unknown | DeadlineExceeded | Unimplemented | Internal | Unavailable | DataLoss)
    }
}

/// A call that failed without a status from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) endpoint: Option<SocketAddr>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>, endpoint: Option<SocketAddr>) -> Self {
        Self { code, message: message.into(), endpoint }
    }

    /// Returns the failure for a response that is not gRPC, mostly from a proxy. A gRPC status
    /// always takes precedence.
    pub(crate) fn non_grpc<B>(answer: &Response<B>, endpoint: Option<SocketAddr>) -> Option<Self> {
        let headers = answer.headers();
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let rest = kind.strip_prefix(b"application/grpc");
        let is_grpc = rest.is_some_and(|it| matches!(it.first(), None | Some(b'+' | b';')));
        if (is_grpc && answer.status() == StatusCode::OK) || headers.contains_key(STATUS) {
            return None;
        }
        let message = match answer.status() {
            StatusCode::OK => {
                format!(
                    "the response has the content type {:?}, not application/grpc",
                    String::from_utf8_lossy(kind)
                )
            }
            status => format!("the response has the HTTP status {}", status.as_u16()),
        };
        let message = match endpoint {
            Some(endpoint) => format!("{endpoint}: {message}"),
            None => message,
        };
        Some(Self::new(Code::of_http(answer.status()), message, endpoint))
    }

    /// Converts the failure to a response of headers only.
    pub(crate) fn into_response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(STATUS, HeaderValue::from(self.code as u16));
        let message = utf8_percent_encode(&self.message, ENCODED).to_string();
        if let Ok(message) = HeaderValue::try_from(message) {
            headers.insert(MESSAGE, message);
        }
        if let Some(endpoint) = self.endpoint.and_then(|it| HeaderValue::try_from(it.to_string()).ok()) {
            headers.insert(ENDPOINT, endpoint);
        }
        response
    }
}

/// Parses `grpc-timeout`: up to eight digits and a unit. An invalid value is no limit.
pub(crate) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Formats a remaining time as `grpc-timeout`: in the finest unit that can hold it, rounded up.
pub(crate) fn timeout_value(left: Duration) -> HeaderValue {
    let units = [
        ('n', 1),
        ('u', 1_000),
        ('m', 1_000_000),
        ('S', 1_000_000_000),
        ('M', 60_000_000_000),
        ('H', 3_600_000_000_000),
    ];
    let mut text = (LONGEST, 'H');
    for (unit, length) in units {
        let count = left.as_nanos().div_ceil(length);
        if count <= LONGEST {
            text = (count, unit);
            break;
        }
    }
    HeaderValue::try_from(format!("{}{}", text.0, text.1)).expect("digits and a letter are a value")
}

/// Parses the server's retry pushback: `None` if absent, `Some(None)` for no retry,
/// `Some(Some(delay))` for a retry after this time.
pub(crate) fn pushback_of(headers: &HeaderMap) -> Option<Option<Duration>> {
    let value = headers.get(PUSHBACK)?;
    Some(value.to_str().ok().and_then(|it| it.parse().ok()).map(Duration::from_millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn timeouts_are_parsed_by_their_unit() {
        let table = [
            ("1H", Some(3_600_000)),
            ("2M", Some(120_000)),
            ("3S", Some(3_000)),
            ("4m", Some(4)),
            ("5000u", Some(5)),
            ("6000000n", Some(6)),
            ("99999999S", Some(99_999_999_000)),
            ("", None),
            ("S", None),
            ("-1S", None),
            ("+1S", None),
            ("1", None),
            ("1x", None),
            ("123456789S", None),
        ];
        for (text, milliseconds) in table {
            let read = timeout_of(&headers(TIMEOUT, text));
            assert_eq!(read, milliseconds.map(Duration::from_millis), "{text:?}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }

    #[test]
    fn a_timeout_is_formatted_in_the_finest_unit_that_holds_it() {
        let table = [
            (Duration::from_nanos(1), "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_000), "100000u"),
            (Duration::from_nanos(100_000_001), "100001u"),
            (Duration::from_secs(5), "5000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(100_000_000), "1666667M"),
            (Duration::from_secs(6_000_000_000), "1666667H"),
            (Duration::MAX, "99999999H"),
        ];
        for (left, text) in table {
            assert_eq!(timeout_value(left), text, "{left:?}");
        }
    }

    #[test]
    fn a_response_that_is_not_grpc_is_mapped_by_its_http_status_and_type() {
        use Code::{Internal, PermissionDenied, Unauthenticated, Unavailable, Unimplemented, Unknown};
        let table = [
            (200, "application/grpc", None),
            (200, "application/grpc+proto", None),
            (200, "application/grpc;x=y", None),
            (200, "application/grpc-web", Some(Unknown)),
            (200, "text/html", Some(Unknown)),
            (200, "", Some(Unknown)),
            (400, "application/grpc", Some(Internal)),
            (401, "text/html", Some(Unauthenticated)),
            (403, "text/html", Some(PermissionDenied)),
            (404, "text/html", Some(Unimplemented)),
            (429, "text/html", Some(Unavailable)),
            (503, "text/html", Some(Unavailable)),
            (500, "text/html", Some(Unknown)),
        ];
        for (status, kind, code) in table {
            let answer = Response::builder().status(status).header(CONTENT_TYPE, kind).body(()).unwrap();
            assert_eq!(Failure::non_grpc(&answer, None).map(|it| it.code), code, "{status} {kind}");
        }
        let answer = Response::builder().status(503).header(STATUS, "8").body(()).unwrap();
        assert!(Failure::non_grpc(&answer, None).is_none(), "a gRPC status takes precedence");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_cancelled_by_the_server_at_its_deadline_exceeded_the_deadline() {
        let deadline = Some(Instant::now() + Duration::from_micros(1_500));
        assert_eq!(Code::Cancelled.at(deadline), Code::Cancelled);
        // Our own timer would fire at two milliseconds.
        tokio::time::advance(Duration::from_micros(1_500)).await;
        assert_eq!(Code::Cancelled.at(deadline), Code::DeadlineExceeded);
        assert_eq!(
            (Code::Cancelled.at(None), Code::NotFound.at(deadline)),
            (Code::Cancelled, Code::NotFound)
        );
    }

    #[test]
    fn codes_are_parsed_by_their_number() {
        assert_eq!(Code::of(&headers(STATUS, "0")), Some(Code::Ok));
        assert_eq!(Code::of(&headers(STATUS, "14")), Some(Code::Unavailable));
        assert_eq!(Code::of(&headers(STATUS, "99")), Some(Code::Unknown));
        assert_eq!(Code::of(&headers(STATUS, "x")), Some(Code::Unknown));
        assert_eq!(Code::of(&HeaderMap::new()), None);
        assert!(ALL.iter().enumerate().all(|(index, it)| *it as usize == index));
    }

    #[test]
    fn a_failure_is_a_response_that_names_the_endpoint() {
        let endpoint = "10.0.0.1:80".parse().unwrap();
        let failure = Failure::new(Code::Unavailable, "100 % gone\nübel", Some(endpoint));
        let response: Response<()> = failure.into_response();
        assert_eq!(response.headers()[STATUS], "14");
        assert_eq!(response.headers()[MESSAGE], "100 %25 gone%0A%C3%BCbel");
        assert_eq!(response.headers()[ENDPOINT], "10.0.0.1:80");
    }

    #[test]
    fn pushback_may_forbid_delay_or_be_absent() {
        assert_eq!(pushback_of(&headers(PUSHBACK, "7")), Some(Some(Duration::from_millis(7))));
        assert_eq!(pushback_of(&headers(PUSHBACK, "-1")), Some(None));
        assert_eq!(pushback_of(&HeaderMap::new()), None);
    }
}
