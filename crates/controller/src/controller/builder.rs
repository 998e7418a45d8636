//! What one may choose about a controller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dogwatch_core::{Object, ObjectKey, ResourceType};
use dogwatch_informer::SharedInformer;
use dogwatch_workqueue::{Builder, RateLimiter, WorkQueue};
use futures_core::Stream;
use futures_core::stream::BoxStream;

use super::shards::Shards;
use super::whole::{Controller, Course};
use super::worker::Machine;
use crate::guard::Guard;
use crate::metrics::ControllerMetrics;
use crate::reconciler::{Key, Reconciler};
use crate::sharding::ShardMember;
use crate::source::{Cache, MappedSource, Owned, Source, Watched, controller_key};

/// How long a controller waits for what it watches: controller-runtime's two minutes.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// How long reconciles may go on after a stop: controller-runtime's half a minute.
const GRACE: Duration = Duration::from_secs(30);

/// How long a key waits for the cache to show a write. A watch shows it within milliseconds; a list that has to be read again, with
/// its back-off, takes some seconds.
const CONSISTENCY_WAIT: Duration = Duration::from_secs(30);

/// Makes a [`Controller`].
///
/// Metrics go to the recorder that is installed when [`Self::build`] is called.
#[must_use]
pub struct ControllerBuilder<K> {
    name: String,
    /// Whose keys these are, where they are keys of objects.
    of: Option<ResourceType>,
    sources: Vec<Box<dyn Source<K>>>,
    needs: Vec<Box<dyn Cache>>,
    streams: Vec<BoxStream<'static, K>>,
    shards: Option<Shards<K>>,
    queue: Builder<K>,
    timeout: Option<Duration>,
    consistency_wait: Duration,
    as_leader: bool,
    course: Course,
}

impl Controller {
    /// A controller for the objects of this informer: an object that changes is reconciled under its key. It is called as the kind
    /// is, in lower case, unless it is [named](ControllerBuilder::named).
    pub fn for_<T: Object>(watched: impl Into<Watched<T>>) -> ControllerBuilder<ObjectKey> {
        let watched = watched.into();
        let resource = watched.resource().clone();
        let mut builder = Self::keyed(resource.gvk.kind.to_lowercase());
        builder.of = Some(resource);
        let own_key = |object: &T, add: &mut dyn FnMut(ObjectKey)| {
            object.key().into_iter().for_each(add);
        };
        builder.sources.push(Box::new(MappedSource::new(watched, Arc::new(own_key), false)));
        builder
    }

    /// A controller with keys of another kind than those of objects, which come from what it [watches](ControllerBuilder::watches).
    pub fn keyed<K: Key>(name: impl Into<String>) -> ControllerBuilder<K> {
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
            course: Course { workers: 1, sync_timeout: SYNC_TIMEOUT, grace: GRACE, abandon: false },
        }
    }
}

impl ControllerBuilder<ObjectKey> {
    /// Also watches what the objects own: when an object here changes, the one that controls it by its owner references is reconciled.
    /// When the reference changes, both the old and the new one are.
    ///
    /// The owner is recognised by its group and kind, whatever version the reference names. Owners that are not the controller of the object
    /// do not count; [`watches`](Self::watches) can be told to follow them.
    ///
    /// # Panics
    /// When the controller was not made by [`Controller::for_`], and so has no objects that could own anything.
    pub fn owns<T: Owned>(self, watched: impl Into<Watched<T>>) -> Self {
        let owner = self.of.clone().expect("only a controller made with `for_` has objects that own others");
        self.watches(watched, move |object: &T| controller_key(object, &owner))
    }
}

impl<K: Key + fmt::Display> ControllerBuilder<K> {
    /// Divides the keys among replicas: this one reconciles a key only while the member owns it, by the text of the key. All replicas
    /// work at the same time, so that the controller does not wait for its manager to lead.
    ///
    /// The member must be [run](ShardMember::run_until) besides, for example as a [task](crate::Manager::task). Until it is, no key
    /// is reconciled. When keys are handed over, running reconciles of them are dropped, and then the replica that gets them reconciles
    /// every object of its share anew, and every key that changed in between. A replica that clears up after deleted objects should use a
    /// [finalizer](crate::Finalizer): an object that goes while its key is handed over may be in the cache of neither owner.
    ///
    /// Every replica watches all objects. Where the server can divide a list, [`ShardMember::work_on_parts`] saves that.
    pub fn sharded(mut self, member: &ShardMember) -> Self {
        self.shards = Some(Shards::new(member.clone(), |key: &K| key.to_string()));
        self.as_leader = false;
        self
    }
}

