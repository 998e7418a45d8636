//! The controller, from its first watch to its last reconcile.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_informer::{InformerMonitor, Registration};
use dogwatch_workqueue::AddOptions;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::error::ControllerError;
use super::monitor::{ControllerMonitor, ControllerStats, Observed};
use super::worker::{ControllerInner, text_of};
use crate::causes::Cause;
use crate::owned_tasks::OwnedTasks;
use crate::reconciler::Key;
use crate::source::Cache;

/// A controller that is ready to run, by itself or in a [`Manager`](crate::Manager).
///
/// Dropping it, or the future that runs it, drops the futures of its reconciles before the drop
/// returns, and removes its handlers from the informers; informers without other owners then stop.
/// If a reconcile is being polled on another thread at that moment, the drop waits until its next
/// `await`.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Action, BoxError, Context, Controller};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let (reconciled, mut keys) = tokio::sync::mpsc::unbounded_channel();
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let controller = Controller::of(&maps).build(move |key: ObjectKey, _: Context| {
///     let sent = reconciled.send(key);
///     async move {
///         sent?;
///         Ok::<_, BoxError>(Action::Done)
///     }
/// });
/// let settings = Some(ObjectKey::namespaced("default", "settings"));
/// controller.run(async move { while keys.recv().await != settings {} }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Controller {
    name: Arc<str>,
    as_leader: bool,
    sync_timeout: Duration,
    started: watch::Sender<bool>,
    monitor: ControllerMonitor,
    lifecycle: Box<dyn Lifecycle>,
}

/// The run settings of a controller.
#[derive(Clone, Debug)]
pub(super) struct RunSettings {
    pub(super) workers: usize,
    pub(super) sync_timeout: Duration,
    pub(super) grace: Duration,
    pub(super) abandon: bool,
}

impl Controller {
    pub(super) fn new<K: Key>(
        inner: ControllerInner<K>,
        streams: Vec<BoxStream<'static, K>>,
        settings: RunSettings,
        as_leader: bool,
    ) -> Self {
        let name = Arc::clone(&inner.name);
        let (streams, sync_timeout) = (Mutex::new(streams), settings.sync_timeout);
        let (inner, started) = (Arc::new(inner), watch::Sender::new(false));
        let registrations = Arc::<Mutex<_>>::default();
        let monitor = ControllerMonitor::new(WeakController {
            inner: Arc::downgrade(&inner),
            registrations: Arc::downgrade(&registrations),
            workers: settings.workers,
            as_leader,
            running: started.subscribe(),
        });
        let lifecycle = Running { inner, streams, settings, registrations, started: started.clone() };
        Self { name, as_leader, sync_timeout, started, monitor, lifecycle: Box::new(lifecycle) }
    }

    /// Returns the name for logs, metrics and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an observer of the controller that does not keep it alive.
    pub fn monitor(&self) -> ControllerMonitor {
        self.monitor.clone()
    }

    /// Returns true if the controller works only while its manager leads.
    pub fn needs_leader_election(&self) -> bool {
        self.as_leader
    }

    /// Runs the controller until `stop` resolves. It watches first, and begins to reconcile once
    /// every handler has received the initial objects.
    ///
    /// After `stop` it accepts no new keys, and drains the queue within its grace period. Delayed
    /// keys are dropped. It starts its informers, and leaves them running.
    ///
    /// # Errors
    /// Returns an error if it does not sync in time, if an informer that it watches or needs ends,
    /// if one of its tasks panics, or if it does not drain in time.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ControllerError> {
        self.watch()?;
        self.work(Box::pin(stop)).await
    }

    /// Returns a future that completes when the controller is synced and begins to reconcile, for a
    /// readiness endpoint. It never completes if the controller ends before that.
    ///
    /// ```
    /// # use dogwatch_client::Api;
    /// # use dogwatch_controller::{Action, BoxError, Context, Controller};
    /// # use dogwatch_core::ObjectKey;
    /// # use dogwatch_informer::SharedInformer;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
    /// # let url = server.url().parse()?;
    /// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
    /// # let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
    /// # let reconcile = |_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) };
    /// let controller = Controller::of(&maps).build(reconcile);
    /// let started = controller.started();
    /// let running = tokio::spawn(controller.run(std::future::pending()));
    /// started.await;
    /// assert!(maps.health().synced);
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn started(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut started = self.started.subscribe();
        async move {
            if started.wait_for(|it| *it).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Starts the informers that it watches and needs.
    pub(crate) fn start(&self) {
        self.lifecycle.start();
    }

    /// Begins to fill the queue, and starts the informers. A second call has no effect.
    pub(crate) fn watch(&self) -> Result<(), ControllerError> {
        self.lifecycle.watch()
    }

    /// Waits until the informers are synced, and, if it watches already, its handlers have received
    /// the initial objects.
    pub(crate) async fn synced(&self) -> Result<(), ControllerError> {
        self.lifecycle.synced().await
    }

    /// Waits until an informer that it watches or needs has ended.
    pub(crate) async fn source_ended(&self) -> ControllerError {
        self.lifecycle.source_ended().await
    }

    /// Begins to watch, if it does not yet, and reconciles until it is stopped.
    pub(crate) async fn work(&self, stop: BoxFuture<'_, ()>) -> Result<(), ControllerError> {
        self.lifecycle.work(stop).await
    }

    /// Returns the time to wait for its informers.
    pub(crate) fn sync_timeout(&self) -> Duration {
        self.sync_timeout
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("as_leader", &self.as_leader)
            .finish_non_exhaustive()
    }
}

/// A controller, for its monitor.
struct WeakController<K: Key> {
    inner: Weak<ControllerInner<K>>,
    registrations: Weak<Mutex<Vec<Registration>>>,
    workers: usize,
    as_leader: bool,
    /// True once it has begun to reconcile.
    running: watch::Receiver<bool>,
}

impl<K: Key> Observed for WeakController<K> {
    fn stats(&self, keys: usize) -> Option<ControllerStats> {
        let inner = self.inner.upgrade()?;
        let mut informers: Vec<_> = inner.sources.iter().map(|it| it.cache().name().to_owned()).collect();
        informers.sort_unstable();
        informers.dedup();
        let mut sources: Vec<InformerMonitor> = Vec::new();
        for source in inner.sources.iter().map(|it| it.cache().monitor()) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let registrations = self.registrations.upgrade();
        let handlers = registrations.map(|it| it.lock().iter().map(Registration::id).collect());
        let (reconciles, failures, busy) = inner.reconciles.counts();
        Some(ControllerStats {
            name: inner.name.to_string(),
            workers: self.workers,
            needs_leader_election: self.as_leader,
            started: *self.running.borrow(),
            informers,
            sources,
            handlers: handlers.unwrap_or_default(),
            reconciles,
            failures,
            busy,
            queue: inner.reconciles.describe(inner.queue.snapshot(keys)),
        })
    }
}

/// The lifecycle of a controller, independent of its key type and its reconciler.
trait Lifecycle: Send + Sync {
    fn start(&self);
    fn watch(&self) -> Result<(), ControllerError>;
    fn synced(&self) -> BoxFuture<'_, Result<(), ControllerError>>;
    fn source_ended(&self) -> BoxFuture<'_, ControllerError>;
    fn work<'a>(&'a self, stop: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), ControllerError>>;
}

struct Running<K: Key> {
    inner: Arc<ControllerInner<K>>,
    /// Taken when the controller begins to work.
    streams: Mutex<Vec<BoxStream<'static, K>>>,
    settings: RunSettings,
    /// One for each source, once it watches.
    registrations: Arc<Mutex<Vec<Registration>>>,
    /// Set to true when it begins to reconcile.
    started: watch::Sender<bool>,
}

impl<K: Key> Running<K> {
    fn name(&self) -> String {
        self.inner.name.to_string()
    }

    fn registrations(&self) -> MutexGuard<'_, Vec<Registration>> {
        self.registrations.lock()
    }

    async fn all_synced(&self) -> Result<(), ControllerError> {
        let after = self.settings.sync_timeout;
        let caches = self.inner.caches().map(|cache| async move {
            match timeout(after, cache.synced()).await {
                Ok(Ok(())) => None,
                Ok(Err(ended)) => Some(ended.to_string()),
                Err(_) => Some(format!("informer {} is not synced: {}", cache.name(), cache.health())),
            }
        });
        let registrations = self.registrations().clone();
        let handlers = registrations.iter().map(|registration| async move {
            match timeout(after, registration.synced()).await {
                // A cache that is not synced is reported above.
                Ok(Ok(())) | Err(_) => None,
                Ok(Err(ended)) => Some(ended.to_string()),
            }
        });
        let (caches, handlers) = tokio::join!(join_all(caches), join_all(handlers));
        let mut pending: Vec<_> = caches.into_iter().flatten().collect();
        if pending.is_empty() {
            pending.extend(handlers.into_iter().flatten());
            let unserved = registrations.iter().filter(|it| !it.is_synced());
            if pending.is_empty() {
                pending.extend(unserved.map(|it| format!("handler {} is not synced", it.name())));
            }
        }
        match pending.is_empty() {
            true => Ok(()),
            false => Err(ControllerError::NotSynced { controller: self.name(), after, pending }),
        }
    }

    async fn any_ended(&self) -> ControllerError {
        let mut ends: FuturesUnordered<_> =
            self.inner.caches().map(|cache| async move { cache.ended().map(|()| cache).await }).collect();
        match ends.next().await {
            Some(cache) => ControllerError::SourceEnded {
                controller: self.name(),
                informer: cache.name().to_owned(),
                health: Box::new(cache.health()),
            },
            None => std::future::pending().await,
        }
    }

    async fn work_until(&self, stop: BoxFuture<'_, ()>) -> Result<(), ControllerError> {
        let mut stop = pin!(stop);
        self.watch()?;
        tokio::select! {
            biased;
            () = &mut stop => {
                self.inner.queue.shut_down();
                return Ok(());
            }
            synced = self.all_synced() => synced?,
            ended = self.any_ended() => return Err(ended),
        }
        tracing::info!(controller = &*self.inner.name, workers = self.settings.workers, "controller started");
        self.started.send_replace(true);
        // Both sets end with this function. Workers are gone before it returns or its future is
        // dropped: later steps, such as the release of a Lease, rely on that.
        let (mut workers, mut background) = (OwnedTasks::new(), OwnedTasks::new());
        // Subscribe before a worker finds that a key is not ours, so that no change after that is
        // missed.
        let shards = Arc::clone(&self.inner).follow_shards();
        for _ in 0..self.settings.workers {
            workers.spawn(Arc::clone(&self.inner).work());
        }
        background.spawn(self.inner.queue.keep_metrics_fresh());
        background.spawn(Arc::clone(&self.inner).guard());
        background.spawn(shards);
        for mut stream in std::mem::take(&mut *self.streams.lock()) {
            let inner = Arc::clone(&self.inner);
            background.spawn(async move {
                while let Some(key) = stream.next().await {
                    inner.shards.iter().for_each(|it| it.remember(&key));
                    inner.queue.add_with_note(key, AddOptions::default(), Cause::Stream.into());
                }
            });
        }
        let mut lost = None;
        tokio::select! {
            biased;
            () = &mut stop => {}
            // Workers end only when the queue does, so this one panicked.
            Some((_, Err(ended))) = workers.join_next() => return Err(self.broken(ended)),
            // Without one of these tasks, keys that wait for a cache, or those of a stream, would
            // never arrive.
            ended = first_panic(&mut background) => return Err(self.broken(ended)),
            ended = self.any_ended() => lost = Some(ended),
        }
        // After an informer has ended, queued keys could only be reconciled from a cache that is no
        // longer updated.
        self.inner.abandoned.store(self.settings.abandon || lost.is_some(), Ordering::Relaxed);
        self.inner.queue.shut_down();
        let drained = timeout(self.settings.grace, async {
            while let Some((_, ended)) = workers.join_next().await {
                ended.map_err(|it| self.broken(it))?;
            }
            Ok(())
        });
        let drained = drained.await.unwrap_or_else(|_| {
            Err(ControllerError::Undrained {
                controller: self.name(),
                after: self.settings.grace,
                busy: workers.len(),
                queued: self.inner.queue.len(),
            })
        });
        lost.map_or(drained, Err)
    }

    fn broken(&self, ended: JoinError) -> ControllerError {
        let panic = match ended.try_into_panic() {
            Ok(panic) => text_of(&*panic),
            Err(cancelled) => cancelled.to_string(),
        };
        ControllerError::Broken { controller: self.name(), panic }
    }
}

