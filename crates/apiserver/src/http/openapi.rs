//! The OpenAPI endpoints: an index with the hash of each document, and the documents, which can be
//! cached by their hash forever.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, StatusCode};
use jiff::{Timestamp, ToSpan};

use super::answer::{self, Answer};
use super::body::ResponseBody;
use super::pieces::Pieces;
use super::query::Query;
use crate::discovery::digest;
use crate::registry::Catalog;
use crate::request::media_types;

const JSON: &str = "application/json";
/// The protobuf media type of the version 2 document that client-go requests. It is deprecated,
/// since `@` is not allowed in a media type; responses have [`SWAGGER`].
const SWAGGER_DEPRECATED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const SWAGGER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The OpenAPI documents of the kinds that are served now.
#[derive(Debug)]
pub(super) struct OpenApi {
    catalog: Arc<Catalog>,
    now: Timestamp,
}

impl OpenApi {
    /// Returns the documents of these kinds.
    pub(super) fn of(catalog: Arc<Catalog>, now: Timestamp) -> Self {
        Self { catalog, now }
    }

    /// Serves the paths below `/openapi`; returns `None` for others.
    pub(super) fn serve(&self, path: &str, headers: &HeaderMap, query: &Query) -> Option<Answer> {
        match path.strip_prefix("/openapi/")? {
            "v3" => Some(answer::text_only(StatusCode::OK, self.catalog.openapi_index().clone())),
            "v2" => Some(vary(self.swagger(headers))),
            other => other.strip_prefix("v3/").map(|it| self.document(it, headers, query)),
        }
    }

    fn document(&self, path: &str, headers: &HeaderMap, query: &Query) -> Answer {
        let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return answer::empty(StatusCode::NOT_FOUND),
        };
        let Some(hash) = self.catalog.openapi_hash(group, version) else {
            return answer::empty(StatusCode::NOT_FOUND);
        };
        if preferred(headers, &[JSON]).is_none() {
            return vary(answer::empty(StatusCode::NOT_ACCEPTABLE));
        }
        let requested = query.get("hash");
        let mut answer = if requested.is_some_and(|it| it != hash) {
            moved(path, hash)
        } else if is_cached(headers, hash) {
            answer::empty(StatusCode::NOT_MODIFIED)
        } else {
            let document = self.catalog.openapi(group, version);
            whole(JSON, document.map(|it| it.body).unwrap_or_default())
        };
        if requested.is_some_and(|it| it == hash) {
            self.cache_forever(&mut answer);
        }
        tag(&mut answer, hash);
        vary(answer)
    }

    /// Serves the version 2 document, as JSON or protobuf.
    fn swagger(&self, headers: &HeaderMap) -> Answer {
        let Some(form) = preferred(headers, &[JSON, SWAGGER_DEPRECATED, SWAGGER]) else {
            return answer::empty(StatusCode::NOT_ACCEPTABLE);
        };
        let hash = digest(self.catalog.openapi_index());
        let mut answer = match form {
            _ if is_cached(headers, &hash) => answer::empty(StatusCode::NOT_MODIFIED),
            JSON => whole(JSON, self.catalog.swagger().json()),
            _ => whole(SWAGGER, self.catalog.swagger().protobuf()),
        };
        tag(&mut answer, &hash);
        answer
    }

    /// Marks a response as immutable: a document that is requested by its hash never changes.
    fn cache_forever(&self, answer: &mut Answer) {
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let next_year = self.now.to_zoned(jiff::tz::TimeZone::UTC).checked_add(1.year());
        let expires = next_year.map(|it| it.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
        if let Ok(Ok(expires)) = expires.map(|it| it.parse()) {
            answer.headers_mut().insert(EXPIRES, expires);
        }
    }
}

fn moved(path: &str, hash: &str) -> Answer {
    let mut answer = answer::empty(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = format!("/openapi/v3/{path}?hash={hash}").parse() {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn whole(content_type: &'static str, body: Bytes) -> Answer {
    let body = ResponseBody::whole(Pieces::from_iter([body]));
    answer::of(StatusCode::OK, Some(HeaderValue::from_static(content_type)), body)
}

fn is_cached(headers: &HeaderMap, hash: &str) -> bool {
    headers.get(IF_NONE_MATCH).is_some_and(|it| it.as_bytes() == quoted(hash).as_bytes())
}

fn tag(answer: &mut Answer, hash: &str) {
    answer.headers_mut().insert(ETAG, quoted(hash).parse().expect("a hash is hexadecimal"));
}

fn quoted(hash: &str) -> String {
    format!("\"{hash}\"")
}

fn vary(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    answer
}

/// Returns the first of the `served` types that the best clause of the `Accept` header matches.
fn preferred(headers: &HeaderMap, served: &[&'static str]) -> Option<&'static str> {
    let accepted = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).filter(|it| !it.is_empty());
    let takes = |clause: &str, it: &str| {
        clause == "*/*" || clause == it || clause.strip_suffix('*').is_some_and(|begin| it.starts_with(begin))
    };
    let clauses = media_types(accepted.unwrap_or("*/*"));
    clauses.into_iter().find_map(|clause| served.iter().copied().find(|it| takes(clause, it)))
}
