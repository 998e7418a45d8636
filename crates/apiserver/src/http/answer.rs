//! Responses: documents in the negotiated representation, API errors, and plain text.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    VARY, WARNING, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use super::body::ResponseBody;
use super::content::{Content, in_protobuf, unencodable};
use super::document::Document;
use super::negotiated::Negotiated;
use super::pieces::Pieces;
use super::settings::Settings;
use super::yaml::{flow_style, to_yaml};
use crate::ApiError;
use crate::cluster::Source;
use crate::plain_json;
use crate::request::Encoding;

/// A response.
pub(super) type Answer = Response<ResponseBody>;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
const PROTOBUF_EVENTS: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");

/// The maximum number of bytes of JSON that are converted to YAML in block style. Its values take
/// up to 80 bytes for each byte, while they are converted.
const MAX_BLOCK_STYLE: usize = 1024 * 1024;
/// The maximum length of YAML in block style for each byte of the JSON, if it is not small. Each
/// line is indented by its depth, which may be a hundred levels.
const MAX_YAML_GROWTH: usize = 4;
const SMALL_YAML: usize = 64 * 1024;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Builds a response with a document, converted to the negotiated representation. A document that
/// has no protobuf encoding is replaced by an error.
pub(super) fn document(
    code: StatusCode,
    content: impl Into<Content>,
    negotiated: &Negotiated,
    settings: &Settings,
) -> Answer {
    let (content_type, document) = match (negotiated.encoding, content.into()) {
        (_, Content::Streamed(Encoding::Protobuf, list)) => {
            (PROTOBUF, Document::Produced(list, Pieces::default()))
        }
        (_, Content::Streamed(_, list)) => (JSON, Document::Produced(list, Pieces::default())),
        (_, Content::Protobuf(protobuf)) => (PROTOBUF, Document::Ready(protobuf)),
        (Encoding::Protobuf, Content::Json(json)) => match in_protobuf(json) {
            Ok(protobuf) => (PROTOBUF, Document::Ready(protobuf)),
            Err(error) => return in_json(&unencodable(&error), negotiated, settings),
        },
        (Encoding::Yaml, Content::Json(json)) => (YAML, Document::Ready(yaml(json))),
        (_, Content::Json(json)) if negotiated.pretty => (JSON, Document::indented(with_line_end(json))),
        (_, Content::Json(json)) => (JSON, Document::Ready(with_line_end(json))),
    };
    let compressed = negotiated.gzip && document.exceeds(settings.gzip_from);
    let body = if compressed { ResponseBody::gzip(document) } else { ResponseBody::document(document) };
    let mut answer = of(code, Some(content_type), body);
    if compressed {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    answer
}

/// Builds a response with a value, in the negotiated representation.
pub(super) fn value(code: StatusCode, value: &Value, negotiated: &Negotiated, settings: &Settings) -> Answer {
    match Content::of(value, negotiated.encoding) {
        Ok(content) => document(code, content, negotiated, settings),
        Err(error) => in_json(&unencodable(&error), negotiated, settings),
    }
}

/// Builds an error response in JSON: the last resort for a client that accepts only protobuf.
fn in_json(error: &ApiError, negotiated: &Negotiated, settings: &Settings) -> Answer {
    refusal(error, None, &Negotiated { encoding: Encoding::Json, ..*negotiated }, settings)
}

/// Builds an error response. `token` is the continue token for a list that expired.
pub(super) fn refusal(
    refusal: &ApiError,
    token: Option<&str>,
    negotiated: &Negotiated,
    settings: &Settings,
) -> Answer {
    let code = StatusCode::from_u16(refusal.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = document(code, Pieces::from(status_json(refusal, token)), negotiated, settings);
    let seconds = refusal.0.details.as_ref().map_or(0, |it| it.retry_after_seconds);
    if seconds > 0 {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// Returns the `Status` object of an error as JSON.
pub(super) fn status_json(refusal: &ApiError, token: Option<&str>) -> Vec<u8> {
    let metadata =
        token.map_or_else(|| "{}".to_owned(), |it| serde_json::json!({ "continue": it }).to_string());
    let status = serde_json::to_string(&*refusal.0).expect("a status serializes to JSON");
    let rest = status.strip_prefix('{').unwrap_or_default();
    format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{metadata},{rest}"#).into_bytes()
}

/// Builds a plain-text response.
pub(super) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = of(code, Some(TEXT), ResponseBody::whole(Pieces::from_iter([text.into()])));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Builds a plain-text response without `X-Content-Type-Options: nosniff`.
pub(super) fn text_only(code: StatusCode, text: Bytes) -> Answer {
    of(code, Some(TEXT), ResponseBody::whole(Pieces::from_iter([text])))
}

/// Builds the plain-text 404 response for unknown paths.
pub(super) fn page_not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Builds a response without a body.
pub(super) fn empty(code: StatusCode) -> Answer {
    of(code, None, ResponseBody::empty())
}

/// Builds a response with any body.
pub(super) fn of(code: StatusCode, content_type: Option<HeaderValue>, body: ResponseBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    if let Some(content_type) = content_type {
        answer.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    answer
}

/// Builds a response with a stream of watch events.
pub(super) fn events(body: ResponseBody, encoding: Encoding) -> Answer {
    let content_type = if encoding == Encoding::Protobuf { PROTOBUF_EVENTS } else { JSON };
    of(StatusCode::OK, Some(content_type), body)
}

/// Adds the headers of every response, and removes the body of a response to HEAD.
pub(super) fn finish(mut answer: Answer, parts: &Parts, source: &Source) -> Answer {
    let given = parts.headers.get(AUDIT_ID).filter(|it| !it.is_empty());
    let audit_id = given.cloned().or_else(|| source.request_id().parse().ok());
    let headers = answer.headers_mut();
    headers.extend(audit_id.map(|it| (AUDIT_ID, it)));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if parts.method == Method::HEAD {
        let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
        answer.headers_mut().extend(body.length().map(|it| (CONTENT_LENGTH, it.into())));
    }
    answer
}

/// The total length of all warnings, in characters, beyond which each is truncated:
/// `truncateAtTotalRunes` in k8s.io/apiserver v0.36.4 pkg/endpoints/filters/warning.go.
const MAX_WARNING_CHARS: usize = 4 * 1024;

/// The length to which warnings are truncated: `truncateItemRunes` in the same file.
const TRUNCATED_WARNING: usize = 256;

/// The maximum number of warnings in a response. kube-apiserver has no such limit and sends up to
/// 240 short ones (`truncateAtTotalRunes` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/filters/warning.go), but hyper's clients read at most 100 headers of a response
/// and would fail the request.
const MAX_WARNINGS: usize = 64;

/// Adds warnings to a response, each text once. If all of them together are too long, each is
/// truncated.
pub(super) fn warn(answer: &mut Answer, warnings: impl IntoIterator<Item = impl AsRef<str>>) {
    let chars = |text: &str| text.chars().count();
    let mut known: HashSet<String> = HashSet::new();
    let mut texts = Vec::new();
    let mut total = 0_usize;
    for warning in warnings {
        let text = warning.as_ref();
        if texts.len() < MAX_WARNINGS && !text.is_empty() && known.insert(text.to_owned()) {
            total = total.saturating_add(chars(text));
            texts.push(text.to_owned());
        }
    }
    let longest = if total > MAX_WARNING_CHARS { TRUNCATED_WARNING } else { usize::MAX };
    let mut written = 0_usize;
    for text in texts {
        if written >= MAX_WARNING_CHARS && longest == TRUNCATED_WARNING {
            break;
        }
        let mut quoted = String::from("299 - \"");
        for it in text.chars().take(longest) {
            written = written.saturating_add(1);
            match it {
                '"' | '\\' => quoted.extend(['\\', it]),
                it if it.is_control() => quoted.push(' '),
                it => quoted.push(it),
            }
        }
        quoted.push('"');
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            answer.headers_mut().append(WARNING, value);
        }
    }
}

/// Returns a document as YAML. A large one is in flow style, as which JSON is valid: then neither
/// the values nor the indentation of every line are in memory.
fn yaml(json: Pieces) -> Pieces {
    if json.len() <= MAX_BLOCK_STYLE {
        let value = plain_json::from_own_slice(&json.clone().concat()).unwrap_or_default();
        let limit = json.len().saturating_mul(MAX_YAML_GROWTH).saturating_add(SMALL_YAML);
        if let Ok(yaml) = to_yaml(&value, limit) {
            return yaml.into_bytes().into();
        }
    }
    with_line_end(flow_style(json))
}

fn with_line_end(mut pieces: Pieces) -> Pieces {
    pieces.push(Bytes::from_static(b"\n"));
    pieces
}

#[cfg(test)]
mod tests {
    use dogwatch_core::Reason;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_has_its_kind_first_and_the_continue_token_in_its_metadata() {
        let refusal = ApiError::not_found("", "pods", "x");
        let value: Value = serde_json::from_slice(&status_json(&refusal, None)).expect("JSON");
        assert_eq!(
            value,
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
                "message": "pods \"x\" not found", "reason": "NotFound", "details": { "name": "x", "kind": "pods" } })
        );
        let expired = ApiError::new(Reason::Expired, "old");
        let value: Value = serde_json::from_slice(&status_json(&expired, Some("t"))).expect("JSON");
        assert_eq!(value["metadata"], json!({ "continue": "t" }));
    }

    #[tokio::test]
    async fn yaml_is_in_flow_style_where_block_style_would_be_much_longer_than_json() {
        let yaml = Negotiated {
            encoding: Encoding::Yaml,
            ..Negotiated::plain(&http::HeaderMap::new(), &super::super::query::Query::parse(None))
        };
        let text = async |value: Value| {
            let answer = super::value(StatusCode::OK, &value, &yaml, &Settings::default());
            assert_eq!(answer.headers()[CONTENT_TYPE], "application/yaml");
            let body = http_body_util::BodyExt::collect(answer.into_body()).await.expect("not cut");
            String::from_utf8(body.to_bytes().to_vec()).expect("text")
        };
        let nested = |depth: usize, value: Value| (0..depth).fold(value, |inner, _| json!({ "a": [inner] }));
        assert_eq!(text(nested(1, json!([1, "a b"]))).await, "a:\n- - 1\n  - a b\n");
        for value in [nested(30, json!(vec!["x"; 10_000])), json!(vec!["x".repeat(1_000); 5_000])] {
            let flow = text(value.clone()).await;
            assert_eq!(flow, format!("{value}\n"));
            let read: Value = serde_saphyr::from_str(&flow).expect("YAML");
            assert!(read == value, "the value differs");
        }
    }

    #[tokio::test]
    async fn an_object_without_protobuf_is_an_error_in_json() {
        let protobuf = Negotiated {
            encoding: Encoding::Protobuf,
            ..Negotiated::plain(&http::HeaderMap::new(), &super::super::query::Query::parse(None))
        };
        let custom = json!({ "kind": "Widget", "apiVersion": "e.test/v1" });
        let pieces = Pieces::from(custom.to_string().into_bytes());
        for answer in [
            value(StatusCode::OK, &custom, &protobuf, &Settings::default()),
            document(StatusCode::OK, pieces, &protobuf, &Settings::default()),
        ] {
            assert_eq!(
                (answer.status(), &answer.headers()[CONTENT_TYPE]),
                (StatusCode::INTERNAL_SERVER_ERROR, &JSON)
            );
            let body = http_body_util::BodyExt::collect(answer.into_body()).await.expect("not cut");
            let status: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
            let message = status["message"].as_str().expect("a message");
            assert!(message.contains("has no protobuf encoding"), "{message}");
        }
    }

    #[test]
    fn warnings_are_few_and_short_enough_for_clients_to_read_the_response() {
        let warned = |warnings: Vec<String>| -> Vec<usize> {
            let mut answer = empty(StatusCode::OK);
            warn(&mut answer, warnings);
            answer.headers().get_all(WARNING).iter().map(|it| it.len() - "299 - \"\"".len()).collect()
        };
        // Every unknown field of a body produces one.
        assert_eq!(warned((0..100_000).map(|it| format!("{it:08}")).collect()), [8; MAX_WARNINGS]);
        assert_eq!(warned(vec!["the same".to_owned(); 3]), [8]);
        assert_eq!(warned(vec!["x".repeat(4096)]), [4096]);
        let long = |it: usize| format!("{it:03}{}", "x".repeat(997));
        assert_eq!(warned((0..5).map(long).collect()), [256; 5]);
        assert_eq!(warned((0..50).map(long).collect()), [256; 16]);
    }

    #[test]
    fn warnings_are_quoted_and_may_be_several() {
        let mut answer = empty(StatusCode::OK);
        warn(&mut answer, ["unknown field \"foo\"", "two\nlines"]);
        let warnings: Vec<_> = answer.headers().get_all(WARNING).iter().collect();
        assert_eq!(warnings, [r#"299 - "unknown field \"foo\"""#, r#"299 - "two lines""#]);
    }
}
