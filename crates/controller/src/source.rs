//! The sources of a controller: they turn the changes of an informer into keys.
//!
//! ```text
//! informer ─► handler: predicate ─► mapping ─► priority and cause ─► work queue
//! ```
//!
//! A source knows the informer and the queue; it does not know the workers that drain the queue.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use dogwatch_core::{Gvk, Labels, Object, ObjectKey, ResourceType, Scope};
use dogwatch_informer::{
    Change, EventHandler, HandlerOptions, Health, InformerMonitor, InformerStopped, NotSynced, Overflow,
    Registration, SharedInformer, Store, StoreProgress,
};
use dogwatch_workqueue::AddOptions;
use futures_core::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;

use crate::causes::{Cause, Causes, KeyQueue, ObjectCause, ObjectEvent, Origin};
use crate::predicate::Predicate;
use crate::reconciler::{Key, Written};

/// The priority of keys from the initial list and from a resync, which no change triggered. All
/// other keys have priority 0, so that a fresh change does not wait behind a large collection. The
/// value is controller-runtime's.
pub const LOW_PRIORITY: i32 = -100;

/// An informer as the source of a controller, with an optional predicate over its changes.
/// `&SharedInformer` converts into one that passes all changes.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Action, BoxError, Context, Controller, Predicate, Watched};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let deployments = SharedInformer::new(Api::<Deployment>::all(client));
/// // Changes of the status alone do not trigger a reconcile.
/// let specs = Watched::new(&deployments).when(Predicate::generation_changed());
/// let controller = Controller::of(specs)
///     .build(|_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) });
/// assert_eq!(controller.name(), "deployment");
/// # Ok(())
/// # }
/// ```
pub struct Watched<T: Object> {
    informer: SharedInformer<T>,
    predicate: Option<Predicate<T>>,
}

impl<T: Object> Watched<T> {
    /// Creates a source of all changes of this informer. The controller starts the informer if it
    /// is not running yet.
    pub fn new(informer: &SharedInformer<T>) -> Self {
        Self { informer: informer.clone(), predicate: None }
    }

