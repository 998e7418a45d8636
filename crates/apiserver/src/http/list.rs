//! Reading a collection.

use dogwatch_core::{FieldSelector, LabelSelector};
use http::StatusCode;

use super::answer::{self, Answer};
use super::asked::Asked;
use super::query::Query;
use super::service::Service;
use super::show::{self, ListMetadata};
use super::wish::Wish;
use crate::reading::{self, Page, Selection};
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::request::{ContinueToken, ListOptions, ListVersion, ShardSelector};

/// Why a list could not be given, and where it can go on in spite of it.
#[derive(Debug)]
pub(super) struct Unlisted {
    /// Why.
    pub(super) refusal: Refusal,
    /// Where it can go on, with the objects of another moment.
    pub(super) token: Option<String>,
}

impl From<Refusal> for Unlisted {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, token: None }
    }
}

impl Service {
    /// A list, or a page of one.
    pub(super) async fn list(&self, asked: &Asked, query: &Query, wish: &Wish) -> Result<Answer, Unlisted> {
        let options = ListOptions::parse(query.pairs())?;
        let selection = self.selection(asked, query, &options.labels, &options.fields)?;
        let page = self.page(&asked.kind, &options, &selection).await?;
        self.cluster.ready_to_show(&asked.kind, &page.items).await?;
        let metadata = ListMetadata::of(&page, &selection);
        let now = self.cluster.source().now();
        let items = page.items.iter().map(|it| &**it);
        let pieces = show::list(items, &metadata, &asked.kind, wish, now)?;
        Ok(answer::document(StatusCode::OK, pieces, wish, &self.settings))
    }

    /// The objects a list shows, and what it says of itself.
    pub(super) async fn page(
        &self,
        kind: &Kind,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<Page, Unlisted> {
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
            Unlisted { refusal, token }
        })
    }

    /// Waits until the store has come to a version, but not for ever.
    pub(super) async fn reach(&self, version: u64) {
        let arrived = self.cluster.store().reach(version);
        let _ = tokio::time::timeout(self.settings.version_wait, arrived).await;
    }

    /// Which objects a request is about.
    ///
    /// # Errors
    /// 400 for a field by which the kind cannot be selected, 500 for parts that are none, where there are parts.
    pub(super) fn selection(
        &self,
        asked: &Asked,
        query: &Query,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Selection, Refusal> {
        let fields = asked.kind.field_selector(fields)?;
        let shards = query.get("shardSelector").filter(|_| self.settings.sharding);
        Ok(Selection {
            namespace: asked.target.namespace.clone(),
            name: asked.target.name.clone(),
            labels: labels.clone(),
            fields,
            shards: shards.map(ShardSelector::parse).transpose()?,
        })
    }
}
