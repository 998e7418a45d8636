//! Logs of containers, streamed from the kubelet of the pod as they come.

use std::time::Duration;

use bytes::Bytes;
use dogwatch_core::{Details, Reason};
use form_urlencoded::Serializer;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use jiff::Timestamp;

use super::answer::{self, Answer};
use super::backend_reply::streamed;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::service::Service;
use crate::cluster::KubeletRequest;
use crate::upstream::{BackendRequest, Peer, ReplyBody};
use crate::{ApiError, FieldError, FieldErrorKind};

/// The time in which a kubelet has to answer: `RequestTimeout` in k8s.io/apiserver v0.36.4
/// pkg/server/config.go.
const ANSWER: Duration = Duration::from_secs(60);

/// The same for a log that is followed. A kubelet answers when it has the first line, and ends idle
/// streams after this time (`StreamingConnectionIdleTimeout` in k8s.io/kubernetes v1.36.4
/// pkg/kubelet/apis/config/v1beta1/defaults.go).
const ANSWER_OF_FOLLOWED: Duration = Duration::from_secs(4 * 60 * 60);

/// The length of an error of the kubelet, and the time in which it has to arrive: `maxReadLength`
/// in k8s.io/apiserver v0.36.4 pkg/registry/generic/rest/response_checker.go.
const LONGEST_ERROR: usize = 50_000;
const ERROR_TIME: Duration = Duration::from_secs(10);

/// The options of a request for a log: `PodLogOptions`.
#[derive(Debug, Default, PartialEq, Eq)]
struct LogOptions {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
    skips_verification: bool,
}

impl Service {
    /// Serves the log of a container.
    pub(super) async fn pod_log(&self, parsed: &ParsedRequest, query: &Query) -> Result<Answer, ApiError> {
        let place = parsed.place();
        let options = LogOptions::read(query)?;
        options.validate(place.name)?;
        let request = KubeletRequest::of(&self.cluster, &place);
        let found = request.log_location(query.get("container"), options.query(), self.dialer.reach())?;
        let Some(location) = found else { return Ok(answer::empty(StatusCode::NO_CONTENT)) };
        let failed = |reason: &str| ApiError::unexplained(format!("Get \"{location}\": {reason}"));
        let request = Request::get(location.path_and_query())
            .header(HOST, location.origin.authority())
            .header(USER_AGENT, "kube-apiserver")
            .body(Empty::new().map_err(|never| match never {}).boxed_unsync())
            .map_err(|error| failed(&error.to_string()))?;
        let limit = if options.follow { ANSWER_OF_FOLLOWED } else { ANSWER };
        let peer = if options.skips_verification { Peer::UnverifiedKubelet } else { Peer::Kubelet };
        let reply = self.dialer.send(&location.origin, peer, BackendRequest { request, limit }).await;
        let reply = reply.map_err(|failure| failed(failure.reason()))?;
        if !matches!(reply.status().as_u16(), 200..=206) {
            return Err(refusal_of(reply, place.name).await);
        }
        let mut answer = answer::of(StatusCode::OK, None, streamed(reply.into_body()));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(answer)
    }
}

impl LogOptions {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// 400 for a parameter that cannot be read.
    fn read(query: &Query) -> Result<Self, ApiError> {
        let flag = |name| query.flag(name).unwrap_or(false);
        let since_time = query.get("sinceTime").filter(|it| *it != "null").map(|text| {
            let invalid = |why| ApiError::bad_request(format!("sinceTime: parsing time {text:?}: {why}"));
            text.parse::<Timestamp>().map_err(invalid)
        });
        Ok(Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            since_seconds: query.integer("sinceSeconds")?,
            since_time: since_time.transpose()?,
            tail_lines: query.integer("tailLines")?,
            limit_bytes: query.integer("limitBytes")?,
            stream: query.get("stream").map(str::to_owned),
            skips_verification: flag("insecureSkipTLSVerifyBackend"),
        })
    }

    /// Checks the options: `ValidatePodLogOptions` in k8s.io/kubernetes v1.36.4
    /// pkg/apis/core/validation/validation.go.
    ///
    /// # Errors
    /// 422 with every problem.
    fn validate(&self, name: &str) -> Result<(), ApiError> {
        let mut problems = Vec::new();
        let mut limit = |field: &str, value: Option<i64>, least: i64, detail: &str| {
            if let Some(value) = value.filter(|it| *it < least) {
                problems.push(FieldError::with_value(field, FieldErrorKind::Invalid, value, detail));
            }
        };
        limit("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        limit("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        if self.since_time.is_some() && self.since_seconds.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            problems.push(FieldError::new("", FieldErrorKind::Forbidden, detail));
        } else {
            limit("sinceSeconds", self.since_seconds, 1, "must be greater than 0");
        }
        match self.stream.as_deref() {
            None | Some("All") => {}
            Some("Stdout" | "Stderr") if self.tail_lines.is_some() => {
                let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
                problems.push(FieldError::new("", FieldErrorKind::Forbidden, detail));
            }
            Some("Stdout" | "Stderr") => {}
            Some(other) => {
                let detail = "supported values: \"All\", \"Stderr\", \"Stdout\"";
                let shown = format!("{other:?}");
                problems.push(FieldError::with_value("stream", FieldErrorKind::NotSupported, shown, detail));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid("", "PodLogOptions", name, &problems))
    }

    /// Returns the query of the request to the kubelet, in the order of the keys (`LogLocation` in
    /// k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/strategy.go).
    fn query(&self) -> String {
        let number = |it: Option<i64>| it.map(|it| it.to_string());
        let flag = |it: bool| it.then(|| "true".to_owned());
        let pairs = [
            ("follow", flag(self.follow)),
            ("limitBytes", number(self.limit_bytes)),
            ("previous", flag(self.previous)),
            ("sinceSeconds", number(self.since_seconds)),
            ("sinceTime", self.since_time.map(|it| it.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())),
            ("stream", self.stream.clone()),
            ("tailLines", number(self.tail_lines)),
            ("timestamps", flag(self.timestamps)),
        ];
        let mut encoded = Serializer::new(String::new());
        encoded.extend_pairs(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))));
        encoded.finish()
    }
}

