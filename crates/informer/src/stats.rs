//! The numbers of an informer and of its handlers at one moment, for diagnostics.
//!
//! Collected on request from counters that are kept anyway, so that an informer that is not looked
//! at pays nothing for them.

use std::time::Duration;

use dogwatch_core::{ResourceType, ResourceVersion};

use crate::health::Health;
use crate::history::{Relist, WatchStats};

/// The numbers of an informer at one moment.
///
/// They are read one after another, not atomically.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HandlerOptions, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let _changes = maps.changes_with(HandlerOptions::default().name("audit"))?;
/// maps.start();
/// maps.synced().await?;
/// let stats = maps.stats();
/// assert_eq!((stats.objects, stats.queued), (maps.store().len(), 0));
/// assert_eq!(stats.handlers[0].name, "audit");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InformerStats {
    /// The name in metrics, logs and errors.
    pub name: String,
    /// The resource type of the collection.
    pub resource: ResourceType,
    /// The health, for several namespaces the worst of them.
    pub health: Health,
    /// The version of the store.
    pub version: ResourceVersion,
    /// The number of objects in the store.
    pub objects: usize,
    /// The memory of the objects, if it is measured: see [`Store::memory`](crate::Store::memory).
    pub memory: Option<usize>,
    /// The number of deltas that were applied to the store: objects of lists, events, bookmarks.
    pub applied: u64,
    /// The number of deltas that wait between the reflectors and the store.
    pub queued: usize,
    /// The maximal number of deltas that can wait.
    pub queue_capacity: usize,
    /// The last 32 lists, newest first.
    pub relists: Vec<Relist>,
    /// The watches.
    pub watches: WatchStats,
    /// The handlers and streams that have not ended, in the order in which they were added.
    pub handlers: Vec<HandlerStats>,
}

/// The numbers of a handler or a stream of changes at one moment.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HandlerStats, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// /// Returns true for a handler that takes too long for its changes.
/// fn is_slow(handler: &HandlerStats) -> bool {
///     handler.oldest.is_some_and(|it| it > Duration::from_secs(60))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let _changes = maps.changes()?;
/// maps.start();
/// maps.synced().await?;
/// let handlers = maps.stats().handlers;
/// assert_eq!(handlers.len(), 1);
/// assert!(!handlers.iter().any(is_slow));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerStats {
    /// The number of its registration: see [`Registration::id`](crate::Registration::id).
    pub id: u64,
    /// The name in metrics and logs.
    pub name: String,
    /// The number of changes that it has not processed yet, including those it has taken.
    pub pending: usize,
    /// The age of the oldest pending change.
    pub oldest: Option<Duration>,
    /// The number of changes that were put into its mailbox, with those of the initial list.
    pub received: u64,
    /// The number of changes that it has taken.
    pub delivered: u64,
    /// The number of changes that it does not receive, because they were merged into others: see
    /// [`Overflow::Coalesce`](crate::Overflow::Coalesce).
    pub merged: u64,
    /// The number of its calls that have panicked.
    pub panics: u64,
    /// Set once it has received the whole initial list.
    pub synced: bool,
}
