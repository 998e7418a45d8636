//! The public handle on an informer.

use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_core::{Labels, Object, ObjectKey, ResourceType, ResourceVersion};
use futures_core::future::BoxFuture;
use tokio::sync::watch;
use tracing::Instrument;

use super::monitor::InformerMonitor;
use super::pump::{Pump, StoppedGuard};
use super::shared_state::{NotSynced, Phase, SharedState};
use crate::change::{Change, Deleted};
use crate::handler::{EventHandler, OnAdd, OnChange, OnDelete, OnUpdate};
use crate::health::Health;
use crate::health_watch::HealthWatch;
use crate::index::{Index, IndexError};
use crate::lister::Lister;
use crate::registration::{Changes, HandlerOptions, Registration};
use crate::stats::InformerStats;
use crate::store::{Store, WaitError};
use crate::subscription::NewSubscription;

/// A local cache of a collection, kept synced with the server and shared by all parts of a program.
///
/// It lists the collection once, watches its changes, and keeps going through every failure;
/// [`Self::health`] reports problems. A clone is another handle on the same informer, and so are
/// the stores and listers that it returns. When the last handle is dropped the informer stops, as
/// it does after [`Self::stop`]; a stopped informer cannot be started again, but its store stays
/// readable.
///
/// Handlers may be added at any time before it stops. Each first receives the existing objects and
/// then every change, in order and from a task of its own; see [`EventHandler`] for the guarantees.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::Pod;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let pods = SharedInformer::new(Api::<Pod>::all(client));
/// pods.on_delete(|pod| println!("{:?} is gone", pod.last().metadata.name))?;
/// pods.start();
/// pods.synced().await?;
/// assert_eq!(pods.store().len(), 0); // a new cluster has no pods
/// # Ok(())
/// # }
/// ```
pub struct SharedInformer<T: Object> {
    handle: Arc<Handle<T>>,
}

/// The state that all handles own together. Dropped with the last of them.
struct Handle<T: Object> {
    state: Arc<SharedState<T>>,
    /// Present until the informer is started.
    pump: Mutex<Option<Box<Pump<T>>>>,
}

/// A weak handle, which does not keep the informer alive.
pub(crate) struct WeakInformer<T: Object>(Weak<Handle<T>>);

/// Reports whether an informer has ended, without a handle on it.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle(watch::Receiver<Phase>);

/// The error of adding a handler to an informer that has stopped.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.stop().await;
/// let error = maps.on_add(|_| {}).expect_err("the informer has stopped");
/// assert!(error.to_string().contains(maps.name()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler was not added because informer {informer} has already stopped")]
pub struct InformerStopped {
    informer: String,
}

impl<T: Object> SharedInformer<T> {
    pub(super) fn from_parts(state: Arc<SharedState<T>>, pump: Pump<T>) -> Self {
        Self { handle: Arc::new(Handle { state, pump: Mutex::new(Some(Box::new(pump))) }) }
    }

    fn state(&self) -> &Arc<SharedState<T>> {
        &self.handle.state
    }

    /// Returns the name in metrics, logs and errors.
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// Returns the resource type of the collection.
    pub fn resource(&self) -> &ResourceType {
        &self.state().resource
    }

    /// Returns whether the namespaces and selectors of this informer allow an object with this key
    /// and these labels. Pass `None` if the labels are not known.
    ///
    /// Returns `None` if only the server knows: for selectors of fields other than name and
    /// namespace, and for shards.
    pub fn admits(&self, key: &ObjectKey, labels: Option<Labels<'_>>) -> Option<bool> {
        self.state().coverage.admits(key, labels)
    }

    /// Returns the store, which can be read from any task. It keeps the informer running, as this
    /// handle does.
    ///
    /// If a handler of this informer holds one, the informer runs until [`Self::stop`]; such a
    /// handler can use [`Store::detached`].
    pub fn store(&self) -> Store<T> {
        self.state().store.kept_by(Arc::clone(&self.handle) as _)
    }

