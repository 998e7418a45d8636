//! A factory that shares one informer per collection across a program, and starts, awaits and stops
//! all of them.
//!
//! It does not own the informers: callers keep them alive by an informer, a store or a lister. When
//! the last of these is dropped, the informer stops.

use parking_lot::{Mutex, MutexGuard};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_client::api::{Representation, StaticScope};
use dogwatch_client::{Api, Client, ClientIdentity};
use dogwatch_core::{Object, ResourceType, View};
use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use kube_core::{DynamicObject, Resource};
use serde::de::DeserializeOwned;

use crate::informer::{
    Contents, InformerBuilder, InformerMonitor, Lifecycle, NotSynced, SharedInformer, WeakInformer,
};
use crate::selection::Selection;
use crate::sync_result::SyncResult;

/// A factory of shared informers: one for each client, resource, selection, payload type and
/// [representation](Representation).
///
/// An informer without a [name](InformerBuilder::name) is named after the plural of its resource;
/// from the second one on, a number is appended, so that their metrics are distinct.
///
/// A clone is the same factory. It does not keep informers alive: hold the informer, its store or a
/// lister. When the last of them is dropped the informer stops, and the next caller gets a new one.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_informer::InformerFactory;
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let factory = InformerFactory::new(client);
/// let (maps, namespaces) = (factory.get::<ConfigMap>(), factory.get::<Namespace>());
/// factory.start();
/// factory.wait_for_sync(Duration::from_secs(10)).await.into_result()?;
/// assert!(namespaces.store().get_named(None, "default").is_some());
///
/// // Another part of the program gets the same informer.
/// let lister = factory.get::<ConfigMap>().lister();
/// assert!(lister.is_synced() && maps.is_started());
/// factory.shut_down().await;
/// assert!(lister.is_closed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InformerFactory {
    client: Client,
    resync_every: Option<Duration>,
    /// The default namespaces of a selection.
    namespaces: Vec<String>,
    members: Arc<Mutex<Members>>,
}

#[derive(Default)]
struct Members {
    informers: HashMap<Key, Box<dyn Member>>,
    /// The lifecycle of every informer that was created and has not ended, including those that
    /// were dropped.
    lifecycles: Vec<Lifecycle>,
    shut_down: bool,
}

/// The key of an informer: requests with equal keys share one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    payload: TypeId,
    /// Clients of different servers or users see different objects.
    client: ClientIdentity,
    /// Handles of one payload type may read whole objects or metadata, with or without managed
    /// fields.
    representation: Representation,
    contents: Contents,
}

impl Members {
    /// Forgets informers that no caller holds, and returns the others. They must be dropped after
    /// the lock: if a caller drops the last handle meanwhile, so are the handlers, which are the
    /// caller's code.
    fn held(&mut self) -> Vec<Box<dyn AnyInformer>> {
        let mut held = Vec::new();
        self.informers.retain(|_, it| {
            let informer = it.informer();
            let is_held = informer.is_some();
            held.extend(informer);
            is_held
        });
        held
    }
}

impl InformerFactory {
    /// Creates a factory without informers.
    pub fn new(client: Client) -> Self {
        Self { client, resync_every: None, namespaces: Vec::new(), members: Arc::default() }
    }

