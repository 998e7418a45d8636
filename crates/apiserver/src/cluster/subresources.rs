//! Reads of subresources, and the creation of those with behaviour of their own: bindings,
//! evictions, tokens.

use serde_json::Value;

use super::eviction::Eviction;
use super::kubelet::KubeletRequest;
use super::scale::ScaleSubresource;
use super::{Cluster, ObjectRef, ResponseObject, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::text;

impl Cluster {
    /// Returns an object, or a subresource such as its Scale.
    ///
    /// # Errors
    /// 404 if there is no such object; the error of reading the subresource.
    pub async fn read_part(&self, place: &ObjectRef<'_>) -> Result<ResponseObject, ApiError> {
        let current = self.get(place.kind, &place.key()?).ok_or_else(|| place.kind.not_found(place.name))?;
        match place.part {
            "scale" => ScaleSubresource::of(self, place).read(&current).await.map(ResponseObject::Value),
            "log" => Err(KubeletRequest::of(self, place).refuse()),
            _ => self.conversion().ready_to_respond(place.kind, ResponseObject::Stored(current)).await,
        }
    }

    /// Executes the creation of a subresource.
    pub(super) async fn create_part(
        &self,
        place: &ObjectRef<'_>,
        object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let misnamed = text(&object, "/metadata/name") != place.name;
        let about =
            |what: &str| ApiError::bad_request(format!("name in URL does not match name in {what} object"));
        match place.part {
            "binding" if misnamed => Err(about("Binding")),
            "binding" => self.bind(place, place.name, &object, writer).await,
            "eviction" if misnamed => Err(about("Eviction")),
            "eviction" => Eviction::of(self, place, &object, writer).run().await,
            "token" => self.tokens().request(&place.key()?, &object).map(|it| WriteOutcome::value(it, true)),
            _ => Err(KubeletRequest::of(self, place).refuse()),
        }
    }
}
