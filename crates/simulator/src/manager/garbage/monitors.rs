//! The caches of all collected kinds, which feed the graph.
//!
//! A kind that is defined but not served any more keeps its cache: its objects exist, and their
//! owners wait for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dogwatch_client::{Api, Client};
use dogwatch_core::{ObjectKey, ResourceType, Scope};
use dogwatch_informer::{Change, Index, Registration, SharedInformer, Store};
use dogwatch_workqueue::WorkQueue;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::graph::{CollectionName, Graph};
use super::kinds::Kinds;
use super::tracked::{Live, Tracked, Uid};

/// The time after which a collection that was not served is asked for again. Discovery shows a kind
/// that is served again, but this also covers a server that restarts.
const RETRY_NOT_SERVED: Duration = Duration::from_secs(5);
/// Objects by their uid.
const UID: &str = "uid";

/// The graph, and the queue of the objects to process.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) graph: Mutex<Graph>,
    pub(super) queue: WorkQueue<Uid>,
}

/// The kinds and their caches, as of one discovery.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    pub(super) kinds: Kinds,
    pub(super) all: BTreeMap<CollectionName, Arc<Monitor>>,
}

/// The cache of a kind. Clones share it.
#[derive(Clone)]
pub(super) struct Monitor {
    pub(super) resource: ResourceType,
    /// False if the kind is not served now.
    pub(super) is_served: bool,
    pub(super) api: Api<Live>,
    store: Store<Tracked>,
    started: Instant,
    /// Keeps the informer running.
    _informer: SharedInformer<Tracked>,
    handler: Registration,
    /// False when the cache was given up: changes that its handler still receives are older than
    /// what replaced it.
    is_current: Arc<AtomicBool>,
}

impl Tracker {
    /// Queues objects.
    pub(super) fn look(&self, uids: Vec<Uid>) {
        self.queue.add_all(uids);
    }

    /// Removes an object that is gone from the graph.
    pub(super) fn forget(&self, uid: &str, namespaced: bool) {
        let look = self.graph.lock().forget(uid, namespaced);
        self.look(look);
    }

    /// Removes the objects of a collection from the graph: they are gone.
    pub(super) fn forget_collection(&self, collection: &CollectionName, namespaced: bool) {
        let mut graph = self.graph.lock();
        let all = graph.of_collection(collection);
        let look = all.iter().flat_map(|it| graph.forget(it, namespaced)).collect();
        drop(graph);
        self.look(look);
    }

    /// Applies a change of a cache.
    fn apply(&self, collection: &CollectionName, change: &Change<Tracked>, is_current: &AtomicBool) {
        let mut graph = self.graph.lock();
        // Checked under the lock: a collection is given up before its objects are removed.
        if !is_current.load(Ordering::Relaxed) {
            return;
        }
        let look = match change {
            Change::Added { object, .. } => graph.observe(collection, object),
            Change::Updated { old, new } => {
                // An object of the same name that replaced another one has nothing in common with
                // it.
                let mut look = Vec::new();
                if old.uid != new.uid {
                    look = graph.forget(&old.uid, old.is_namespaced());
                }
                look.extend(graph.observe(collection, new));
                look
            }
            Change::Deleted(last) => graph.forget(&last.last().uid, last.last().is_namespaced()),
            _ => Vec::new(),
        };
        drop(graph);
        self.look(look);
    }
}

impl Monitor {
    /// Starts the cache of a kind.
    pub(super) fn start(
        client: &Client,
        resource: &ResourceType,
        name: &CollectionName,
        to: &Arc<Tracker>,
    ) -> Self {
        let source = Api::<Tracked>::dynamic_metadata(client.clone(), resource.clone());
        let informer = SharedInformer::builder(source)
            .index(Index::visiting(UID, |object: &Tracked, found| found(&object.uid)))
            .retry_not_served_after(Some(RETRY_NOT_SERVED))
            .build();
        let is_current = Arc::new(AtomicBool::new(true));
        let (tracker, collection, current) = (Arc::clone(to), Arc::clone(name), Arc::clone(&is_current));
        let handler = informer
            .on_change(move |change: &Change<Tracked>| tracker.apply(&collection, change, &current))
            .expect("a new informer has not stopped");
        informer.start();
        Self {
            resource: resource.clone(),
            is_served: true,
            api: Api::dynamic_metadata(client.clone(), resource.clone()),
            store: informer.store(),
            started: Instant::now(),
            _informer: informer,
            handler,
            is_current,
        }
    }

    /// Returns the same cache of a kind that is served now or not.
    pub(super) fn served(self: &Arc<Self>, is_served: bool) -> Arc<Self> {
        if self.is_served == is_served {
            Arc::clone(self)
        } else {
            Arc::new(Self { is_served, ..Self::clone(self) })
        }
    }

    /// Gives up the cache: from now on its changes are ignored.
    pub(super) fn give_up(&self, tracker: &Tracker) {
        let _graph = tracker.graph.lock();
        self.is_current.store(false, Ordering::Relaxed);
        self.handler.remove();
    }

    /// Returns true once all objects of the first list are in the graph.
    pub(super) fn is_synced(&self) -> bool {
        self.handler.is_synced()
    }

    /// Returns true if the first list should have been complete for this time.
    pub(super) fn is_overdue(&self, limit: Duration) -> bool {
        self.started.elapsed() >= limit
    }

    /// Waits until all objects of the first list are in the graph.
    pub(super) async fn synced(&self) {
        // An informer ends only with the collector.
        let _ = self.handler.synced().await;
    }

    /// Returns the cached object with this key, if it has this uid.
    pub(super) fn cached(&self, key: &ObjectKey, uid: &str) -> Option<Arc<Tracked>> {
        self.store.get(key).filter(|it| *it.uid == *uid)
    }

    /// Returns true if the cache has an object with this uid, in any namespace.
    pub(super) fn has_uid(&self, uid: &str) -> bool {
        self.store.index_keys(UID, uid).is_ok_and(|it| !it.is_empty())
    }

    /// Returns true if the cache has no object.
    pub(super) fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    pub(super) fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("resource", &self.resource)
            .field("is_served", &self.is_served)
            .finish_non_exhaustive()
    }
}
