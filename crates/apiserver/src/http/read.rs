//! Reads of one object or a subresource of it.

use http::StatusCode;

use super::answer::{self, Answer};
use super::backend::Freshness;
use super::negotiated::Negotiated;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::reader::Reader;
use super::service::Service;
use super::show;
use crate::ApiError;
use crate::cluster::ResponseObject;
use crate::kinds::POD;
use crate::reading::initializing;
use crate::store::{History, KnownState};
use crate::strconv;

impl Reader {
    /// Serves one object.
    pub(super) async fn get(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        negotiated: &Negotiated,
        freshness: &dyn Freshness,
    ) -> Result<Answer, ApiError> {
        let least = self.least_version(query, freshness).await?;
        let place = parsed.place();
        let key = place.key()?;
        let find = |history: &History, known: KnownState| {
            if history.is_closed() {
                // A copy may have been closed meanwhile: then nothing is known about the object.
                return Err(initializing());
            }
            let found = match known.snapshot == known.revision {
                true => history.get(&key),
                false => history.get_at(known.snapshot, &key).unwrap_or_else(|_| history.get(&key)),
            };
            Ok(found.cloned())
        };
        let found = self.read_since(least, &place.kind.collection, find).await??;
        let shown = match found {
            Some(found) => self.backend.show(place.kind, &[found]).await?.pop().flatten(),
            None => None,
        };
        let shown = shown.ok_or_else(|| place.kind.not_found(place.name))?;
        self.respond_with(&ResponseObject::Stored(shown), parsed, negotiated)
    }

    /// Returns the least version that a read of one object may show.
    async fn least_version(&self, query: &Query, freshness: &dyn Freshness) -> Result<u64, ApiError> {
        let Some(text) = query.get("resourceVersion") else { return freshness.newest().await };
        text.parse().map_err(|it| {
            let why = strconv::error("ParseUint", text, &it);
            ApiError::unexplained(format!("resourceVersion: Invalid value: {text:?}: {why}"))
        })
    }

    fn respond_with(
        &self,
        shown: &ResponseObject,
        parsed: &ParsedRequest,
        negotiated: &Negotiated,
    ) -> Result<Answer, ApiError> {
        let content = show::object(shown, &parsed.kind, negotiated, self.backend.source().now())?;
        Ok(answer::document(StatusCode::OK, content, negotiated, &self.settings))
    }
}

impl Service {
    /// Serves a subresource of an object.
    pub(super) async fn get_part(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        negotiated: &Negotiated,
    ) -> Result<Answer, ApiError> {
        let reader = self.reader();
        let least = reader.least_version(query, &*self.cluster).await?;
        reader.reach_or_refuse(least).await?;
        let place = parsed.place();
        if place.part == "log" && place.kind.is(&POD) {
            return self.pod_log(parsed, query).await;
        }
        let shown = self.cluster.read_part(&place).await?;
        reader.respond_with(&shown, parsed, negotiated)
    }
}
