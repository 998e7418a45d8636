//! Requests for one resource of another server, answered from a copy.

use std::sync::Arc;

use http::request::Parts;

use super::answer::{self, Answer};
use super::backend::{Backend, Freshness};
use super::list::ListError;
use super::negotiated::{Endpoint, Negotiated};
use super::parsed_request::{ParsedRequest, RoutingError, method_not_allowed, not_found};
use super::query::Query;
use super::reader::Reader;
use super::settings::Settings;
use crate::ApiError;
use crate::faults::{Call, FaultInjector};
use crate::panics::caught;
use crate::registry::Kind;
use crate::request::{Route, Verb};

/// Answers requests that read one resource.
#[derive(Clone, Debug)]
pub(crate) struct CopyService {
    reader: Reader,
    kind: Arc<Kind>,
    /// True if whole objects are offered in protobuf.
    offers_protobuf: bool,
    /// Without rules.
    faults: FaultInjector,
}

impl CopyService {
    /// Serves a kind from a backend.
    pub(crate) fn new(
        kind: Arc<Kind>,
        backend: Arc<dyn Backend>,
        settings: Settings,
        offers_protobuf: bool,
    ) -> Self {
        let reader = Reader::new(backend, Arc::new(settings));
        Self { reader, kind, offers_protobuf, faults: FaultInjector::default() }
    }

    /// Returns a service with the same counters for another backend.
    #[must_use]
    pub(crate) fn of(&self, backend: Arc<dyn Backend>) -> Self {
        Self { reader: self.reader.of(backend), ..self.clone() }
    }

    /// Returns the number of open watches, of all backends.
    pub(crate) fn watches(&self) -> u64 {
        self.reader.metrics.watches()
    }

    /// Answers a request.
    pub(crate) async fn respond(&self, parts: &Parts, freshness: &dyn Freshness) -> Answer {
        let query = Query::parse(parts.uri.query());
        let answered = match caught(self.serve(parts, &query, freshness)).await {
            Ok(answered) => answered,
            Err(panic) => {
                Err(self.reader.panics.answer(&panic, parts.method.as_str(), parts.uri.path()).into())
            }
        };
        let answer = answered.unwrap_or_else(|it| {
            self.reader.refuse(&it.refusal, it.token.as_deref(), &parts.headers, &query)
        });
        answer::finish(answer, parts, self.reader.backend.source())
    }

    /// Answers a request with an error.
    pub(crate) fn refuse(&self, refusal: &ApiError, parts: &Parts) -> Answer {
        let query = Query::parse(parts.uri.query());
        let answer = self.reader.refuse(refusal, None, &parts.headers, &query);
        answer::finish(answer, parts, self.reader.backend.source())
    }

    async fn serve(
        &self,
        parts: &Parts,
        query: &Query,
        freshness: &dyn Freshness,
    ) -> Result<Answer, ListError> {
        let parsed = match self.parse(parts, query) {
            Ok(parsed) => parsed,
            Err(RoutingError::Refused(refusal)) => return Err(refusal.into()),
            Err(RoutingError::PlainNotFound) => return Ok(answer::page_not_found()),
        };
        let answered = self.serve_verb(&parsed, parts, query, freshness).await;
        let mut answer = answered
            .unwrap_or_else(|it| self.reader.refuse(&it.refusal, it.token.as_deref(), &parts.headers, query));
        // Errors have it as well.
        answer::warn(&mut answer, parsed.deprecation());
        Ok(answer)
    }

    async fn serve_verb(
        &self,
        parsed: &ParsedRequest,
        parts: &Parts,
        query: &Query,
        freshness: &dyn Freshness,
    ) -> Result<Answer, ListError> {
        let endpoint = if self.offers_protobuf { parsed.endpoint() } else { Endpoint::Custom };
        let negotiated = Negotiated::of(&parts.headers, query, endpoint)?;
        let reader = &self.reader;
        match parsed.verb {
            Verb::Get => Ok(reader.get(parsed, query, &negotiated, freshness).await?),
            Verb::List => reader.list(parsed, query, &negotiated, freshness).await,
            Verb::Watch => {
                let faults = self.faults.watch(&call(parsed));
                Ok(reader.watch(parsed, query, &negotiated, freshness, faults).await?)
            }
            _ => Err(method_not_allowed().into()),
        }
    }

    /// Resolves the meaning of a request for the kind.
    fn parse(&self, parts: &Parts, query: &Query) -> Result<ParsedRequest, RoutingError> {
        let Route::Resource(target) = Route::parse(parts.uri.path()) else {
            return Err(RoutingError::PlainNotFound);
        };
        let def = &self.kind.def;
        let is_kind =
            (&target.group, &target.version, &target.resource) == (&def.group, &def.version, &def.plural);
        if !is_kind || target.subresource.is_some() {
            return Err(RoutingError::Refused(not_found()));
        }
        ParsedRequest::of_kind(&self.kind, &target, &parts.method, query)
    }
}

/// Describes a watch for fault rules, of which there are none.
fn call(parsed: &ParsedRequest) -> Call<'_> {
    Call {
        verb: "watch",
        group: "",
        resource: &parsed.target.resource,
        namespace: None,
        name: None,
        part: "",
        user: "",
    }
}
