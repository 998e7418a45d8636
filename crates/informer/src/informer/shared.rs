//! The handle on an informer: what a program reads, waits for and is told through.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use dogwatch_core::{Labels, Object, ObjectKey, ResourceType, ResourceVersion};
use tokio::sync::watch;
use tracing::Instrument;

use super::core::{Core, NotSynced, Phase};
use super::pump::{Pump, Stopping};
use crate::change::{Change, Deleted};
use crate::fan_out::Joining;
use crate::handler::{EventHandler, OnAdd, OnChange, OnDelete, OnUpdate};
use crate::health::Health;
use crate::health_watch::HealthWatch;
use crate::index::{Index, IndexError};
use crate::lister::Lister;
use crate::registration::{Changes, HandlerOptions, Registration};
use crate::store::{Store, WaitError};

/// A local copy of a collection, kept in step with the server, for everybody in the program who needs it.
///
/// It reads the collection once, follows its changes, and goes on through every failure; [`Self::health`] says how it is doing.
/// A clone is another handle on the same informer, and so are the stores and listers that it gives out. When the last handle is
/// dropped the informer stops, as it does after [`Self::stop`]; a stopped informer cannot be started again. What was read from it
/// stays readable.
///
/// Handlers may come at any time before it stops. Each is told first of what is there, and then of every change, in order and from a task
/// of its own; see [`EventHandler`] for what it can rely on.
///
/// ```
/// # use dogwatch_client::{Api, Client};
/// # use dogwatch_informer::SharedInformer;
/// # use k8s_openapi::api::core::v1::Pod;
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = SharedInformer::new(Api::<Pod>::all(client));
/// pods.on_delete(|pod| println!("{:?} is gone", pod.last().metadata.name))?;
/// pods.start();
/// pods.synced().await?;
/// println!("{} pods", pods.store().len());
/// # Ok(())
/// # }
/// ```
pub struct SharedInformer<T: Object> {
    handle: Arc<Handle<T>>,
}

/// What all handles own together. Dropped with the last of them.
struct Handle<T: Object> {
    core: Arc<Core<T>>,
    /// Until the informer is started.
    pump: Mutex<Option<Box<Pump<T>>>>,
}

/// An informer that is not kept alive by this.
pub(crate) struct WeakInformer<T: Object>(Weak<Handle<T>>);

/// Whether an informer has ended, known without a handle on it.
#[derive(Clone, Debug)]
pub(crate) struct Life(watch::Receiver<Phase>);

/// The informer has stopped, and takes no more handlers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler was not added to informer {informer} because it has stopped already")]
pub struct InformerStopped {
    informer: String,
}

impl<T: Object> SharedInformer<T> {
    pub(super) fn from_parts(core: Arc<Core<T>>, pump: Pump<T>) -> Self {
        Self { handle: Arc::new(Handle { core, pump: Mutex::new(Some(Box::new(pump))) }) }
    }

    fn core(&self) -> &Arc<Core<T>> {
        &self.handle.core
    }

    /// What it is called in metrics, logs and errors.
    pub fn name(&self) -> &str {
        &self.core().name
    }

    /// The collection it is a copy of.
    pub fn resource(&self) -> &ResourceType {
        &self.core().resource
    }

    /// Whether the namespaces and selectors of this informer let it hold an object of this key and these labels, which are `None`
    /// where the caller does not know them. `None` where only the server can tell: for selectors of other fields than name and
    /// namespace, and for shards.
    pub fn admits(&self, key: &ObjectKey, labels: Option<Labels<'_>>) -> Option<bool> {
        self.core().coverage.admits(key, labels)
    }

    /// Returns the copy itself, to be read from anywhere. It keeps the informer running, as this handle does.
    ///
    /// A handler of this informer that keeps one keeps the informer until [`Self::stop`]; it may use [`Store::detached`].
    pub fn store(&self) -> Store<T> {
        self.core().store.kept_by(Arc::clone(&self.handle) as _)
    }

