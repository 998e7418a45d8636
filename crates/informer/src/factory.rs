//! One informer per collection for a whole program, whoever asks for it, and all of them started, awaited and stopped together.
//!
//! It holds no informer itself: the callers hold them, by an informer, a store or a lister. When the last of these is dropped, the
//! informer stops.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dogwatch_client::api::StaticScope;
use dogwatch_client::{Api, Client, ClientIdentity};
use dogwatch_core::{FieldSelector, LabelSelector, Object, ResourceType, View};
use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use kube_core::{DynamicObject, Resource};
use serde::de::DeserializeOwned;

use crate::informer::{Contents, InformerBuilder, Life, NotSynced, SharedInformer, WeakInformer};

/// Hands out informers: one for each client, resource, selection and payload, shared by all who ask for it.
///
/// Informers that are not [named](InformerBuilder::name) are called as the plural of their resource is, and from the second one on with a
/// number behind it, so that their metrics are told apart.
///
/// A clone is the same factory. It keeps no informer alive: hold on to what it gives you, be it the informer, its store or a lister.
/// When the last of them is dropped the informer stops, and the next caller gets a new one.
#[derive(Clone)]
pub struct InformerFactory {
    client: Client,
    resync_every: Option<Duration>,
    /// Where a selection does not say.
    namespaces: Vec<String>,
    members: Arc<Mutex<Members>>,
}

#[derive(Default)]
struct Members {
    informers: HashMap<Key, Box<dyn Member>>,
    /// Of every informer that was handed out and has not ended, also where nobody has it any more.
    lives: Vec<Life>,
    shut_down: bool,
}

/// What makes two requests ask for one informer.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    payload: TypeId,
    /// Another server, or another user whom the client acts as, has other objects.
    client: ClientIdentity,
    contents: Contents,
}

/// Which objects of a collection an informer holds: all, unless it says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    namespaces: Vec<String>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    shard: Option<String>,
}

impl Selection {
    /// Only those of this namespace; called several times, of all those. Ignored where the resource has none.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = Some(labels);
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = Some(fields);
        self
    }

    /// Only the objects of one shard, in the server's own words.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.shard = Some(selector.into());
        self
    }
}

impl Members {
    /// The names of all informers that run or may be started.
    fn names(&self) -> BTreeSet<String> {
        let informers = self.informers.values().filter_map(|it| it.informer());
        informers.filter(|it| !it.is_stopping()).map(|it| it.name()).collect()
    }
}

impl InformerFactory {
    /// A factory without informers.
    pub fn new(client: Client) -> Self {
        Self { client, resync_every: None, namespaces: Vec::new(), members: Arc::default() }
    }

