//! The discovery endpoints: the aggregated documents with their ETags, and the legacy ones.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use super::answer::{self, Answer};
use super::body::ResponseBody;
use super::negotiated::{Endpoint, Negotiated};
use super::parsed_request::{RoutingError, method_not_allowed, no_resource, not_found};
use super::pieces::Pieces;
use super::query::Query;
use super::settings::Settings;
use crate::ApiError;
use crate::discovery::{
    AGGREGATED_PROTOBUF_TYPE, AGGREGATED_TYPE, api_versions, etag, group, group_list, resource_list,
};
use crate::registry::Catalog;
use crate::request::{Encoding, ObjectForm};

/// The discovery documents of the kinds that are served now.
#[derive(Debug)]
pub(super) struct Discovery<'a> {
    catalog: Arc<Catalog>,
    settings: &'a Settings,
}

impl<'a> Discovery<'a> {
    /// Returns the documents of these kinds.
    pub(super) fn of(catalog: Arc<Catalog>, settings: &'a Settings) -> Self {
        Self { catalog, settings }
    }
}

impl Discovery<'_> {
    /// Serves `/api`.
    pub(super) fn core_versions(
        &self,
        method: &Method,
        headers: &HeaderMap,
        query: &Query,
        authority: Option<&str>,
    ) -> Result<Answer, ApiError> {
        if method != Method::GET {
            return Err(method_not_allowed());
        }
        let negotiated = Negotiated::of(headers, query, Endpoint::DiscoveryRoot)?;
        if negotiated.form == ObjectForm::Discovery {
            return Ok(aggregated(&self.catalog, 0, &negotiated, headers));
        }
        let host = headers.get(HOST).and_then(|it| it.to_str().ok()).or(authority);
        let document = api_versions(self.catalog.served(), host.unwrap_or("localhost"));
        Ok(answer::value(StatusCode::OK, &document, &negotiated, self.settings))
    }

    /// Serves `/apis`.
    pub(super) fn groups(&self, headers: &HeaderMap, query: &Query) -> Result<Answer, ApiError> {
        let negotiated = Negotiated::of(headers, query, Endpoint::DiscoveryRoot)?;
        if negotiated.form == ObjectForm::Discovery {
            return Ok(aggregated(&self.catalog, 1, &negotiated, headers));
        }
        Ok(answer::value(StatusCode::OK, &group_list(self.catalog.served()), &negotiated, self.settings))
    }

    /// Serves `/apis/{group}`.
    pub(super) fn group(
        &self,
        name: &str,
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Answer, RoutingError> {
        let document = group(self.catalog.served(), name).ok_or(RoutingError::PlainNotFound)?;
        self.described(&document, headers, query).map_err(RoutingError::Refused)
    }

    /// Serves `/api/{version}` and `/apis/{group}/{version}`.
    pub(super) fn group_version(
        &self,
        (group, version): (&str, &str),
        method: &Method,
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Answer, RoutingError> {
        let Some(document) = resource_list(self.catalog.served(), group, version) else {
            return Err(match no_resource(&self.catalog, group) {
                RoutingError::Refused(_) => RoutingError::Refused(not_found()),
                page => page,
            });
        };
        if method != Method::GET && self.catalog.is_builtin_group(group) {
            return Err(RoutingError::Refused(method_not_allowed()));
        }
        self.described(&document, headers, query).map_err(RoutingError::Refused)
    }

    fn described(&self, document: &Value, headers: &HeaderMap, query: &Query) -> Result<Answer, ApiError> {
        let negotiated = Negotiated::of(headers, query, Endpoint::Discovery)?;
        Ok(answer::value(StatusCode::OK, document, &negotiated, self.settings))
    }
}

/// Builds a response with one of the two aggregated documents, or 304 if the client has it already.
fn aggregated(catalog: &Catalog, index: usize, negotiated: &Negotiated, headers: &HeaderMap) -> Answer {
    let json = &catalog.aggregated()[index];
    // The tag is that of the JSON in every encoding, as in k8s.io/apiserver v0.36.4
    // pkg/endpoints/discovery/aggregated/etag.go.
    let tag = etag(json);
    let known = headers.get(IF_NONE_MATCH).and_then(|it| it.to_str().ok()).is_some_and(|it| it == tag);
    let mut answer = if known {
        answer::empty(StatusCode::NOT_MODIFIED)
    } else {
        let (document, content_type) = match negotiated.encoding {
            Encoding::Protobuf => (&catalog.aggregated_protobuf()[index], AGGREGATED_PROTOBUF_TYPE),
            _ => (json, AGGREGATED_TYPE),
        };
        let body = ResponseBody::whole(Pieces::from_iter([document.clone()]));
        answer::of(StatusCode::OK, Some(HeaderValue::from_static(content_type)), body)
    };
    let headers = answer.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(ETAG, tag.parse().expect("a digest is hexadecimal"));
    if known {
        headers.remove(CONTENT_TYPE);
    }
    answer
}
