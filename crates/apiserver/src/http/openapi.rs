//! The OpenAPI documents: an index with the fingerprint of each, and the documents themselves, to be kept for ever.

use http::header::{CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, StatusCode};
use jiff::ToSpan;

use super::answer::{self, Answer};
use super::body::AnswerBody;
use super::pieces::Pieces;
use super::query::Query;
use super::service::Service;
use crate::openapi::Document;

impl Service {
    /// Paths below `/openapi`, if this is one.
    pub(super) fn openapi(&self, path: &str, headers: &HeaderMap, query: &Query) -> Option<Answer> {
        match path.strip_prefix("/openapi/")? {
            "v3" => {
                let catalog = self.cluster.catalog();
                Some(answer::text_only(StatusCode::OK, catalog.openapi_index().clone()))
            }
            // There is no document of the old version: clients of today survive that, as they look at the new one first.
            "v2" => Some(vary(answer::empty(StatusCode::NOT_ACCEPTABLE))),
            other => other.strip_prefix("v3/").map(|it| self.openapi_document(it, headers, query)),
        }
    }

    fn openapi_document(&self, path: &str, headers: &HeaderMap, query: &Query) -> Answer {
        let catalog = self.cluster.catalog();
        let found = match path.split('/').collect::<Vec<_>>().as_slice() {
            ["api", version] => catalog.openapi("", version),
            ["apis", group, version] => catalog.openapi(group, version),
            _ => None,
        };
        let Some(document) = found else { return answer::empty(StatusCode::NOT_FOUND) };
        if !takes_json(headers) {
            return vary(answer::empty(StatusCode::NOT_ACCEPTABLE));
        }
        let tag = format!("\"{}\"", document.hash);
        let known = headers.get(IF_NONE_MATCH).and_then(|it| it.to_str().ok()).is_some_and(|it| it == tag);
        let mut answer = match query.get("hash") {
            Some(hash) if hash != document.hash => moved(document),
            _ if known => answer::empty(StatusCode::NOT_MODIFIED),
            _ => {
                let body = AnswerBody::whole(Pieces::from_iter([document.body.clone()]));
                answer::of(StatusCode::OK, Some(HeaderValue::from_static("application/json")), body)
            }
        };
        if query.get("hash") == Some(&document.hash) {
            self.keep_for_ever(&mut answer);
        }
        answer.headers_mut().insert(ETAG, tag.parse().expect("a fingerprint is hexadecimal"));
        vary(answer)
    }

    /// What is asked for by its fingerprint never changes.
    fn keep_for_ever(&self, answer: &mut Answer) {
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let next_year = self.cluster.source().now().to_zoned(jiff::tz::TimeZone::UTC).checked_add(1.year());
        let expires = next_year.map(|it| it.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
        if let Ok(Ok(expires)) = expires.map(|it| it.parse()) {
            answer.headers_mut().insert(EXPIRES, expires);
        }
    }
}

fn moved(document: &Document) -> Answer {
    let mut answer = answer::empty(StatusCode::MOVED_PERMANENTLY);
    let location = format!("/openapi/v3/{}?hash={}", document.path, document.hash);
    if let Ok(location) = location.parse() {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn vary(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    answer
}

fn takes_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(http::header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let takes = |it: &str| {
        matches!(it.split(';').next().map(str::trim), Some("application/json" | "application/*" | "*/*"))
    };
    accepted.is_empty() || accepted.split(',').any(takes)
}