impl<K: Key> ControllerBuilder<K> {
    /// Also watches these: when an object here changes, the keys that the function names are reconciled. Of an update it is asked
    /// about the old state too, and of a deletion about the last one.
    ///
    /// It runs in the task that tells the controller of changes, so it should be quick; a change at which it panics is reported and lost.
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

    /// Waits for this informer too before it works, and holds it: for what the reconciler reads without being called for its
    /// changes, such as settings. The controller starts it, if that was not done before, and ends with an error when it ends.
    ///
    /// A manager waits for all informers of its factory anyway.
    pub fn needs<T: Object>(mut self, informer: &SharedInformer<T>) -> Self {
        self.needs.push(Box::new(informer.clone()));
        self
    }

    /// Also reconciles the keys of this stream, such as those of a channel or of a timer: for what happens outside of the cluster. It is
    /// read while the controller works, as fast as it comes; its end is no harm.
    pub fn also_on(mut self, keys: impl Stream<Item = K> + Send + 'static) -> Self {
        self.streams.push(Box::pin(keys));
        self
    }

    /// What it is called in logs, metrics and errors. Within a manager, names must differ.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many keys are worked on at once; one unless called, and at least one. A key is never worked on twice at once.
    pub fn workers(mut self, workers: usize) -> Self {
        self.course.workers = workers.max(1);
        self
    }

    /// Decides how long a key waits after a failure: from 5 ms, doubling to 1000 s, each key by itself, unless called.
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.queue = self.queue.limiter(limiter);
        self
    }

    /// Adjusts the queue: fair turns between groups of keys, strict priorities. Its name is the controller's, and each key has one
    /// outstanding add, the earliest.
    pub fn queue(mut self, adjust: impl FnOnce(Builder<K>) -> Builder<K>) -> Self {
        self.queue = adjust(self.queue);
        self
    }

    /// Cuts off a reconcile that takes longer, and takes it for failed. None is cut off unless called.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// How long to wait for what it watches before giving up; two minutes unless called.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.course.sync_timeout = limit;
        self
    }

    /// How long a key waits for the cache to show what was [written](crate::Context::wrote) under it. It is not reconciled before,
    /// and takes no worker meanwhile; after that time it is reconciled all the same, and counted in
    /// `dogwatch_controller_stale_reads_total`. Defaults to 30 s.
    pub fn consistency_wait(mut self, limit: Duration) -> Self {
        self.consistency_wait = limit;
        self
    }

    /// How long queued and running reconciles may go on after a stop; then they are cut off. Half a minute unless called.
    pub fn grace(mut self, limit: Duration) -> Self {
        self.course.grace = limit;
        self
    }

    /// After a stop, ends what is being worked on and leaves what is queued. Unless called, what is queued is worked off too.
    pub fn abandon_queue_on_stop(mut self) -> Self {
        self.course.abandon = true;
        self
    }

    /// Works whether its manager leads or not. Unless called, a manager with leader election lets it work only while it leads.
    pub fn without_leading(mut self) -> Self {
        self.as_leader = false;
        self
    }

    /// The controller, not running.
    pub fn build<R: Reconciler<K>>(self, reconciler: R) -> Controller {
        let name: Arc<str> = self.name.into();
        let metrics = ControllerMetrics::new(&name, self.course.workers);
        let machine = Machine {
            queue: self.queue.name(&*name).earliest_wins().build(),
            kinds: self.sources.iter().map(|it| it.kind().clone()).collect(),
            sources: self.sources,
            reconciler,
            needs: self.needs,
            guard: Guard::new(self.consistency_wait, metrics.overdue.clone()),
            shards: self.shards,
            timeout: self.timeout,
            metrics,
            abandoned: AtomicBool::new(false),
            name,
        };
        Controller::new(machine, self.streams, self.course, self.as_leader)
    }
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers: Vec<_> = self.sources.iter().map(|it| it.cache().name()).collect();
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("informers", &informers)
            .field("course", &self.course)
            .finish_non_exhaustive()
    }
}
