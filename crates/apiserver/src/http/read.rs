//! Reads of one object or a subresource of it.

use dogwatch_core::{Details, Reason, Status};
use http::StatusCode;

use super::answer::{self, Answer};
use super::negotiated::Negotiated;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::service::Service;
use super::show;
use crate::ApiError;
use crate::cluster::{KubeletRequest, ResponseObject};
use crate::strconv;

impl Service {
    /// Serves one object, or a subresource of it.
    pub(super) async fn get(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        negotiated: &Negotiated,
    ) -> Result<Answer, ApiError> {
        match query.get("resourceVersion") {
            None => {
                self.cluster.storage().newest().await;
            }
            Some(text) => self.not_older_than(text).await?,
        }
        let place = parsed.place();
        let shown = if place.part.is_empty() {
            let found = self.cluster.get(place.kind, &place.key()?);
            let found = found.ok_or_else(|| place.kind.not_found(place.name))?;
            self.cluster.conversion().ready_to_respond(place.kind, ResponseObject::Stored(found)).await?
        } else {
            KubeletRequest::of(&self.cluster, &place).check_container(query.get("container"))?;
            self.cluster.read_part(&place).await?
        };
        let content = show::object(&shown, place.kind, negotiated, self.cluster.source().now())?;
        Ok(answer::document(StatusCode::OK, content, negotiated, &self.settings))
    }

    async fn not_older_than(&self, text: &str) -> Result<(), ApiError> {
        let version: u64 = text.parse().map_err(|it| {
            let why = strconv::error("ParseUint", text, &it);
            ApiError::unexplained(format!("resourceVersion: Invalid value: {text:?}: {why}"))
        })?;
        self.reach(version).await;
        let revision = self.cluster.store().revision();
        if revision < version { Err(too_large(version, revision)) } else { Ok(()) }
    }
}

/// Returns 504: the store has not reached the version yet. As `NewTooLargeResourceVersionError` in
/// k8s.io/apiserver v0.36.4 pkg/storage/errors.go.
pub(super) fn too_large(requested: u64, revision: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {requested}, current: {revision}");
    let mut status = Status::failure(Reason::Timeout, message);
    status.details = Some(Details { retry_after_seconds: 1, ..Details::default() });
    ApiError(Box::new(status)).cause("ResourceVersionTooLarge", "Too large resource version", "")
}