    /// Returns a lister, which reads by key, namespace, labels and index. It keeps the informer
    /// running.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.store())
    }

    /// Adds an index to the store; when it returns, the index contains every object.
    ///
    /// # Errors
    /// Returns an error if an index of this name exists.
    pub fn add_index(&self, index: Index<T>) -> Result<(), IndexError> {
        self.state().store.add_index(index)
    }

    /// Starts the informer on the current runtime. Does nothing if it was already started or
    /// stopped.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn start(&self) {
        if self.is_started() {
            return;
        }
        // First, before anything is changed: without a runtime this panics, and the informer can
        // still be started elsewhere.
        let runtime = tokio::runtime::Handle::current();
        let Some(pump) = self.handle.take_pump() else { return };
        let state = Arc::clone(self.state());
        state.phase.send_replace(Phase::Running);
        let span = tracing::info_span!("informer", name = state.name, resource = %state.resource.gvr());
        // Boxed, since the runtime's part of a task is compiled for each type of future.
        let pump: BoxFuture<'static, ()> = Box::pin(pump.run(StoppedGuard(state)).instrument(span));
        runtime.spawn(pump);
    }

    /// Starts the informer and waits until it has stopped.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait, not the informer, which runs as long as it has handles.
    pub async fn run(&self) {
        self.start();
        self.state().stopped().await;
    }

    /// Starts the informer, and stops it when the signal completes. Returns when the informer has
    /// stopped, whatever the reason.
    ///
    /// # Cancel safety
    /// Dropping the future drops the signal and does not stop the informer.
    pub async fn run_until(&self, signal: impl Future) {
        self.start();
        tokio::select! {
            biased;
            _ = signal => {}
            () = self.state().stopped() => {}
        }
        self.stop().await;
    }

    /// Stops the informer and waits until all of its tasks have ended: first the reflectors, then
    /// the handlers, each after it has processed its pending changes (rule IN-10).
    ///
    /// Changes that are still pending after
    /// [`InformerBuilder::shutdown_timeout`](crate::InformerBuilder::shutdown_timeout) are dropped.
    /// A handler call that never returns blocks the stop for ever.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The informer stops nevertheless, once the future was
    /// polled.
    pub async fn stop(&self) {
        if self.handle.take_pump().is_some() {
            self.state().end();
        }
        self.state().stop.send_replace(true);
        self.state().stopped().await;
    }

    /// Returns true if the informer was started, even if it has stopped since.
    pub fn is_started(&self) -> bool {
        let not_yet = self.handle.pump.lock().is_some();
        !not_yet
    }

    /// Returns true if the informer has stopped: its store does not change any more.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped()
    }

    /// Returns true if the informer has stopped or was asked to stop. It does not accept handlers
    /// then.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopped() || *self.state().stop.borrow()
    }

    /// Returns true once the initial list is complete and in the store.
    pub fn is_synced(&self) -> bool {
        self.state().store.is_synced()
    }

    /// Waits until the initial list is complete and in the store. It waits as long as the informer
    /// runs, which may be for ever, for example if a permission is missing: see
    /// [`Self::synced_within`].
    ///
    /// # Errors
    /// Returns an error if the informer stops before it is synced.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time; the informer keeps trying.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        self.state().synced().await
    }

    /// Waits until the initial list is complete and in the store, at most for `timeout`.
    ///
    /// # Errors
    /// Returns an error with the reason if the informer is not synced by then, or stops before.
    /// After a timeout the informer keeps trying.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time; the informer keeps trying.
    pub async fn synced_within(&self, timeout: Duration) -> Result<(), NotSynced> {
        self.state().synced_within(timeout).await
    }

    /// Waits until the store shows this version or a later one. With the version that a write
    /// returned, a caller reads its own writes. See [`Store::wait_until`].
    ///
    /// # Errors
    /// Returns an error if the informer stops before that, if the versions cannot be compared, or
    /// if the version is that of an object that could not be decoded.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn wait_until(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        self.state().store.wait_until(version).await
    }

    /// Returns the version up to which the store is complete; unset until it is synced.
    pub fn last_sync_version(&self) -> ResourceVersion {
        self.state().store.version()
    }

    /// Returns the health of the informer: its state, and the problem that keeps it from being
    /// synced. For several namespaces, it is the worst of them.
    pub fn health(&self) -> Health {
        self.state().health()
    }

    /// Returns a watch of the informer's health, which ends when the informer has stopped. It does
    /// not keep the informer alive.
    ///
    /// ```
    /// # use dogwatch_informer::SharedInformer;
    /// # async fn example<T: dogwatch_core::Object>(informer: SharedInformer<T>) {
    /// let mut health = informer.health_watch();
    /// while health.changed().await {
    ///     println!("{}", health.get());
    /// }
    /// # }
    /// ```
    pub fn health_watch(&self) -> HealthWatch {
        self.state().healths.watch()
    }

    /// Returns the numbers of the informer: its cache, its last lists and their reasons, and the
    /// backlog of each handler.
    pub fn stats(&self) -> InformerStats {
        self.state().stats()
    }

    /// Returns an observer of the informer that does not keep it alive and does not have the type
    /// of its objects.
    pub fn monitor(&self) -> InformerMonitor {
        InformerMonitor::new(self.state())
    }

    /// Adds a handler with default options.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> Result<Registration, InformerStopped> {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Adds a handler. It first receives every existing object as an addition with `initial` set;
    /// before the informer is started, these are the objects of the initial list (rule IN-6). A
    /// handler that is added twice is called twice.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn add_handler_with(
        &self,
        handler: impl EventHandler<T>,
        options: HandlerOptions,
    ) -> Result<Registration, InformerStopped> {
        let (subscription, registration) = NewSubscription::handler(handler, options, &self.state().members);
        self.join(subscription).map(|()| registration)
    }

    /// Calls `call` for every added object, starting with the existing ones.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn on_add(
        &self,
        call: impl FnMut(&Arc<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnAdd(call))
    }

    /// Calls `call` for every update, with the old state and the new one.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn on_update(
        &self,
        call: impl FnMut(&Arc<T>, &Arc<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnUpdate(call))
    }

    /// Calls `call` for every deleted object.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn on_delete(
        &self,
        call: impl FnMut(Deleted<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnDelete(call))
    }

    /// Calls `call` for every change.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn on_change(
        &self,
        call: impl FnMut(&Change<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnChange(call))
    }

    /// Returns the changes as a stream, with default options.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn changes(&self) -> Result<Changes<T>, InformerStopped> {
        self.changes_with(HandlerOptions::default())
    }

    /// Returns the changes as a stream: those that a handler would receive, in the same order.
    ///
    /// # Errors
    /// Returns an error if the informer has stopped.
    pub fn changes_with(&self, options: HandlerOptions) -> Result<Changes<T>, InformerStopped> {
        let (subscription, changes) = NewSubscription::stream(options, &self.state().members);
        self.join(subscription).map(|()| changes)
    }

    fn join(&self, subscription: NewSubscription<T>) -> Result<(), InformerStopped> {
        let stopped = self.is_stopped() || self.state().subscriptions.send(subscription).is_err();
        if stopped { Err(InformerStopped { informer: self.name().to_owned() }) } else { Ok(()) }
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        Lifecycle(self.state().phase.subscribe())
    }

    pub(crate) fn downgrade(&self) -> WeakInformer<T> {
        WeakInformer(Arc::downgrade(&self.handle))
    }
}

impl Lifecycle {
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow() == Phase::Stopped
    }

    /// Waits until all tasks of the informer have ended.
    pub(crate) async fn stopped(mut self) {
        // It fails if the sender is dropped, which means that the informer is gone.
        let _ = self.0.wait_for(|it| *it == Phase::Stopped).await;
    }
}

impl<T: Object> Handle<T> {
    fn take_pump(&self) -> Option<Box<Pump<T>>> {
        self.pump.lock().take()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        self.state.stop.send_replace(true);
        if self.take_pump().is_some() {
            self.state.end();
        }
    }
}

impl<T: Object> WeakInformer<T> {
    pub(crate) fn upgrade(&self) -> Option<SharedInformer<T>> {
        self.0.upgrade().map(|handle| SharedInformer { handle })
    }
}

impl<T: Object> Clone for SharedInformer<T> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<T: Object> fmt::Debug for SharedInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("name", &self.name())
            .field("synced", &self.is_synced())
            .field("objects", &self.state().store.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
