//! Responses that the proxy makes itself: errors, in the form of the API's `Status`.

use bytes::Bytes;
use dogwatch_client::{RequestBody, ResponseBody, boxed};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use crate::read_target::ReadTarget;

/// A response of the proxy.
pub(crate) type Answer = Response<ResponseBody>;

/// Builds an error. `reason` is one of the API's reasons, or empty.
pub(crate) fn error(code: StatusCode, reason: &str, message: &str) -> Answer {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    with_body(code, "application/json", format!("{status}\n"))
}

/// Builds the answer while upstream cannot be reached and the request was not sent: every client
/// may repeat it.
pub(crate) fn unavailable(message: &str, seconds: u32) -> Answer {
    let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message);
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    answer
}

/// Returns the status at the end of a watch whose client has to list again.
pub(crate) fn expired() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the rules of the proxy have changed", "reason": "Expired", "code": 410,
    })
}

/// Builds the last event of a watch in JSON.
pub(crate) fn error_event(status: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({ "type": "ERROR", "object": status })))
}

/// Builds the answer to a caller of a resource with rules whom the proxy cannot name.
pub(crate) fn unnamed(headers: &HeaderMap) -> Answer {
    if headers.contains_key(AUTHORIZATION) {
        let message = "the proxy has rules for this resource: it needs one bearer token or a client certificate of its \
                       callers, without impersonation";
        return error(StatusCode::FORBIDDEN, "Forbidden", message);
    }
    unauthorized()
}

/// Builds the answer to credentials that are not valid.
pub(crate) fn unauthorized() -> Answer {
    error(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
}

/// Builds the answer to a user who may not do that, in the words of kube-apiserver.
pub(crate) fn forbidden(target: &ReadTarget, user: &str) -> Answer {
    let name = target.name.as_ref().map(|it| format!(" {it:?}")).unwrap_or_default();
    let place = match &target.namespace {
        Some(namespace) => format!(" in the namespace {namespace:?}"),
        None => " at the cluster scope".to_owned(),
    };
    let of = |separator: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{separator}{text}"),
    };
    let (verb, resource, group) = (target.verb.as_str(), &target.resource, &target.group);
    let (in_group, part) = (of(".", group), of("/", &target.subresource));
    let message = format!(
        "{resource}{in_group}{name} is forbidden: User {user:?} cannot {verb} resource \"{resource}{part}\" in API \
         group {group:?}{place}"
    );
    error(StatusCode::FORBIDDEN, "Forbidden", &message)
}

/// Builds a response with a whole body.
pub(crate) fn with_body(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(boxed(RequestBody::new(body.into())));
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
