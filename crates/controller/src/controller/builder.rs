//! The builder of a controller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dogwatch_core::{Object, ObjectKey, ResourceType};
use dogwatch_informer::SharedInformer;
use dogwatch_workqueue::{RateLimiter, WorkQueue, WorkQueueBuilder};
use futures_core::Stream;
use futures_core::stream::BoxStream;

use super::controller::{Controller, RunSettings};
use super::monitor::Reconciles;
use super::shards::Shards;
use super::worker::ControllerInner;
use crate::guard::Guard;
use crate::metrics::ControllerMetrics;
use crate::reconciler::{BoxedReconciler, Key, Reconciler};
use crate::sharding::ShardMember;
use crate::source::{Cache, MappedSource, Owned, Source, Watched, controller_key};

/// The default time to wait for the informers to sync; controller-runtime's two minutes.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// The default time for running reconciles to finish after a stop; controller-runtime's half a
/// minute.
const GRACE: Duration = Duration::from_secs(30);

/// The default time that a key waits for the cache to show a write. A watch shows it within
/// milliseconds; a new list, with its backoff, takes some seconds.
const CONSISTENCY_WAIT: Duration = Duration::from_secs(30);

/// Builds a [`Controller`].
///
/// Metrics go to the recorder that is installed when [`Self::build`] is called.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Action, BoxError, Context, Controller};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let deployments = SharedInformer::new(Api::<Deployment>::all(client.clone()));
/// let replica_sets = SharedInformer::new(Api::<ReplicaSet>::all(client));
/// let controller = Controller::of(&deployments)
///     .named("rollout")
///     .owns(&replica_sets)
///     .workers(4)
///     .reconcile_timeout(Duration::from_secs(60))
///     .build(|_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) });
/// assert_eq!(controller.name(), "rollout");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ControllerBuilder<K> {
    name: String,
    /// The resource type of the keys, if they are keys of objects.
    of: Option<ResourceType>,
    sources: Vec<Box<dyn Source<K>>>,
    needs: Vec<Box<dyn Cache>>,
    streams: Vec<BoxStream<'static, K>>,
    shards: Option<Shards<K>>,
    queue: WorkQueueBuilder<K>,
    timeout: Option<Duration>,
    consistency_wait: Duration,
    as_leader: bool,
    settings: RunSettings,
}

impl Controller {
    /// Creates a builder for a controller of the objects of this informer: an object that changes
    /// is reconciled under its key. The controller is named after the kind, in lower case, unless
    /// [`named`](ControllerBuilder::named) sets another name.
    pub fn of<T: Object>(watched: impl Into<Watched<T>>) -> ControllerBuilder<ObjectKey> {
        let watched = watched.into();
        let resource = watched.resource().clone();
        let mut builder = Self::with_keys(resource.gvk.kind.to_lowercase());
        builder.of = Some(resource);
        let own_key = |object: &T, add: &mut dyn FnMut(ObjectKey)| {
            object.key().into_iter().for_each(add);
        };
        builder.sources.push(Box::new(MappedSource::new(watched, Arc::new(own_key), false)));
        builder
    }

    /// Creates a builder for a controller with keys of any type, which come from the objects that
    /// it [watches](ControllerBuilder::watches).
    pub fn with_keys<K: Key>(name: impl Into<String>) -> ControllerBuilder<K> {
        ControllerBuilder {
            name: name.into(),
            of: None,
            sources: Vec::new(),
            needs: Vec::new(),
            streams: Vec::new(),
            shards: None,
            queue: WorkQueue::builder(),
            timeout: None,
            consistency_wait: CONSISTENCY_WAIT,
            as_leader: true,
            settings: RunSettings { workers: 1, sync_timeout: SYNC_TIMEOUT, grace: GRACE, abandon: false },
        }
    }
}

impl ControllerBuilder<ObjectKey> {
    /// Also watches owned objects: when an object of this informer changes, the object that
    /// controls it by its owner references is reconciled. When the reference changes, both the old
    /// and the new controller are.
    ///
    /// The owner is recognised by its group and kind, whatever version the reference names. Owners
    /// that are not the controller of the object are ignored; use [`watches`](Self::watches) to
    /// follow them.
    ///
    /// # Panics
    /// Panics if the controller was not created with [`Controller::of`], and so has no objects that
    /// could own others. The builder has one type for both, so that functions that configure
    /// controllers accept either; the mistake shows at the first start of the program.
    pub fn owns<T: Owned>(self, watched: impl Into<Watched<T>>) -> Self {
        let owner = self
            .of
            .clone()
            .expect("only a controller created with `Controller::of` has objects that own others");
        self.watches(watched, move |object: &T| controller_key(object, &owner))
    }
}

