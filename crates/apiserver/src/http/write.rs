//! Creates, updates and patches.

use bytes::Bytes;
use dogwatch_core::{Reason, Status};
use http::{HeaderMap, StatusCode};
use http_body::Body as HttpBody;
use serde_json::Value;

use super::answer::{self, Answer};
use super::incoming;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::service::{Exchange, Service};
use super::show;
use super::write_options::{Options, writer};
use crate::ApiError;
use crate::cluster::{Body, FieldValidation, PatchBody, WriteOutcome, Writer, decode, decode_as};
use crate::patch::PatchKind;

/// The interpretation of a patch body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchForm {
    /// A patch of some type.
    Patch(PatchKind),
    /// A server-side apply configuration.
    Apply,
}

impl Service {
    /// Creates an object, or posts to a subresource.
    pub(super) async fn create<B: HttpBody<Data = Bytes>>(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        body: B,
    ) -> Result<Answer, ApiError> {
        let form = incoming::form(exchange.headers)?;
        let bytes = self.bodies().read(body, exchange.headers, exchange.connection).await?;
        let writer = writer(Options::Create, exchange.query, exchange.headers, exchange.user.clone())?;
        let (object, warnings) = read_object(parsed, &Body { bytes, form }, writer.validation)?;
        let written = self.cluster.create(&parsed.place(), object, &writer).await;
        let warnings = with_refused(warnings, &writer);
        self.answered(parsed, exchange, written.map(|it| WriteOutcome { created: true, ..it }), warnings)
            .await
    }

    /// Replaces an object or a subresource.
    pub(super) async fn update<B: HttpBody<Data = Bytes>>(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        body: B,
    ) -> Result<Answer, ApiError> {
        let bytes = self.bodies().read(body, exchange.headers, exchange.connection).await?;
        let writer = writer(Options::Update, exchange.query, exchange.headers, exchange.user.clone())?;
        let form = incoming::form(exchange.headers)?;
        let (object, warnings) = read_object(parsed, &Body { bytes, form }, writer.validation)?;
        let written = self.cluster.update(&parsed.place(), object, &writer).await;
        let warnings = with_refused(warnings, &writer);
        self.answered(parsed, exchange, written, warnings).await
    }

    /// Patches an object, or applies one.
    pub(super) async fn patch<B: HttpBody<Data = Bytes>>(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        form: PatchForm,
        body: B,
    ) -> Result<Answer, ApiError> {
        let bytes = self.bodies().read(body, exchange.headers, exchange.connection).await?;
        let (options, patch) = match form {
            PatchForm::Apply => {
                (Options::Apply, PatchBody::Apply { body: bytes, force: forces(exchange.query) })
            }
            PatchForm::Patch(kind) => (Options::Patch, PatchBody::Patch(kind, bytes)),
        };
        let writer = writer(options, exchange.query, exchange.headers, exchange.user.clone())?;
        let written = self.cluster.patch(&parsed.place(), &patch, &writer).await;
        self.answered(parsed, exchange, written, with_refused(Vec::new(), &writer)).await
    }

    /// Builds the response to a write. The warnings are also added to an error response.
    async fn answered(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        written: Result<WriteOutcome, ApiError>,
        warnings: Vec<String>,
    ) -> Result<Answer, ApiError> {
        match written {
            Ok(written) => self.written(parsed, exchange, written, warnings).await,
            Err(refusal) if warnings.is_empty() => Err(refusal),
            Err(refusal) => {
                let mut answer = self.refuse(&refusal, None, exchange.headers, exchange.query);
                answer::warn(&mut answer, &warnings);
                Ok(answer)
            }
        }
    }

    async fn written(
        &self,
        parsed: &ParsedRequest,
        exchange: &Exchange<'_>,
        written: WriteOutcome,
        warnings: Vec<String>,
    ) -> Result<Answer, ApiError> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let negotiated = &exchange.negotiated;
        let object = self.cluster.conversion().ready_to_respond(&parsed.kind, written.object).await?;
        let content = show::object(&object, &parsed.kind, negotiated, self.cluster.source().now())?;
        let mut answer = answer::document(code, content, negotiated, &self.settings);
        answer::warn(&mut answer, warnings.iter().chain(&written.warnings));
        Ok(answer)
    }
}

impl PatchForm {
    /// Returns the interpretation that the content type demands.
    ///
    /// # Errors
    ///
    /// Returns 415 for a type that is not a patch type, or not one for this kind.
    pub(super) fn of(parsed: &ParsedRequest, headers: &HeaderMap) -> Result<Self, ApiError> {
        let given = incoming::content_type(headers).unwrap_or_default();
        let media = given.split(';').next().unwrap_or_default().trim();
        let custom = parsed.kind.def.custom;
        match (media, PatchKind::from_content_type(media)) {
            ("application/apply-patch+yaml", _) => Ok(Self::Apply),
            (_, Some(PatchKind::Strategic)) if custom => Err(unknown_format()),
            (_, Some(kind)) => Ok(Self::Patch(kind)),
            (_, None) if custom => Err(unknown_format()),
            (_, None) => Err(ApiError::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type")),
        }
    }
}

/// Adds the warnings about an object that was rejected to those about the body.
fn with_refused(mut warnings: Vec<String>, writer: &Writer) -> Vec<String> {
    warnings.extend(writer.refused_warnings.take());
    warnings
}

fn forces(query: &Query) -> bool {
    query.flag("force") == Some(true)
}

fn unknown_format() -> ApiError {
    let message = "the body of the request was in an unknown format - accepted media types include: \
                   application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    ApiError(Box::new(Status::failure(Reason::UnsupportedMediaType, message)))
}

/// Decodes the object in a body: of the kind itself, or of the kind that the subresource takes.
fn read_object(
    parsed: &ParsedRequest,
    body: &Body,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let def = &parsed.kind.def;
    match def.subresource(parsed.part()).map(|it| def.subresource_gvk(it)) {
        Some(part) if part != def.gvk() => decode_as(&part.api_version(), &part.kind, body, validation),
        _ => decode(&parsed.kind, body, validation),
    }
}
