//! Lists of collections.

use std::sync::Arc;

use dogwatch_core::{FieldSelector, LabelSelector, Reason, Status};
use http::StatusCode;

use super::answer::{self, Answer};
use super::backend::Freshness;
use super::negotiated::Negotiated;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::reader::Reader;
use super::show::{self, ListMetadata};
use crate::ApiError;
use crate::reading::{self, Page, Selection};
use crate::registry::Kind;
use crate::request::{ContinueToken, ListOptions, ListVersion, ShardSelector};
use crate::store::Encoded;

/// The error of a list, and the token to continue it in spite of the error.
#[derive(Debug)]
pub(super) struct ListError {
    /// The error.
    pub(super) refusal: ApiError,
    /// The continue token, for the rest of the list from a newer snapshot.
    pub(super) token: Option<String>,
}

impl From<ApiError> for ListError {
    fn from(refusal: ApiError) -> Self {
        Self { refusal, token: None }
    }
}

impl Reader {
    /// Serves a list, or a page of one.
    pub(super) async fn list(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        negotiated: &Negotiated,
        freshness: &dyn Freshness,
    ) -> Result<Answer, ListError> {
        let options = ListOptions::parse(query.pairs())?;
        let selection = self.selection(parsed, query, &options.labels, &options.fields)?;
        let (page, shown) = self.shown_page(&parsed.kind, &options, &selection, freshness).await?;
        let metadata = ListMetadata::of(&page, &selection);
        let now = self.backend.source().now();
        let content = show::list(&shown, &metadata, &parsed.kind, negotiated, now).await?;
        Ok(answer::document(StatusCode::OK, content, negotiated, &self.settings))
    }

    /// Reads a list, and converts its objects to the form that the client sees. Returns it with the
    /// converted objects; the listed ones are those that are among them.
    ///
    /// Labels and fields are those of the converted objects. A stored object may not have them, so
    /// that a page is selected after the conversion. It may then hold fewer objects than the limit.
    pub(super) async fn shown_page(
        &self,
        kind: &Kind,
        options: &ListOptions,
        selection: &Selection,
        freshness: &dyn Freshness,
    ) -> Result<(Page, Vec<Arc<Encoded>>), ListError> {
        if !self.backend.selects_shown(kind, selection) {
            let page = self.page(kind, options, selection, freshness).await?;
            let shown = self.backend.show(kind, &page.items).await?;
            return Ok((page, shown.into_iter().flatten().collect()));
        }
        let mut page = self.page(kind, options, &selection.without_content(), freshness).await?;
        let shown = self.backend.show(kind, &page.items).await?;
        let pairs = page.items.into_iter().zip(shown).filter_map(|(item, shown)| {
            let shown = shown.filter(|it| selection.holds(it))?;
            Some((item, shown))
        });
        let (items, shown) = pairs.unzip();
        page.items = items;
        page.remaining = None;
        Ok((page, shown))
    }

    /// Reads the objects and metadata of a list.
    async fn page(
        &self,
        kind: &Kind,
        options: &ListOptions,
        selection: &Selection,
        freshness: &dyn Freshness,
    ) -> Result<Page, ListError> {
        match &options.version {
            ListVersion::Newest => {
                self.reach_newest(freshness).await?;
            }
            ListVersion::NotOlderThan(version) | ListVersion::Exact(version) => self.reach(*version).await,
            ListVersion::Continue(token) if token.is_of_copy != self.backend.is_copy() => {
                return Err(foreign_token().into());
            }
            _ => {}
        }
        let page = self
            .store()
            .read(&kind.collection, |history, revision| reading::list(history, revision, options, selection));
        let is_of_copy = self.backend.is_copy();
        let marked = |token: ContinueToken| ContinueToken { is_of_copy, ..token };
        match page {
            Ok(page) => Ok(Page { next: page.next.map(marked), ..page }),
            Err(refusal) => {
                let token = match &options.version {
                    ListVersion::Continue(token) if refusal.0.is_expired() => {
                        Some(ContinueToken { version: None, ..token.clone() }.encode())
                    }
                    _ => None,
                };
                Err(ListError { refusal, token })
            }
        }
    }

    /// Returns the objects that a request selects.
    ///
    /// # Errors
    ///
    /// Returns 400 for a field that the kind cannot be selected by, and 500 for an invalid
    /// `shardSelector`, if sharding is enabled.
    pub(super) fn selection(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Selection, ApiError> {
        let fields = parsed.kind.field_selector(fields)?;
        let shards = query.get("shardSelector").filter(|_| self.settings.sharding);
        Ok(Selection {
            namespace: parsed.target.namespace.clone(),
            name: parsed.target.name.clone(),
            labels: labels.clone(),
            fields,
            shards: shards.map(ShardSelector::parse).transpose()?,
        })
    }
}

/// Returns 410: the token is from another server, whose positions are others. The client lists
/// again.
fn foreign_token() -> ApiError {
    let message = "The provided continue parameter is not from this server. Start a new list without it.";
    ApiError(Box::new(Status::failure(Reason::Expired, message)))
}
