//! Conversion of an error response to the [`Status`] that describes it (rule RQ-12).

use dogwatch_core::{Cause, Details, Reason, Status};
use dogwatch_wire::{Envelope, Fields};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};

/// The number of bytes shown of a body that is not a `Status`. `maxUnstructuredResponseTextBytes`
/// in client-go v0.36.4 `rest/request.go`.
const SHOWN_BYTES: usize = 2048;

/// The parts of a request that an error message names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo<'a> {
    pub(crate) method: &'a Method,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

/// Returns true if a code means success: the range of `transformResponse` in client-go v0.36.4
/// `rest/request.go`, and 101 for upgrades.
pub(crate) fn is_success(code: StatusCode) -> bool {
    (200..=206).contains(&code.as_u16()) || code == StatusCode::SWITCHING_PROTOCOLS
}

/// Returns the `Status` of a response: the one in its body, or one made from its code and text.
pub(crate) fn to_status(
    request: RequestInfo<'_>,
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Status {
    match as_status(body) {
        Some(mut status) if status.is_failure() => {
            if status.code == 0 {
                status.code = code.as_u16();
            }
            status
        }
        _ => by_code(request, code, headers, body),
    }
}

/// Returns the `Status` in a successful response if it reports anything but success.
pub(crate) fn failure_in_success(body: &[u8]) -> Option<Status> {
    let status = as_status(body)?;
    (status.status.as_deref() != Some("Success")).then_some(status)
}

/// Parses the body as a `Status`, if that is its kind.
pub(crate) fn as_status(body: &[u8]) -> Option<Status> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind<'a> {
        #[serde(borrow)]
        kind: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        api_version: Option<std::borrow::Cow<'a, str>>,
    }
    if let Ok(envelope) = Envelope::read(body) {
        let is_status = envelope.kind == "Status" && envelope.api_version == "v1";
        return is_status.then(|| dogwatch_wire::from_protobuf(body, Fields::default()).ok()).flatten();
    }
    let kind: Kind<'_> = serde_json::from_slice(body).ok()?;
    let is_status =
        kind.kind.as_deref() == Some("Status") && kind.api_version.as_deref().is_none_or(|it| it == "v1");
    is_status.then(|| serde_json::from_slice(body).ok()).flatten()
}

fn by_code(request: RequestInfo<'_>, code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Status {
    let reason = reason_of(request.method, code);
    let text = readable(headers, body);
    let retry_after =
        super::retry::retry_after(headers).map_or(0, |it| it.as_secs().try_into().unwrap_or(u32::MAX));
    let cause = Cause {
        reason: "UnexpectedServerResponse".to_owned(),
        message: text.unwrap_or("unknown").to_owned(),
        field: String::new(),
    };
    Status {
        status: Some("Failure".to_owned()),
        message: message(request, code, text),
        reason,
        details: Some(Details {
            name: request.name.to_owned(),
            kind: request.resource.to_owned(),
            causes: vec![cause],
            retry_after_seconds: retry_after,
            ..Details::default()
        }),
        code: code.as_u16(),
    }
}

fn reason_of(method: &Method, code: StatusCode) -> Reason {
    match code.as_u16() {
        409 if method == Method::POST => Reason::AlreadyExists,
        409 => Reason::Conflict,
        404 => Reason::NotFound,
        400 => Reason::BadRequest,
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        406 => Reason::NotAcceptable,
        413 => Reason::RequestEntityTooLarge,
        415 => Reason::UnsupportedMediaType,
        405 => Reason::MethodNotAllowed,
        410 => Reason::Gone,
        422 => Reason::Invalid,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        429 => Reason::TooManyRequests,
        500.. => Reason::InternalError,
        _ => Reason::Unknown,
    }
}

/// Describes an error response. Most of the texts are those of `NewGenericServerResponse` in
/// apimachinery v0.36.4 `pkg/api/errors/errors.go`.
fn message(request: RequestInfo<'_>, code: StatusCode, text: Option<&str>) -> String {
    let what = match code.as_u16() {
        300..=399 => {
            "the server redirected the request, which an API server never does: check the server's address"
        }
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => "the server does not allow this request",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 => "the server was unable to respond with a content type that the client supports",
        409 => "the server reported a conflict",
        410 => "the requested version is gone",
        413 => "the request was too large for the server",
        415 => "the body of the request was in an unknown format",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => "an error on the server has prevented the request from succeeding",
        _ => "the server responded with a status code the client does not understand",
    };
    let mut message = format!("{what} ({}", request.method.as_str().to_ascii_lowercase());
    for part in [request.resource, request.name].into_iter().filter(|it| !it.is_empty()) {
        message.push(' ');
        message.push_str(part);
    }
    message.push_str(&format!(", code {})", code.as_u16()));
    match text.map(str::trim).filter(|it| !it.is_empty()) {
        Some(text) => format!("{message}: {text:?}"),
        None => message,
    }
}