    /// Informers hold only objects of this namespace, unless a selection names others; called several times, of all those.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Handlers are told of every object again this often. Off unless called.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = Some(period);
        self
    }

    /// The informer of a type: whole objects, a view of some of their fields, or their metadata.
    pub fn get<T: View>(&self) -> SharedInformer<T>
    where
        <T::Of as Resource>::Scope: StaticScope,
    {
        self.get_with(Selection::default(), |it| it)
    }

    /// The informer of a type with a selection, which may be adjusted.
    ///
    /// Requests share an informer when its store has the same contents: the same selection, freshness ([`Start`](crate::Start)) and
    /// transform. A transform without captured state is the same as another of its type; one with state is only the same as itself. An
    /// informer that exists gets the indexes that it lacks, and is otherwise not adjusted again.
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

    /// The informer of a resource that is known only at run time.
    pub fn dynamic(&self, resource: ResourceType) -> SharedInformer<DynamicObject> {
        self.informer(&Api::dynamic(self.client.clone(), resource), Selection::default(), |it| it)
    }

    /// The informer of what this handle reads, in the namespaces of the selection.
    pub fn informer<T: Object + DeserializeOwned>(
        &self,
        api: &Api<T>,
        selection: Selection,
        adjust: impl FnOnce(InformerBuilder<T>) -> InformerBuilder<T>,
    ) -> SharedInformer<T> {
        let namespaces = self.namespaces_of(api, &selection);
        let mut sources = namespaces.iter().map(|it| api.clone().within(it));
        let first = sources.next().unwrap_or_else(|| api.clone());
        let mut builder = sources.fold(SharedInformer::builder(first), InformerBuilder::also);
        builder = builder.labels(selection.labels.unwrap_or_else(LabelSelector::everything));
        builder = builder.fields(selection.fields.unwrap_or_else(FieldSelector::everything));
        if let Some(selector) = selection.shard {
            builder = builder.reflector(|it| it.shard(selector));
        }
        if let Some(period) = self.resync_every {
            builder = builder.resync_every(period);
        }
        // Before the look for one that exists: only the settings tell whether that is the same. Never under the lock, as it is the
        // caller's code.
        let builder = adjust(builder);
        let client = api.client().identity();
        let key = Key { payload: TypeId::of::<T>(), client, contents: builder.contents() };
        let mut members = self.members();
        let known = members.informers.get(&key).and_then(|it| it.any().downcast_ref::<WeakInformer<T>>());
        if let Some(informer) = known.and_then(WeakInformer::upgrade).filter(|it| !it.is_stopping()) {
            drop(members);
            for index in builder.into_indexes() {
                // One of this name is there already.
                let _ = informer.add_index(index);
            }
            return informer;
        }
        let informer = builder.named_apart_from(&members.names()).build();
        members.informers.retain(|_, it| it.informer().is_some());
        members.lives.retain(|it| !it.is_over());
        members.lives.push(informer.life());
        members.informers.insert(key, Box::new(informer.downgrade()));
        informer
    }

    /// The namespaces to read, in order; none where all of them are.
    fn namespaces_of<T>(&self, api: &Api<T>, selection: &Selection) -> Vec<String> {
        let mut namespaces = match (api.namespace(), &*selection.namespaces) {
            (Some(namespace), []) => vec![namespace.to_owned()],
            (None, []) => self.namespaces.clone(),
            (_, some) => some.to_vec(),
        };
        if api.resource().scope == dogwatch_core::Scope::Cluster {
            namespaces.clear();
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces
    }

    /// Starts every informer that was not started yet, on the runtime this is called on. What is asked for later needs another
    /// call. After [`Self::shut_down`] it does nothing.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn start(&self) {
        if !self.members().shut_down {
            self.informers().iter().for_each(|it| it.start());
        }
    }

    /// Waits until every informer that was started is synced, but no longer than this, and says which are not, and why (rule FA-1).
    pub async fn wait_for_sync(&self, patience: Duration) -> SyncResult {
        let informers: Vec<_> = self.informers().into_iter().filter(|it| it.is_started()).collect();
        let outcomes = join_all(informers.iter().map(|it| it.synced_within(patience))).await;
        let mut result = SyncResult::default();
        for (informer, outcome) in informers.iter().zip(outcomes) {
            match outcome {
                Ok(()) => result.synced.push(informer.name()),
                Err(error) => result.unsynced.push(error),
            }
        }
        result
    }

    /// Stops every informer and waits until all their tasks have ended, those of informers that were dropped before too. To do it
    /// twice does nothing.
    pub async fn shut_down(&self) {
        let lives = {
            let mut members = self.members();
            members.shut_down = true;
            members.lives.clone()
        };
        let informers = self.informers();
        join_all(informers.iter().map(|it| it.stop())).await;
        join_all(lives.into_iter().map(Life::over)).await;
    }

    /// Those that are in somebody's hands.
    fn informers(&self) -> Vec<Box<dyn AnyInformer>> {
        self.members().informers.values().filter_map(|it| it.informer()).collect()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of waiting for several informers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SyncResult {
    /// The names of those that are synced.
    pub synced: Vec<String>,
    /// Why the others are not.
    pub unsynced: Vec<NotSynced>,
}

/// Some informers are not synced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", texts(.unsynced))]
pub struct SyncError {
    /// Why each of them is not. Never empty.
    pub unsynced: Vec<NotSynced>,
}

fn texts(unsynced: &[NotSynced]) -> String {
    unsynced.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl SyncResult {
    /// Whether all are synced.
    pub fn is_ok(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// The same as a result.
    ///
    /// # Errors
    /// When one is not synced.
    pub fn into_result(self) -> Result<(), SyncError> {
        if self.is_ok() { Ok(()) } else { Err(SyncError { unsynced: self.unsynced }) }
    }
}

/// An informer of any payload that the factory knows of.
trait Member: Send + Sync {
    fn any(&self) -> &dyn Any;
    /// The informer, if somebody still has it.
    fn informer(&self) -> Option<Box<dyn AnyInformer>>;
}

/// What can be done with an informer whatever its payload is.
trait AnyInformer: Send + Sync {
    fn name(&self) -> String;
    fn start(&self);
    fn is_started(&self) -> bool;
    fn is_stopping(&self) -> bool;
    fn synced_within(&self, patience: Duration) -> BoxFuture<'_, Result<(), NotSynced>>;
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

    fn synced_within(&self, patience: Duration) -> BoxFuture<'_, Result<(), NotSynced>> {
        Box::pin(Self::synced_within(self, patience))
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