/// Waits until a task panics; ignores tasks that complete.
async fn first_panic(tasks: &mut OwnedTasks<()>) -> JoinError {
    while let Some((_, ended)) = tasks.join_next().await {
        if let Err(ended) = ended {
            return ended;
        }
    }
    std::future::pending().await
}

impl<K: Key> Lifecycle for Running<K> {
    fn start(&self) {
        self.inner.caches().for_each(Cache::start);
    }

    fn watch(&self) -> Result<(), ControllerError> {
        let inner = &self.inner;
        let mut registrations = self.registrations();
        for (place, source) in inner.sources.iter().enumerate().skip(registrations.len()) {
            // Gives two handlers of one informer distinct names in metrics.
            let name = source.cache().name();
            let handler = match inner.sources[..place].iter().filter(|it| it.cache().name() == name).count() {
                0 => inner.name.to_string(),
                before => format!("{}-{}", inner.name, before + 1),
            };
            let registration = source.watch(&handler, &inner.queue);
            let registration = registration.map_err(|source| ControllerError::Unwatchable {
                controller: inner.name.to_string(),
                source,
            })?;
            registrations.push(registration);
        }
        drop(registrations);
        // Start after the handlers are registered, so that they also see objects that come and go
        // during the first list.
        self.start();
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(self.all_synced())
    }

    fn source_ended(&self) -> BoxFuture<'_, ControllerError> {
        Box::pin(self.any_ended())
    }

    fn work<'a>(&'a self, stop: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), ControllerError>> {
        Box::pin(self.work_until(stop))
    }
}

impl<K: Key> Drop for Running<K> {
    fn drop(&mut self) {
        self.registrations().iter().for_each(Registration::remove);
        self.inner.queue.shut_down();
    }
}