    /// Returns a reader of the copy by key, namespace, labels and index. It keeps the informer running.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.store())
    }

    /// Adds an index to the store; when it returns, every object is found by it.
    ///
    /// # Errors
    /// When there is an index of this name.
    pub fn add_index(&self, index: Index<T>) -> Result<(), IndexError> {
        self.core().store.add_index(index)
    }

    /// Starts it in tasks of the runtime this is called on. A second call does nothing, and so does one after it was stopped.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn start(&self) {
        if self.is_started() {
            return;
        }
        // Before anything is changed: without a runtime this panics, and the informer can still be started elsewhere.
        let runtime = tokio::runtime::Handle::current();
        let Some(pump) = self.handle.take_pump() else { return };
        let core = Arc::clone(self.core());
        core.phase.send_replace(Phase::Running);
        let span = tracing::info_span!("informer", name = core.name, resource = %core.resource.gvr());
        runtime.spawn(pump.run(Stopping(core)).instrument(span));
    }

    /// Starts it and waits until it has stopped.
    pub async fn run(&self) {
        self.start();
        self.core().stopped().await;
    }

    /// Starts it, waits for the signal, or until it was stopped otherwise, and stops it.
    pub async fn run_until(&self, signal: impl Future) {
        self.start();
        tokio::select! {
            biased;
            _ = signal => {}
            () = self.core().stopped() => {}
        }
        self.stop().await;
    }

    /// Stops it and waits until every task of it has ended: first what reads from the server, then the handlers, each after it has
    /// worked off what was left for it (rule IN-10). What is left after [`InformerBuilder::stop_grace`](crate::InformerBuilder::stop_grace)
    /// is dropped. A call of a handler that never returns is waited for for ever.
    pub async fn stop(&self) {
        if self.handle.take_pump().is_some() {
            self.core().end();
        }
        self.core().stop.send_replace(true);
        self.core().stopped().await;
    }

    /// Whether it was started, even if it has stopped since.
    pub fn is_started(&self) -> bool {
        let not_yet = self.handle.pump.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        !not_yet
    }

    /// Whether it has stopped: nothing changes any more.
    pub fn is_stopped(&self) -> bool {
        self.core().is_stopped()
    }

    /// Whether it has stopped, or was asked to and is about to: it takes no more handlers then.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopped() || *self.core().stop.borrow()
    }

    /// Whether the first list is whole and in the store.
    pub fn is_synced(&self) -> bool {
        self.core().store.synced()
    }

    /// Waits until the first list is whole and in the store. It goes on trying as long as the informer does: where that may be for
    /// ever, because a permission is missing for example, ask [`Self::synced_within`].
    ///
    /// # Errors
    /// When the informer has stopped and never was synced.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        self.core().synced().await
    }

    /// Waits until the first list is whole and in the store, but no longer than this.
    ///
    /// # Errors
    /// When it is not by then, and why; the informer goes on trying. Or when it has stopped.
    pub async fn synced_within(&self, patience: Duration) -> Result<(), NotSynced> {
        self.core().synced_within(patience).await
    }

    /// Waits until the store shows this version or a later one: with the version a write returned, one reads one's own writes. See
    /// [`Store::wait_until`].
    ///
    /// # Errors
    /// When the informer stops before that, or when the versions cannot be compared.
    pub async fn wait_until(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        self.core().store.wait_until(version).await
    }

    /// The version up to which the store shows everything; unset before it is synced.
    pub fn last_sync_version(&self) -> ResourceVersion {
        self.core().store.version()
    }

    /// How it is doing: what it is at, and what keeps it from being in step. Of several namespaces, what is worst is told.
    pub fn health(&self) -> Health {
        self.core().health()
    }

    /// Follows how it is doing, until it has stopped. It does not keep the informer alive.
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
        self.core().healths.watch()
    }

    /// Adds a handler with the usual options.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> Result<Registration, InformerStopped> {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Adds a handler. It is told first of every object that is there, as an addition with `initial` set; when the informer has not
    /// begun, of those of the first list (rule IN-6). The same handler added twice is told twice.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn add_handler_with(
        &self,
        handler: impl EventHandler<T>,
        options: HandlerOptions,
    ) -> Result<Registration, InformerStopped> {
        let (joining, registration) = Joining::handler(handler, options, &self.core().members);
        self.join(joining).map(|()| registration)
    }

    /// Calls this for every object that is new, beginning with those that are there.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn on_add(
        &self,
        call: impl FnMut(&Arc<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnAdd(call))
    }

    /// Calls this for every update, with the old state and the new one.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn on_update(
        &self,
        call: impl FnMut(&Arc<T>, &Arc<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnUpdate(call))
    }

    /// Calls this for every object that goes.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn on_delete(
        &self,
        call: impl FnMut(Deleted<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnDelete(call))
    }

    /// Calls this for every change.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn on_change(
        &self,
        call: impl FnMut(&Change<T>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        self.add_handler(OnChange(call))
    }

    /// The changes as a stream, with the usual options.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn changes(&self) -> Result<Changes<T>, InformerStopped> {
        self.changes_with(HandlerOptions::default())
    }

    /// The changes as a stream: what a handler would be told of, in the same order.
    ///
    /// # Errors
    /// When the informer has stopped.
    pub fn changes_with(&self, options: HandlerOptions) -> Result<Changes<T>, InformerStopped> {
        let (joining, changes) = Joining::stream(options, &self.core().members);
        self.join(joining).map(|()| changes)
    }

    fn join(&self, joining: Joining<T>) -> Result<(), InformerStopped> {
        let stopped = self.is_stopped() || self.core().joins.send(joining).is_err();
        if stopped { Err(InformerStopped { informer: self.name().to_owned() }) } else { Ok(()) }
    }

    pub(crate) fn life(&self) -> Life {
        Life(self.core().phase.subscribe())
    }

    pub(crate) fn downgrade(&self) -> WeakInformer<T> {
        WeakInformer(Arc::downgrade(&self.handle))
    }
}