    /// Returns the client that the informers use.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Restricts informers to this namespace, unless a selection names others. Several calls add
    /// several namespaces. An empty namespace means all, whatever the other calls.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Sets the resync interval: every object is delivered to handlers again this often. The
    /// shortest interval is one second; zero disables resyncs. Off by default.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = Some(period);
        self
    }

    /// Returns the informer of a type: of whole objects, of a view of some of their fields, or of
    /// their metadata.
    pub fn get<T: View>(&self) -> SharedInformer<T>
    where
        <T::Of as Resource>::Scope: StaticScope,
    {
        self.get_with(Selection::default(), |it| it)
    }

    /// Returns the informer of a type with a selection and adjusted options.
    ///
    /// Requests share an informer if its store has the same contents: the same selection, freshness
    /// ([`Start`](crate::Start)) and transform. Two transforms without captured state are the same
    /// if they have the same type; one with state is only the same as itself. An existing informer
    /// gets the indexes that it lacks, and is otherwise not adjusted again.
    pub fn get_with<T: View>(
        &self,
        selection: Selection,
        adjust: impl FnOnce(InformerBuilder<T>) -> InformerBuilder<T>,
    ) -> SharedInformer<T>
    where
        <T::Of as Resource>::Scope: StaticScope,
    {
        self.informer(&Api::all(self.client.clone()), selection, adjust)
    }

    /// Returns the informer of a resource that is known only at run time.
    pub fn dynamic(&self, resource: ResourceType) -> SharedInformer<DynamicObject> {
        self.informer(&Api::dynamic(self.client.clone(), resource), Selection::default(), |it| it)
    }

    /// Returns the informer of the objects that this handle reads, in the namespaces of the
    /// selection. Handles share one only if they read the same parts of objects
    /// ([`Api::representation`]).
    pub fn informer<T: Object + DeserializeOwned>(
        &self,
        api: &Api<T>,
        selection: Selection,
        adjust: impl FnOnce(InformerBuilder<T>) -> InformerBuilder<T>,
    ) -> SharedInformer<T> {
        let namespaces = self.namespaces_of(api, &selection);
        let mut sources = namespaces.iter().map(|it| api.clone().in_namespace(it));
        // Not the namespace of the handle: the selection may ask for all.
        let first = sources.next().unwrap_or_else(|| api.clone().in_namespace(""));
        let mut builder = sources.fold(SharedInformer::builder(first), InformerBuilder::add_source);
        builder = builder.reflector(|it| it.selectors(selection.selectors));
        if let Some(period) = self.resync_every {
            builder = builder.resync_every(period);
        }
        // Adjusted before the look-up, because the settings are part of the key, and outside the
        // lock, because it is the caller's code.
        let builder = adjust(builder);
        let client = api.client().identity();
        let key = Key {
            payload: TypeId::of::<T>(),
            client,
            representation: api.representation(),
            contents: builder.contents(),
        };
        // Declared before the lock, and so dropped after it.
        let (known, held);
        let mut members = self.members();
        let weak = members.informers.get(&key).and_then(|it| it.any().downcast_ref::<WeakInformer<T>>());
        known = weak.and_then(WeakInformer::upgrade);
        if let Some(informer) = known.clone().filter(|it| !it.is_stopping()) {
            drop(members);
            for index in builder.into_indexes() {
                // It fails only if an index of this name exists, which is kept.
                let _ = informer.add_index(index);
            }
            return informer;
        }
        held = members.held();
        // The names of all informers that run or may be started.
        let names = held.iter().filter(|it| !it.is_stopping()).map(|it| it.name()).collect();
        let informer = builder.named_apart_from(&names).build();
        members.lifecycles.retain(|it| !it.is_stopped());
        members.lifecycles.push(informer.lifecycle());
        members.informers.insert(key, Box::new(informer.downgrade()));
        informer
    }

    /// Returns the namespaces to read, sorted; empty for all.
    fn namespaces_of<T>(&self, api: &Api<T>, selection: &Selection) -> Vec<String> {
        let mut namespaces = match (api.namespace(), &*selection.namespaces) {
            (Some(namespace), []) => vec![namespace.to_owned()],
            (None, []) => self.namespaces.clone(),
            (_, some) => some.to_vec(),
        };
        // An empty namespace means all namespaces, and these include the others.
        let is_all = namespaces.iter().any(String::is_empty);
        if is_all || api.resource().scope == dogwatch_core::Scope::Cluster {
            namespaces.clear();
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces
    }

    /// Starts every informer that was not started yet, on the current runtime. Informers that are
    /// requested later need another call. Does nothing after [`Self::shut_down`].
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn start(&self) {
        if !self.members().shut_down {
            self.informers().iter().for_each(|it| it.start());
        }
    }

    /// Waits until every started informer is synced, at most for `timeout`, and returns which are
    /// not and why (rule FA-1).
    ///
    /// # Cancel safety
    /// The future may be dropped at any time; the informers keep trying.
    pub async fn wait_for_sync(&self, timeout: Duration) -> SyncResult {
        let informers: Vec<_> = self.informers().into_iter().filter(|it| it.is_started()).collect();
        let outcomes = join_all(informers.iter().map(|it| it.synced_within(timeout))).await;
        let mut result = SyncResult::default();
        for (informer, outcome) in informers.iter().zip(outcomes) {
            match outcome {
                Ok(()) => result.synced.push(informer.name()),
                Err(error) => result.unsynced.push(error),
            }
        }
        result
    }

    /// Stops every informer and waits until all their tasks have ended, including those of
    /// informers that were already dropped. A second call does nothing.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The informers stop nevertheless, once the future was
    /// polled.
    pub async fn shut_down(&self) {
        let lifecycles = {
            let mut members = self.members();
            members.shut_down = true;
            members.lifecycles.clone()
        };
        let informers = self.informers();
        join_all(informers.iter().map(|it| it.stop())).await;
        join_all(lifecycles.into_iter().map(Lifecycle::stopped)).await;
    }

    /// Returns an observer of the informers of this factory that keeps neither them nor the factory
    /// alive.
    pub fn monitor(&self) -> FactoryMonitor {
        FactoryMonitor(Arc::downgrade(&self.members))
    }

    /// Returns the informers that callers still hold.
    fn informers(&self) -> Vec<Box<dyn AnyInformer>> {
        self.members().informers.values().filter_map(|it| it.informer()).collect()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock()
    }
}