impl<K: Key + fmt::Display> ControllerBuilder<K> {
    /// Shards the keys over replicas: this replica reconciles a key only while the member owns it,
    /// by the key's `Display` text. All replicas work at the same time, so the controller does not
    /// wait for its manager to become leader.
    ///
    /// The member must [run](ShardMember::run_until) separately, for example as a
    /// [task](crate::Manager::task). Until it does, no key is reconciled. When keys move, running
    /// reconciles of them are dropped; then the new owner reconciles every object of its share, and
    /// every key that changed in between. A controller that cleans up after deleted objects should
    /// use a [finalizer](crate::Finalizer): an object that is deleted while its key moves may be in
    /// the cache of neither owner.
    ///
    /// The new owner also reconciles the keys of its share that its own
    /// [streams](Self::reconcile_on) have yielded, so the stream of every replica should yield all
    /// keys. It remembers the last 100,000 distinct keys of its streams, or more; older ones wait
    /// until a stream yields them again.
    ///
    /// Every replica watches all objects. If the server can shard a list,
    /// [`ShardMember::work_on_shards`] avoids that.
    pub fn sharded(mut self, member: &ShardMember) -> Self {
        self.shards = Some(Shards::new(member.clone(), |key: &K| key.to_string()));
        self.as_leader = false;
        self
    }
}

impl<K: Key> ControllerBuilder<K> {
    /// Also watches these objects: when one changes, the keys that the function returns are
    /// reconciled. For an update the function is also called with the old state, and for a deletion
    /// with the last one.
    ///
    /// The function runs in the task that delivers changes to the controller, so it should return
    /// quickly. If it panics, the panic is reported and the change is lost.
    pub fn watches<T, I>(
        mut self,
        watched: impl Into<Watched<T>>,
        keys: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        I: IntoIterator<Item = K>,
    {
        let mapping = move |object: &T, add: &mut dyn FnMut(K)| keys(object).into_iter().for_each(add);
        self.sources.push(Box::new(MappedSource::new(watched.into(), Arc::new(mapping), true)));
        self
    }

    /// Also waits for this informer before reconciling, and keeps it running: for caches that the
    /// reconciler reads without being triggered by their changes, such as settings. The controller
    /// starts the informer if it is not running yet, and stops with an error when it ends.
    ///
    /// A manager waits for all informers of its factory anyway.
    pub fn needs<T: Object>(mut self, informer: &SharedInformer<T>) -> Self {
        self.needs.push(Box::new(informer.clone()));
        self
    }

    /// Also reconciles the keys of this stream, such as a channel or a timer, for triggers outside
    /// of the cluster. The stream is read as fast as it yields while the controller works; its end
    /// is not an error.
    pub fn reconcile_on(mut self, keys: impl Stream<Item = K> + Send + 'static) -> Self {
        self.streams.push(Box::pin(keys));
        self
    }

    /// Sets the name for logs, metrics and errors. Names must be unique within a manager. Defaults
    /// to the kind in lower case.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the number of keys that are reconciled concurrently, at least one. The same key is
    /// never reconciled concurrently with itself. Defaults to 1.
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// Sets the rate limiter that decides how long a key waits after a failure. Defaults to an
    /// exponential backoff for each key, from 5 ms doubling up to 1000 s.
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.queue = self.queue.limiter(limiter);
        self
    }

    /// Adjusts the queue, for example for fairness between groups of keys or for strict priorities.
    /// Its name is always the controller's, and each key has one outstanding add, the earliest.
    pub fn queue(mut self, adjust: impl FnOnce(WorkQueueBuilder<K>) -> WorkQueueBuilder<K>) -> Self {
        self.queue = adjust(self.queue);
        self
    }

    /// Aborts a reconcile that takes longer, and counts it as failed. Defaults to no timeout.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the time to wait for the informers to sync before the controller fails. Defaults to two
    /// minutes.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.settings.sync_timeout = limit;
        self
    }

    /// Sets the time that a key waits for the cache to show the [writes](crate::Context::wrote)
    /// made under it. The key is not reconciled before, and occupies no worker meanwhile; after
    /// that time it is reconciled anyway and counted in `dogwatch_controller_stale_reads_total`.
    /// Defaults to 30 s.
    pub fn consistency_wait(mut self, limit: Duration) -> Self {
        self.consistency_wait = limit;
        self
    }

    /// Sets the time for queued and running reconciles to finish after a stop; then they are
    /// aborted. Defaults to 30 s.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.settings.grace = limit;
        self
    }

    /// After a stop, finishes running reconciles and drops queued keys. By default, queued keys are
    /// reconciled too.
    pub fn abandon_queue_on_stop(mut self) -> Self {
        self.settings.abandon = true;
        self
    }

    /// Runs the controller on every replica, leader or not. By default, a manager with leader
    /// election runs it only while it leads.
    pub fn without_leader_election(mut self) -> Self {
        self.as_leader = false;
        self
    }

    /// Builds the controller. It does not run yet.
    pub fn build<R: Reconciler<K>>(self, reconciler: R) -> Controller {
        let name: Arc<str> = self.name.into();
        let metrics = ControllerMetrics::new(&name, self.settings.workers);
        let inner = ControllerInner {
            queue: self.queue.name(&*name).earliest_wins().build_with_notes(),
            kinds: self.sources.iter().map(|it| it.kind().clone()).collect(),
            sources: self.sources,
            reconciler: BoxedReconciler::new(reconciler),
            needs: self.needs,
            guard: Guard::new(self.consistency_wait, metrics.overdue.clone()),
            shards: self.shards,
            timeout: self.timeout,
            metrics,
            reconciles: Reconciles::default(),
            abandoned: AtomicBool::new(false),
            name,
        };
        Controller::new(inner, self.streams, self.settings, self.as_leader)
    }
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers: Vec<_> = self.sources.iter().map(|it| it.cache().name()).collect();
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("informers", &informers)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