impl Life {
    pub(crate) fn is_over(&self) -> bool {
        *self.0.borrow() == Phase::Stopped
    }

    /// Waits until every task of the informer has ended.
    pub(crate) async fn over(mut self) {
        // It fails when nobody is left to say so, which is the same.
        let _ = self.0.wait_for(|it| *it == Phase::Stopped).await;
    }
}

impl<T: Object> Handle<T> {
    fn take_pump(&self) -> Option<Box<Pump<T>>> {
        self.pump.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        self.core.stop.send_replace(true);
        if self.take_pump().is_some() {
            self.core.end();
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
            .field("objects", &self.core().store.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dogwatch_client::Error;
    use dogwatch_core::{Gvk, ListParams, WatchParams};
    use futures_core::future::BoxFuture;
    use futures_util::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::runtime::{Builder, Runtime};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;
    use crate::list_watch::{ListWatch, Lists, Watches};

    /// A server that never answers.
    struct Silent(ResourceType);

    impl ListWatch<ConfigMap> for Silent {
        fn resource(&self) -> &ResourceType {
            &self.0
        }

        fn list(&self, _: ListParams) -> Lists<ConfigMap> {
            Box::pin(stream::pending())
        }

        fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<ConfigMap>, Error>> {
            Box::pin(pending())
        }
    }

    /// Counts what is logged as a warning or worse.
    #[derive(Clone, Default)]
    struct Alarms(Arc<AtomicUsize>);

    impl Subscriber for Alarms {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().expect("a runtime can be made")
    }

    /// Where a runtime of several threads ends, one of them may drop the task that reads while another still runs the informer's.
    #[test]
    fn a_reader_that_goes_with_its_runtime_is_no_alarm_whether_a_stop_was_asked_for_or_not() {
        for asked in [false, true] {
            let maps = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
            let informer = SharedInformer::new(Silent(maps));
            let mut pump = informer.handle.take_pump().expect("it was not started");
            let first = runtime();
            first.block_on(async {
                pump.feeds.iter_mut().for_each(|it| it.start());
                tokio::task::yield_now().await;
            });
            drop(first);
            informer.core().stop.send_replace(asked);
            let alarms = Alarms::default();
            tracing::subscriber::with_default(alarms.clone(), || {
                runtime().block_on(pump.run(Stopping(Arc::clone(informer.core()))));
                tracing::warn!("so that it is known to count");
            });
            assert_eq!(alarms.0.load(Ordering::Relaxed), 1, "asked: {asked}");
            assert!(informer.is_stopped());
        }
    }
}