    /// Passes only the changes that satisfy the predicate. Several calls combine with a logical
    /// and.
    #[must_use]
    pub fn when(mut self, predicate: Predicate<T>) -> Self {
        self.predicate = Some(match self.predicate {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Returns the resource type of the collection.
    pub(crate) fn resource(&self) -> &ResourceType {
        self.informer.resource()
    }
}

impl<T: Object> From<&SharedInformer<T>> for Watched<T> {
    fn from(informer: &SharedInformer<T>) -> Self {
        Self::new(informer)
    }
}

/// An object with owner references. Implemented for every kube-core `Resource`; implement it by
/// hand for a view that contains the references.
///
/// ```
/// use dogwatch_controller::Owned;
/// use dogwatch_core::{Header, Object};
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
///
/// #[derive(serde::Deserialize)]
/// struct PodOwners {
///     metadata: Metadata,
/// }
/// # #[derive(serde::Deserialize)]
/// # #[serde(rename_all = "camelCase")]
/// # struct Metadata {
/// #     #[serde(flatten)]
/// #     meta: dogwatch_core::Meta,
/// #     #[serde(default)]
/// #     owner_references: Vec<OwnerReference>,
/// # }
/// # impl Object for PodOwners {
/// #     fn header(&self) -> Header<'_> {
/// #         self.metadata.meta.header()
/// #     }
/// # }
///
/// impl Owned for PodOwners {
///     fn owner_references(&self) -> &[OwnerReference] {
///         &self.metadata.owner_references
///     }
/// }
/// ```
pub trait Owned: Object {
    /// Returns the owner references of the object.
    fn owner_references(&self) -> &[OwnerReference];
}

impl<T: Resource + Object> Owned for T {
    fn owner_references(&self) -> &[OwnerReference] {
        self.meta().owner_references.as_deref().unwrap_or_default()
    }
}

/// Returns the key of the object that controls this one, if it is of the given resource. The API
/// version in the reference is ignored, and so are owners that are not the controller.
pub(crate) fn controller_key<T: Owned>(object: &T, owner: &ResourceType) -> Option<ObjectKey> {
    let reference = object.owner_references().iter().find(|it| it.controller == Some(true))?;
    let kind = Gvk::from_api_version(&reference.api_version, &reference.kind);
    if kind.group != owner.gvk.group || kind.kind != owner.gvk.kind {
        return None;
    }
    let namespace = match owner.scope {
        Scope::Cluster => None,
        _ => object.header().namespace,
    };
    ObjectKey::from_parts(namespace, &reference.name).ok()
}

/// A cache that a controller reads, independent of its object type.
pub(crate) trait Cache: Send + Sync {
    /// Returns the name of the informer.
    fn name(&self) -> &str;
    fn health(&self) -> Health;
    fn monitor(&self) -> InformerMonitor;
    /// Starts the informer, unless it is running already.
    fn start(&self);
    /// Waits until the first list is in the store.
    fn synced(&self) -> BoxFuture<'_, Result<(), NotSynced>>;
    /// Waits until the informer has ended for any reason: it was stopped, its collection was
    /// removed for good, or it panicked.
    fn ended(&self) -> BoxFuture<'_, ()>;
}

impl<T: Object> Cache for SharedInformer<T> {
    fn name(&self) -> &str {
        SharedInformer::name(self)
    }

    fn health(&self) -> Health {
        SharedInformer::health(self)
    }

    fn monitor(&self) -> InformerMonitor {
        SharedInformer::monitor(self)
    }

    fn start(&self) {
        SharedInformer::start(self);
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), NotSynced>> {
        Box::pin(SharedInformer::synced(self))
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.run())
    }
}

/// The sources of a controller, by their index.
pub(crate) type Sources<K> = [Box<dyn Source<K>>];

/// One source of a controller with keys of type `K`, independent of its object type.
pub(crate) trait Source<K>: Send + Sync {
    fn cache(&self) -> &dyn Cache;
    fn kind(&self) -> &Gvk;
    /// Begins to add keys to the queue, starting with those of all objects in the cache.
    fn watch(&self, handler: &str, queue: &KeyQueue<K>) -> Result<Registration, InformerStopped>;
    /// Adds the keys of all objects in the cache, as for a newly registered handler, but with this
    /// cause.
    fn replay(&self, queue: &KeyQueue<K>, cause: &Arc<Cause>);
    /// Returns true if the cache can contain the object, or `None` if only the server can decide
    /// that.
    fn admits(&self, object: &Written) -> Option<bool>;
    /// Returns true if the object maps to the key, or `None` if it is not of the cache's object
    /// type.
    fn concerns(&self, object: &dyn Any, key: &K) -> Option<bool>;
    /// Returns true if the cache contains this very object, or cannot show it because it could not
    /// be decoded. With a key, the object must also still map to the key: another client may have
    /// changed its owner before the cache ever showed it.
    fn holds(&self, object: &Written, key: Option<&K>) -> bool;
    /// Returns the progress of the cache, in the namespace of this key or as a whole. Returns
    /// `None` if the cache does not cover the namespace.
    fn progress(&self, key: Option<&ObjectKey>) -> Option<StoreProgress>;
    /// Waits for the next change of the cache after this call.
    fn published(&self) -> BoxFuture<'_, ()>;
}

/// Calls the function with each key that an object maps to.
pub(crate) type Mapping<T, K> = Arc<dyn Fn(&T, &mut dyn FnMut(K)) + Send + Sync>;

/// An informer, and the mapping from its objects to keys.
pub(crate) struct MappedSource<T: Object, K> {
    watched: Watched<T>,
    store: Store<T>,
    origin: Arc<Origin>,
    mapping: Mapping<T, K>,
    /// Set when the old state of an object may map to other keys than the new one.
    maps_old: bool,
}

impl<T: Object, K> MappedSource<T, K> {
    pub(crate) fn new(watched: Watched<T>, mapping: Mapping<T, K>, maps_old: bool) -> Self {
        let store = watched.informer.store();
        let informer = watched.informer.name().to_owned();
        let origin = Arc::new(Origin { kind: watched.resource().gvk.clone(), informer });
        Self { watched, store, origin, mapping, maps_old }
    }
}

impl<T: Object, K: Key> MappedSource<T, K> {
    /// Creates a handler. With a cause, it is that of all keys.
    fn feeder(&self, queue: &KeyQueue<K>, cause: Option<&Arc<Cause>>) -> Feeder<T, K> {
        Feeder {
            predicate: self.watched.predicate.clone(),
            mapping: Arc::clone(&self.mapping),
            maps_old: self.maps_old,
            queue: queue.clone(),
            origin: Arc::clone(&self.origin),
            cause: cause.cloned(),
        }
    }

    /// Returns true if an object maps to the key, or `None` if the mapping panics. Callers are
    /// outside the event handler, which would have caught the panic.
    fn maps_to(&self, object: &T, key: &K) -> Option<bool> {
        let mut concerned = false;
        let asked = || (self.mapping)(object, &mut |it| concerned |= it == *key);
        catch_unwind(AssertUnwindSafe(asked)).is_ok().then_some(concerned)
    }
}

impl<T: Object, K: Key> Source<K> for MappedSource<T, K> {
    fn cache(&self) -> &dyn Cache {
        &self.watched.informer
    }

    fn kind(&self) -> &Gvk {
        &self.watched.resource().gvk
    }

    fn watch(&self, handler: &str, queue: &KeyQueue<K>) -> Result<Registration, InformerStopped> {
        // The changes of one object are never merged here: a child that is created and deleted in
        // between would show no change at all, and of several owners only the last would be seen.
        // The queue merges the keys instead, which bounds the memory: the handler only computes
        // keys, so few changes wait in front of it.
        let options = HandlerOptions::default().name(handler).overflow(Overflow::Grow);
        self.watched.informer.add_handler_with(self.feeder(queue, None), options)
    }

    fn replay(&self, queue: &KeyQueue<K>, cause: &Arc<Cause>) {
        let mut feeder = self.feeder(queue, Some(cause));
        for object in self.store.snapshot().iter() {
            let change = Change::Added { object: Arc::clone(object), initial: true };
            // The handler has already reported the object on which a predicate or mapping panics.
            let _ = catch_unwind(AssertUnwindSafe(|| feeder.on_change(&change)));
        }
    }

    fn admits(&self, object: &Written) -> Option<bool> {
        self.watched.informer.admits(&object.key, object.labels.as_ref().map(Labels::from))
    }

    fn concerns(&self, object: &dyn Any, key: &K) -> Option<bool> {
        object.downcast_ref::<T>().and_then(|it| self.maps_to(it, key))
    }

    fn holds(&self, object: &Written, key: Option<&K>) -> bool {
        if self.store.is_undecodable(&object.key) {
            return true;
        }
        let Some(held) = self.store.get(&object.key) else { return false };
        if !object.uid.is_empty() && held.header().uid != object.uid {
            return false;
        }
        // At the written version no other client has changed the object, whatever a transform kept
        // of it.
        let is_written = held.version() == object.version;
        is_written || key.is_none_or(|key| self.maps_to(&held, key).unwrap_or(true))
    }

    fn progress(&self, key: Option<&ObjectKey>) -> Option<StoreProgress> {
        self.store.progress(key)
    }

    fn published(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.store.published())
    }
}

/// The event handler that turns changes into keys.
struct Feeder<T, K> {
    predicate: Option<Predicate<T>>,
    mapping: Mapping<T, K>,
    maps_old: bool,
    queue: KeyQueue<K>,
    origin: Arc<Origin>,
    /// Set if all keys have the same cause, whatever happened to the objects.
    cause: Option<Arc<Cause>>,
}

impl<T: Object, K: Key> EventHandler<T> for Feeder<T, K> {
    fn on_change(&mut self, change: &Change<T>) {
        if self.predicate.as_ref().is_some_and(|it| !it.test(change)) {
            return;
        }
        let options = AddOptions { priority: priority(change), ..AddOptions::default() };
        // One cause for all keys of the change: a key that it maps to twice counts it once.
        let mut cause = self.cause.clone();
        let mut add = |key| {
            let cause = cause.get_or_insert_with(|| {
                let object = ObjectCause::from_origin(&self.origin, change.key(), event(change));
                Arc::new(Cause::Object(object))
            });
            self.queue.add_with_note(key, options, Causes::of(cause));
        };
        if let (Change::Updated { old, .. }, true) = (change, self.maps_old) {
            (self.mapping)(old, &mut add);
        }
        (self.mapping)(change.object(), &mut add);
    }
}

/// Returns a low priority for objects of the initial list and of a resync: nothing happened to
/// them.
fn priority<T: Object>(change: &Change<T>) -> i32 {
    match event(change) {
        ObjectEvent::InitialList | ObjectEvent::Resync => LOW_PRIORITY,
        _ => 0,
    }
}

/// Returns what happened to the object of a change.
fn event<T: Object>(change: &Change<T>) -> ObjectEvent {
    match change {
        Change::Added { initial: true, .. } => ObjectEvent::InitialList,
        Change::Added { initial: false, .. } => ObjectEvent::Added,
        Change::Updated { old, new } if old.header().version == new.header().version => ObjectEvent::Resync,
        Change::Deleted(_) => ObjectEvent::Deleted,
        _ => ObjectEvent::Changed,
    }
}

impl<T: Object> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), predicate: self.predicate.clone() }
    }
}

