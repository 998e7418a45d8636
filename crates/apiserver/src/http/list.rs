//! Lists of collections.

use std::sync::Arc;

use dogwatch_core::{FieldSelector, LabelSelector, Reason, Status};
use http::StatusCode;
use jiff::Timestamp;

use super::answer::{self, Answer};
use super::backend::Freshness;
use super::content::Content;
use super::list_memory::ListShare;
use super::negotiated::Negotiated;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::reader::Reader;
use super::show_list::{self, ListMetadata};
use super::streamed_list::{Shown, streamed_list};
use crate::ApiError;
use crate::reading::{self, Page, Selection};
use crate::registry::Kind;
use crate::request::{ContinueToken, ListOptions, ListVersion, ShardSelector};
use crate::store::Encoded;

/// The number of bytes that a list takes while it is encoded and sent, besides a reference to each
/// object.
const STREAMED: usize = 256 * 1024;

/// The number of bytes of JSON for each byte of a stored object, at most, if it is in protobuf.
const JSON_GROWTH: usize = 3;

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
        let (kind, now) = (&parsed.kind, self.backend.source().now());
        let mut share = None;
        let (page, shown) = if self.backend.waits_to_show(kind, &selection) {
            self.shown_page(kind, &options, &selection, freshness).await?
        } else {
            let read = async || -> Result<_, ListError> {
                let page = self.stored_page(kind, &options, &selection, freshness).await?;
                let streamed = self.streamed(&page, kind, &selection, negotiated, now).await?;
                Ok((page, streamed))
            };
            let (mut page, mut streamed) = read().await?;
            if let Some(memory) = &self.settings.list_memory {
                let size = memory_of(&page, streamed.is_some());
                share = memory.try_take(size);
                if share.is_none() {
                    // A list that waits must not keep its objects.
                    drop((page, streamed));
                    share = Some(memory.take(size).await?);
                    (page, streamed) = read().await?;
                }
            }
            if let Some(list) = streamed {
                return Ok(self.sent(list, negotiated, share));
            }
            self.show_page(kind, page, &selection).await?
        };
        let metadata = ListMetadata::of(&page, &selection);
        let content = show_list::list(&shown, &metadata, kind, negotiated, now).await?;
        Ok(self.sent(content, negotiated, share))
    }

    fn sent(&self, content: Content, negotiated: &Negotiated, share: Option<ListShare>) -> Answer {
        let mut answer = answer::document(StatusCode::OK, content, negotiated, &self.settings);
        answer.body_mut().hold(share);
        answer
    }

    /// Returns a long list that is encoded while it is sent.
    async fn streamed(
        &self,
        page: &Page,
        kind: &Arc<Kind>,
        selection: &Selection,
        negotiated: &Negotiated,
        now: Timestamp,
    ) -> Result<Option<Content>, ApiError> {
        let selects_shown = self.backend.selects_shown(kind, selection);
        let shown = selects_shown.then(|| {
            let (backend, kind) = (Arc::clone(&self.backend), Arc::clone(kind));
            Shown { backend, kind, selection: selection.clone() }
        });
        let mut metadata = ListMetadata::of(page, selection);
        if selects_shown {
            metadata.forget_remaining();
        }
        let panics = self.panics.clone();
        streamed_list(&page.items, &metadata, kind, negotiated, now, shown, panics).await
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
        let page = self.stored_page(kind, options, selection, freshness).await?;
        self.show_page(kind, page, selection).await
    }

    /// Reads a list of stored objects, from which [`Self::show_page`] selects if that takes their
    /// converted form.
    async fn stored_page(
        &self,
        kind: &Kind,
        options: &ListOptions,
        selection: &Selection,
        freshness: &dyn Freshness,
    ) -> Result<Page, ListError> {
        if self.backend.selects_shown(kind, selection) {
            self.page(kind, options, &selection.without_content(), freshness).await
        } else {
            self.page(kind, options, selection, freshness).await
        }
    }

    async fn show_page(
        &self,
        kind: &Kind,
        mut page: Page,
        selection: &Selection,
    ) -> Result<(Page, Vec<Arc<Encoded>>), ListError> {
        let shown = self.backend.show(kind, &page.items).await?;
        if !self.backend.selects_shown(kind, selection) {
            return Ok((page, shown.into_iter().flatten().collect()));
        }
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
        let mut least = 0;
        match &options.version {
            ListVersion::Newest => least = freshness.newest().await?,
            ListVersion::NotOlderThan(version) | ListVersion::Exact(version) => self.reach(*version).await,
            ListVersion::Continue(token) if token.is_of_copy != self.backend.is_copy() => {
                return Err(foreign_token().into());
            }
            ListVersion::Continue(token) if token.is_of_copy => {
                self.reach(token.version.unwrap_or_default()).await;
            }
            _ => {}
        }
        let page = self
            .read_since(least, &kind.collection, |history, known| {
                reading::list(history, known, options, selection)
            })
            .await?;
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

/// Returns the number of bytes that a list takes until it is sent, at most.
fn memory_of(page: &Page, is_streamed: bool) -> usize {
    if is_streamed {
        return page.items.len().saturating_mul(size_of::<usize>()).saturating_add(STREAMED);
    }
    let stored = page.items.iter().map(|it| it.length()).fold(0, usize::saturating_add);
    stored.saturating_mul(JSON_GROWTH)
}

/// Returns 410: the token is from another server, whose positions are others. The client lists
/// again.
fn foreign_token() -> ApiError {
    let message = "The provided continue parameter is not from this server. Start a new list without it.";
    ApiError(Box::new(Status::failure(Reason::Expired, message)))
}