/// Returns the start of a text body, cut at a character boundary; `None` for anything else.
fn readable<'b>(headers: &HeaderMap, body: &'b [u8]) -> Option<&'b str> {
    let is_text = headers.get(CONTENT_TYPE).is_none_or(|it| it.as_bytes().starts_with(b"text/"));
    if !is_text || body.is_empty() {
        return None;
    }
    let start = &body[..body.len().min(SHOWN_BYTES)];
    match std::str::from_utf8(start) {
        Ok(text) => Some(text),
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).ok().filter(|it| !it.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(method: Method, code: u16, content_type: Option<&str>, body: &str) -> Status {
        let headers =
            content_type.map(|it| (CONTENT_TYPE, it.parse().expect("a header"))).into_iter().collect();
        let request = RequestInfo { method: &method, resource: "pods", name: "a" };
        to_status(request, StatusCode::from_u16(code).expect("a code"), &headers, body.as_bytes())
    }

    #[test]
    fn rq_12_a_status_in_the_body_is_taken_only_when_it_says_failure() {
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Gone","code":410,"message":"m"}"#;
        assert!(explained(Method::GET, 410, Some("application/json"), body).is_gone());
        // The version of a Status may be missing, as in old servers; its kind may not.
        let body = r#"{"kind":"Status","status":"Failure","message":"m"}"#;
        let status = explained(Method::GET, 404, Some("application/json"), body);
        assert!(status.is_not_found() && status.message == "m", "{status:?}");
        let body = r#"{"status":"Failure","code":404,"message":"m"}"#;
        let status = explained(Method::GET, 400, Some("application/json"), body);
        assert!(status.is_bad_request() && status.is_unexpected_server_response(), "{status:?}");
        let body = r#"{"kind":"Status","status":"Success","reason":"Gone"}"#;
        let status = explained(Method::GET, 404, Some("application/json"), body);
        assert!(status.is_not_found() && status.is_unexpected_server_response());
    }

    #[test]
    fn rq_12_without_a_status_the_code_decides() {
        for (method, code, reason) in [
            (Method::POST, 409, Reason::AlreadyExists),
            (Method::PUT, 409, Reason::Conflict),
            (Method::GET, 404, Reason::NotFound),
            (Method::GET, 400, Reason::BadRequest),
            (Method::GET, 401, Reason::Unauthorized),
            (Method::GET, 500, Reason::InternalError),
            (Method::GET, 502, Reason::InternalError),
            (Method::GET, 503, Reason::ServiceUnavailable),
            (Method::GET, 504, Reason::Timeout),
            (Method::GET, 429, Reason::TooManyRequests),
            (Method::GET, 302, Reason::Unknown),
        ] {
            let status = explained(method.clone(), code, None, "");
            assert_eq!((status.reason, status.code), (reason, code), "{method} {code}");
        }
    }

    #[test]
    fn rq_12_text_is_shown_up_to_a_limit_and_binary_never() {
        let status = explained(Method::GET, 502, Some("text/html"), "<html>Bad Gateway</html>");
        assert_eq!(
            status.message,
            "an error on the server has prevented the request from succeeding (get pods a, code 502): \"<html>Bad Gateway</html>\""
        );
        let status = explained(Method::GET, 502, Some("application/octet-stream"), "secret");
        assert!(!status.to_string().contains("secret"));
        let status = explained(Method::GET, 502, None, &"ä".repeat(5000));
        assert!(status.message.len() < 2200, "{}", status.message.len());
    }

    #[test]
    fn rq_12_a_success_that_contains_a_failure_is_a_failure() {
        let refused = |body: &str| failure_in_success(body.as_bytes()).is_some();
        assert!(refused(r#"{"kind":"Status","apiVersion":"v1","status":"Failure"}"#));
        assert!(!refused(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#));
        assert!(!refused(r#"{"kind":"Pod","apiVersion":"v1","status":{"phase":"Running"}}"#));
        assert!(!refused("not json"));
    }
}