/// Finds the informers of a factory, without keeping them or the factory alive.
///
/// ```
/// use dogwatch_informer::InformerFactory;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let factory = InformerFactory::new(client);
/// let monitor = factory.monitor();
/// let maps = factory.get::<ConfigMap>();
/// assert_eq!(monitor.informers(), Some(vec![maps.monitor()]));
/// drop(factory);
/// assert_eq!(monitor.informers(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FactoryMonitor(Weak<Mutex<Members>>);

impl FactoryMonitor {
    /// Returns observers of the informers that callers hold, by name. Returns `None` once the last
    /// clone of the factory was dropped; its informers may still run.
    pub fn informers(&self) -> Option<Vec<InformerMonitor>> {
        let members = self.0.upgrade()?;
        // Handles are dropped after the lock, as in `Members::held`.
        let mut held: Vec<_> = members.lock().informers.values().filter_map(|it| it.informer()).collect();
        held.sort_by_key(|it| it.name());
        Some(held.iter().map(|it| it.monitor()).collect())
    }
}

impl PartialEq for FactoryMonitor {
    /// True for monitors of one factory and its clones.
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for FactoryMonitor {}

impl fmt::Debug for FactoryMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryMonitor").finish_non_exhaustive()
    }
}

/// A weak reference to an informer of any payload type.
trait Member: Send + Sync {
    fn any(&self) -> &dyn Any;
    /// Returns the informer, if a caller still holds it.
    fn informer(&self) -> Option<Box<dyn AnyInformer>>;
}

/// The operations of an informer that do not depend on its payload type.
trait AnyInformer: Send + Sync {
    fn name(&self) -> String;
    fn start(&self);
    fn is_started(&self) -> bool;
    fn is_stopping(&self) -> bool;
    fn monitor(&self) -> InformerMonitor;
    fn synced_within(&self, timeout: Duration) -> BoxFuture<'_, Result<(), NotSynced>>;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

impl<T: Object> Member for WeakInformer<T> {
    fn any(&self) -> &dyn Any {
        self
    }

    fn informer(&self) -> Option<Box<dyn AnyInformer>> {
        self.upgrade().map(|it| Box::new(it) as Box<dyn AnyInformer>)
    }
}

impl<T: Object> AnyInformer for SharedInformer<T> {
    fn name(&self) -> String {
        Self::name(self).to_owned()
    }

    fn start(&self) {
        Self::start(self);
    }

    fn is_started(&self) -> bool {
        Self::is_started(self)
    }

    fn is_stopping(&self) -> bool {
        Self::is_stopping(self)
    }

    fn monitor(&self) -> InformerMonitor {
        Self::monitor(self)
    }

    fn synced_within(&self, timeout: Duration) -> BoxFuture<'_, Result<(), NotSynced>> {
        Box::pin(Self::synced_within(self, timeout))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::stop(self))
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.informers().iter().map(|it| it.name()).collect();
        f.debug_struct("InformerFactory").field("informers", &names).finish_non_exhaustive()
    }
}