/// Returns the error for a response of the kubelet that is not a log (`GenericHttpResponseChecker`
/// in k8s.io/apiserver v0.36.4 pkg/registry/generic/rest/response_checker.go).
async fn refusal_of(reply: Response<ReplyBody>, name: &str) -> ApiError {
    let code = reply.status();
    let text = match tokio::time::timeout(ERROR_TIME, beginning(reply.into_body())).await {
        Ok(text) => text,
        Err(_) => return ApiError::internal_failure("the kubelet's error did not arrive in time"),
    };
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::internal_failure(&text),
        StatusCode::BAD_REQUEST => ApiError::bad_request(text),
        code => of_server(code, name, &text),
    }
}

/// Returns the beginning of a body as text.
async fn beginning(body: ReplyBody) -> String {
    let mut body = Limited::new(body, LONGEST_ERROR);
    let mut read: Vec<u8> = Vec::new();
    // The rest of a text that is too long or breaks off is left out.
    while let Some(Ok(frame)) = body.frame().await {
        read.extend_from_slice(&frame.into_data().unwrap_or_else(|_| Bytes::new()));
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Returns the error for a status code without a `Status` object (`NewGenericServerResponse` in
/// k8s.io/apimachinery v0.36.4 pkg/api/errors/errors.go).
fn of_server(code: StatusCode, name: &str, text: &str) -> ApiError {
    let own = |reason, message: &str| (reason, message.to_owned());
    let (reason, message) = match code.as_u16() {
        401 => own(Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => own(Reason::Forbidden, text),
        404 => own(Reason::NotFound, "the server could not find the requested resource"),
        405 => {
            own(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
        }
        409 => own(Reason::Conflict, "the server reported a conflict"),
        429 => own(
            Reason::TooManyRequests,
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => own(Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => own(
            Reason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500.. => (
            Reason::InternalError,
            format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        ),
        _ => own(
            Reason::Unknown,
            "the server responded with the status code but did not return more information",
        ),
    };
    let mut refusal = ApiError::new(reason, format!("{message} ( pods/log {name})"));
    refusal.0.code = code.as_u16();
    refusal.0.details =
        Some(Details { name: name.to_owned(), kind: "pods/log".to_owned(), ..Details::default() });
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Result<LogOptions, (u16, String)> {
        let read = LogOptions::read(&Query::parse(Some(query)));
        read.and_then(|it| it.validate("x").map(|()| it)).map_err(|it| (it.0.code, it.0.message.clone()))
    }

    #[test]
    fn all_parameters_reach_the_kubelet() {
        let given = "container=c&follow=true&previous&timestamps=1&sinceTime=2026-01-02T03:04:05.7%2B01:00&\
                     tailLines=0&limitBytes=9&stream=All&insecureSkipTLSVerifyBackend=true&pretty=1";
        let read = options(given).expect("valid");
        assert!(read.skips_verification);
        assert_eq!(
            read.query(),
            "follow=true&limitBytes=9&previous=true&sinceTime=2026-01-02T02%3A04%3A05Z&stream=All&tailLines=0&\
             timestamps=true"
        );
        assert_eq!(options("sinceSeconds=5&follow=false").expect("valid").query(), "sinceSeconds=5");
    }

    #[test]
    fn invalid_options_are_rejected_with_the_messages_of_kube_apiserver() {
        for (query, code, message) in [
            ("tailLines=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
            (
                "tailLines=-1",
                422,
                "PodLogOptions \"x\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "limitBytes=0",
                422,
                "PodLogOptions \"x\" is invalid: limitBytes: Invalid value: 0: must be greater than 0",
            ),
            (
                "sinceSeconds=0",
                422,
                "PodLogOptions \"x\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0",
            ),
        ] {
            assert_eq!(options(query), Err((code, message.to_owned())), "{query}");
        }
        for query in
            ["sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", "stream=Other", "stream=Stdout&tailLines=1"]
        {
            assert_eq!(options(query).map_err(|it| it.0), Err(422), "{query}");
        }
        assert_eq!(options("sinceTime=yesterday").map_err(|it| it.0), Err(400));
    }

    #[test]
    fn status_codes_of_the_kubelet_are_kept() {
        for (code, text, message) in [
            (404, "gone", "the server could not find the requested resource ( pods/log x)"),
            (403, "no", "no ( pods/log x)"),
            (
                502,
                "bad",
                "an error on the server (\"bad\") has prevented the request from succeeding ( pods/log x)",
            ),
        ] {
            let refusal = of_server(StatusCode::from_u16(code).expect("a code"), "x", text);
            assert_eq!((refusal.0.code, refusal.0.message.as_str()), (code, message));
        }
    }
}
