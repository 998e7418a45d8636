//! Lists of collections.

use dogwatch_core::{FieldSelector, LabelSelector};
use http::StatusCode;

use super::answer::{self, Answer};
use super::negotiated::Negotiated;
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::service::Service;
use super::show::{self, ListMetadata};
use crate::api_error::ApiError;
use crate::reading::{self, Page, Selection};
use crate::registry::Kind;
use crate::request::{ContinueToken, ListOptions, ListVersion, ShardSelector};

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
        let page = self.page(&parsed.kind, &options, &selection).await?;
        self.cluster.ready_to_show(&parsed.kind, &page.items).await?;
        let metadata = ListMetadata::of(&page, &selection);
        let now = self.cluster.source().now();
        let items = page.items.iter().map(|it| &**it);
        let pieces = show::list(items, &metadata, &parsed.kind, negotiated, now)?;
        Ok(answer::document(StatusCode::OK, pieces, negotiated, &self.settings))
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