impl<T: Object> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("informer", &self.informer)
            .field("filtered", &self.predicate.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;

    fn reference(api_version: &str, kind: &str, name: &str, controller: Option<bool>) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            controller,
            ..OwnerReference::default()
        }
    }

    fn owner_of(references: Vec<OwnerReference>, owner: &ResourceType) -> Option<String> {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("web".to_owned());
        pod.metadata.owner_references = Some(references);
        controller_key(&pod, owner).map(String::from)
    }

    #[test]
    fn an_owner_is_found_by_group_and_kind_in_any_version_if_it_is_the_controller() {
        let sets = ResourceType::namespaced(Gvk::new("apps", "v1", "ReplicaSet"), "replicasets");
        let set = |api_version, controller| reference(api_version, "ReplicaSet", "a", controller);
        for (references, expected) in [
            (vec![set("apps/v1", Some(true))], Some("web/a")),
            (vec![set("apps/v1beta2", Some(true))], Some("web/a")),
            (vec![set("extensions/v1", Some(true))], None),
            (vec![set("v1", Some(true))], None),
            (vec![set("apps/v1", Some(false))], None),
            (vec![set("apps/v1", None)], None),
            (vec![reference("apps/v1", "Deployment", "a", Some(true))], None),
            (vec![reference("v1", "ConfigMap", "b", None), set("apps/v1", Some(true))], Some("web/a")),
            (vec![], None),
        ] {
            let shown = format!("{references:?}");
            assert_eq!(owner_of(references, &sets).as_deref(), expected, "{shown}");
        }
    }

    #[test]
    fn a_cluster_scoped_owner_has_no_namespace() {
        let nodes = ResourceType::cluster(Gvk::new("", "v1", "Node"), "nodes");
        let owner = owner_of(vec![reference("v1", "Node", "n1", Some(true))], &nodes);
        assert_eq!(owner.as_deref(), Some("n1"));
    }

    #[test]
    fn initial_objects_and_resyncs_have_a_low_priority() {
        let map = |version: &str| {
            let mut map = ConfigMap::default();
            map.metadata.resource_version = Some(version.to_owned());
            Arc::new(map)
        };
        assert_eq!(priority(&Change::Added { object: map("1"), initial: true }), LOW_PRIORITY);
        assert_eq!(priority(&Change::Added { object: map("1"), initial: false }), 0);
        assert_eq!(priority(&Change::Updated { old: map("1"), new: map("1") }), LOW_PRIORITY);
        assert_eq!(priority(&Change::Updated { old: map("1"), new: map("2") }), 0);
    }
}
