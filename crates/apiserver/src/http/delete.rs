//! Deletion of one object or of a collection.

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as HttpBody;
use serde_json::json;

use super::answer::{self, Answer};
use super::delete_options::Deletion;
use super::incoming;
use super::parsed_request::ParsedRequest;
use super::service::{Exchange, Service};
use super::show;
use super::show_list::{self, ListMetadata};
use super::write_options::manager_of_agent;
use crate::ApiError;
use crate::cluster::{Deleted, FieldValidation, ResponseObject, Writer, warning_of_deleting};
use crate::request::ListOptions;

impl Service {
    /// Deletes an object, or marks it for deletion.
    pub(super) async fn delete<B: HttpBody<Data = Bytes>>(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        body: B,
    ) -> Result<Answer, ApiError> {
        let deletion = self.deletion(exchange, body).await?;
        let writer = deleter(exchange, &deletion);
        let place = parsed.place();
        // kube-apiserver reads the object in the version of the request first (`Store.Delete` in
        // k8s.io/apiserver v0.36.4 pkg/registry/generic/registry/store.go): a failed conversion
        // must not be the response to a deletion that has begun.
        if parsed.kind.converted_by_webhook().is_some()
            && let Some(found) = self.cluster.get(&parsed.kind, &place.key()?)
        {
            self.cluster.conversion().ready_to_show(&parsed.kind, std::slice::from_ref(&found)).await?;
        }
        match self.cluster.delete(&place, &deletion.options, &writer).await? {
            Deleted::Gone { object, shows_object: true, warnings, .. } => {
                self.deleted(parsed, exchange, StatusCode::OK, object, &warnings).await
            }
            Deleted::Gone { uid, warnings, .. } => {
                let (def, name) = (&parsed.kind.def, parsed.place().name);
                let mut details = json!({ "name": name, "kind": def.plural, "uid": uid });
                if !def.group.is_empty() {
                    details["group"] = def.group.as_str().into();
                }
                let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details });
                let mut answer = answer::value(StatusCode::OK, &status, &exchange.negotiated, &self.settings);
                answer::warn(&mut answer, &warnings);
                Ok(answer)
            }
            Deleted::Going { object, accepted, warnings } => {
                let code = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
                self.deleted(parsed, exchange, code, object, &warnings).await
            }
        }
    }

    /// Deletes the objects that match a selection.
    pub(super) async fn delete_collection<B: HttpBody<Data = Bytes>>(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        body: B,
    ) -> Result<Answer, ApiError> {
        let options = ListOptions::parse(exchange.query.pairs())?;
        let reader = self.reader();
        let selection = reader.selection(parsed, exchange.query, &options.labels, &options.fields)?;
        let deletion = self.deletion(exchange, body).await?;
        let writer = deleter(exchange, &deletion);
        let (kind, negotiated) = (&parsed.kind, &exchange.negotiated);
        // The response shows the listed objects as they were before their deletion.
        let read = reader.shown_page(kind, &options, &selection, &*self.cluster).await;
        let (page, shown) = read.map_err(|it| it.refusal)?;
        self.cluster.delete_listed(kind, &page.items, &deletion.options, &writer).await?;
        let metadata = ListMetadata::of(&page, &selection);
        let content =
            show_list::list(&shown, &metadata, kind, negotiated, self.cluster.source().now()).await?;
        let mut answer = answer::document(StatusCode::OK, content, negotiated, &self.settings);
        answer::warn(&mut answer, warning_of_deleting(kind, &deletion.options));
        Ok(answer)
    }

    async fn deletion<B: HttpBody<Data = Bytes>>(
        &self,
        exchange: &Exchange<'_>,
        body: B,
    ) -> Result<Deletion, ApiError> {
        let bytes = self.bodies().read(body, exchange.headers, exchange.connection).await?;
        Deletion::read(&bytes, || incoming::form(exchange.headers), exchange.query)
    }

    async fn deleted(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        code: StatusCode,
        object: ResponseObject,
        warnings: &[String],
    ) -> Result<Answer, ApiError> {
        let object = self.cluster.conversion().ready_to_respond(&parsed.kind, object).await?;
        let content = show::object(&object, &parsed.kind, &exchange.negotiated, self.cluster.source().now())?;
        let mut answer = answer::document(code, content, &exchange.negotiated, &self.settings);
        answer::warn(&mut answer, warnings);
        Ok(answer)
    }
}

fn deleter(exchange: &Exchange<'_>, deletion: &Deletion) -> Writer {
    Writer {
        user: exchange.user.clone(),
        manager: manager_of_agent(exchange.headers),
        dry_run: deletion.dry_run,
        validation: FieldValidation::Ignore,
        ..Writer::server("")
    }
}
