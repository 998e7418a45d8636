//! Lists of collections.

use std::sync::Arc;

use dogwatch_core::{FieldSelector, LabelSelector};
use http::StatusCode;

use super::answer::{self, Answer};
use super::negotiated::Negotiated;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::service::Service;
use super::show::{self, ListMetadata};
use super::show_protobuf::encode_ahead;
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

/// Returns true if a selection has to be evaluated on objects in the version of the kind: only a
/// webhook changes labels, but fields may have other names in the version in which an object was
/// stored, or may not have been selectable or had another default then.
pub(super) fn selects_shown(kind: &Kind, selection: &Selection) -> bool {
    let labels = kind.converted_by_webhook().is_some() && !selection.labels.is_everything();
    labels || (kind.is_evolved() && selection.selects_fields())
}

impl Service {
    /// Serves a list, or a page of one.
    pub(super) async fn list(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        negotiated: &Negotiated,
    ) -> Result<Answer, ListError> {
        let options = ListOptions::parse(query.pairs())?;
        let selection = self.selection(parsed, query, &options.labels, &options.fields)?;
        let (page, shown) = self.shown_page(&parsed.kind, &options, &selection).await?;
        let metadata = ListMetadata::of(&page, &selection);
        let now = self.cluster.source().now();
        let items = || shown.iter().map(|it| &**it);
        encode_ahead(items(), &parsed.kind, negotiated).await;
        let content = show::list(items(), &metadata, &parsed.kind, negotiated, now)?;
        Ok(answer::document(StatusCode::OK, content, negotiated, &self.settings))
    }

    /// Reads a list, and converts its objects to the version of the kind. Returns it with the
    /// converted objects, one for each that is listed.
    ///
    /// Labels and fields are those of the version of the request. A stored object of a custom kind
    /// may not have them, so that a page is selected after the conversion. It may then hold fewer
    /// objects than the limit.
    pub(super) async fn shown_page(
        &self,
        kind: &Kind,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<(Page, Vec<Arc<Encoded>>), ListError> {
        if !selects_shown(kind, selection) {
            let page = self.page(kind, options, selection).await?;
            let shown = self.cluster.conversion().ready_to_show(kind, &page.items).await?;
            return Ok((page, shown));
        }
        let mut page = self.page(kind, options, &selection.without_content()).await?;
        let shown = self.cluster.conversion().ready_to_show(kind, &page.items).await?;
        let pairs = page.items.into_iter().zip(shown).filter(|(_, shown)| selection.holds(shown));
        let (items, shown) = pairs.unzip();
        page.items = items;
        page.remaining = None;
        Ok((page, shown))
    }

    /// Reads the objects and metadata of a list.
    pub(super) async fn page(
        &self,
        kind: &Kind,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<Page, ListError> {
        let store = self.cluster.store();
        match &options.version {
            ListVersion::Newest => {
                self.cluster.storage().newest().await;
            }
            ListVersion::NotOlderThan(version) | ListVersion::Exact(version) => self.reach(*version).await,
            _ => {}
        }
        let page = store
            .read(&kind.collection, |history, revision| reading::list(history, revision, options, selection));
        page.map_err(|refusal| {
            let token = match &options.version {
                ListVersion::Continue(token) if refusal.0.is_expired() => {
                    Some(ContinueToken { version: None, after: token.after.clone() }.encode())
                }
                _ => None,
            };
            ListError { refusal, token }
        })
    }

    /// Waits until the store reaches a version, up to a limit.
    pub(super) async fn reach(&self, version: u64) {
        let arrived = self.cluster.store().reach(version);
        let _ = tokio::time::timeout(self.settings.version_wait, arrived).await;
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
