//! The builder of an informer, with its options.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{FieldSelector, Gvr, LabelSelector, Object, Selectors};
use parking_lot::Mutex;

use super::coverage::Coverage;
use super::feed::Feed;
use super::inbox::subscription_channel;
use super::pump::{OnGone, Pump};
use super::shared_informer::SharedInformer;
use super::shared_state::{Queues, SharedState};
use crate::fan_out::FanOut;
use crate::health_watch::CombinedHealth;
use crate::history::SyncHistory;
use crate::index::Index;
use crate::list_watch::{ListWatch, namespace_of};
use crate::metrics::InformerMetrics;
use crate::queue::DeltaQueue;
use crate::reflector::{ReflectorOptions, Start};
use crate::registration::resync_period;
use crate::store::{Measure, StoreWriter};
use crate::subscription::HandlerContext;

/// The default wait before a collection that is gone is asked for again.
const RETRY_NOT_SERVED_AFTER: Duration = Duration::from_secs(30);

/// The default time that a stop waits for handlers to process their pending changes.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// The part of an informer's settings that determines the contents of its store. A factory shares
/// one informer between requests with equal contents and the same client.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contents {
    resource: Gvr,
    /// Sorted; empty for all namespaces.
    namespaces: Vec<String>,
    selectors: Selectors,
    start: Start,
    transform: Option<TransformIdentity>,
}

/// The identity of the transform function.
#[derive(Debug, PartialEq, Eq, Hash)]
enum TransformIdentity {
    /// A function without state: its type is its identity.
    Stateless(TypeId),
    /// A function with state, by its address. The informer keeps the function, so no other one can
    /// have this address while the informer exists.
    At(usize),
}

/// Builds a [`SharedInformer`].
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{Index, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml =
/// #     "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {app: web}}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::builder(Api::<ConfigMap>::all(client))
///     .name("web-maps")
///     .labels("app".parse()?)
///     .index(Index::label("app"))
///     .transform(|mut map: ConfigMap| {
///         map.metadata.managed_fields = None;
///         map
///     })
///     .build();
/// maps.start();
/// maps.synced().await?;
/// assert_eq!(maps.store().by_index("app", "web")?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct InformerBuilder<T: Object> {
    sources: Vec<Arc<dyn ListWatch<T>>>,
    name: Option<String>,
    reflector: ReflectorOptions<T>,
    indexes: Vec<Index<T>>,
    resync_every: Option<Duration>,
    queue_capacity: usize,
    measure: Option<Measure<T>>,
    retry_not_served_after: Option<Duration>,
    on_gone: OnGone,
    shutdown_timeout: Duration,
}

impl<T: Object> SharedInformer<T> {
    /// Creates an informer of this collection with default options. It is not started.
    pub fn new(source: impl ListWatch<T>) -> Self {
        Self::builder(source).build()
    }

    /// Creates a builder for an informer of this collection. The source determines what the
    /// informer holds: whole objects, a view, or metadata only.
    pub fn builder(source: impl ListWatch<T>) -> InformerBuilder<T> {
        InformerBuilder {
            sources: vec![Arc::new(source)],
            name: None,
            reflector: ReflectorOptions::default(),
            indexes: Vec::new(),
            measure: None,
            resync_every: None,
            queue_capacity: DeltaQueue::CAPACITY,
            retry_not_served_after: Some(RETRY_NOT_SERVED_AFTER),
            on_gone: OnGone::default(),
            shutdown_timeout: SHUTDOWN_TIMEOUT,
        }
    }
}

impl<T: Object> InformerBuilder<T> {
    /// Adds another namespace of the same collection. Each namespace is listed and watched
    /// separately, and all of them form one informer. Its version is the oldest version of its
    /// namespaces.
    ///
    /// # Panics
    /// Panics if this source or an earlier one is not restricted to a namespace, or if two sources
    /// have the same namespace.
    pub fn add_source(mut self, source: impl ListWatch<T>) -> Self {
        let namespace = namespace_of(&source);
        let known = |it: &Arc<dyn ListWatch<T>>| {
            let of = namespace_of(&**it);
            of.is_none() || of == namespace
        };
        assert!(
            namespace.is_some() && !self.sources.iter().any(known),
            "each source of an informer must have a namespace of its own"
        );
        self.sources.push(Arc::new(source));
        self
    }

    /// Sets the name in metrics, logs and errors.
    ///
    /// Defaults to the plural of the resource; a factory appends a number if an informer of this
    /// name exists. Without a factory, give two informers of one resource different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Selects objects by their labels.
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.reflector = self.reflector.labels(labels);
        self
    }

    /// Selects objects by their fields.
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.reflector = self.reflector.fields(fields);
        self
    }

    /// Adds an index to the store. If two have the same name, the first one is used.
    pub fn index(mut self, index: Index<T>) -> Self {
        self.indexes.push(index);
        self
    }

    /// Delivers every object again to the handlers at this interval, as an update in which nothing
    /// changed. The shortest interval is one second; zero disables resyncs. A handler may have an
    /// interval of its own. Off by default.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = resync_period(period);
        self
    }

    /// Changes objects before they are stored, for example to drop fields that no reader needs.
    /// Key, uid and version must not change.
    pub fn transform<F: Fn(T) -> T + Send + Sync + 'static>(mut self, transform: F) -> Self {
        self.reflector = self.reflector.transform(transform);
        self
    }

    /// Measures the memory of each object with this function, for
    /// [`Store::memory`](crate::Store::memory) and the metric `informer_store_bytes`. Packed
    /// objects are measured without it.
    ///
    /// It is called for the old and the new state at every change, must return the same for the
    /// same object, and counts nothing if it panics. A factory that already has the informer
    /// ignores it.
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
    /// # let mut map = ConfigMap::default();
    /// # map.metadata.name = Some("settings".to_owned());
    /// # map.data = Some([("text".to_owned(), "x".repeat(200))].into());
    /// # Api::default_namespaced(client.clone()).create(&Default::default(), &map).await?;
    /// // The values are nearly all of the memory of these objects.
    /// let memory = |map: &ConfigMap| map.data.iter().flatten().map(|(_, value)| value.len()).sum();
    /// let maps = SharedInformer::builder(Api::<ConfigMap>::all(client)).measure(memory).build();
    /// maps.start();
    /// maps.synced().await?;
    /// assert!(maps.store().memory() > Some(100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn measure<F: Fn(&T) -> usize + Send + Sync + 'static>(mut self, measure: F) -> Self {
        self.measure = Some(Arc::new(move |object| {
            std::panic::catch_unwind(AssertUnwindSafe(|| measure(object))).unwrap_or_default()
        }));
        self
    }

    /// Sets the maximal number of deltas that wait between the server and the store before reading
    /// stops, and that are applied at once. Defaults to [`DeltaQueue::CAPACITY`].
    pub fn queue_capacity(mut self, deltas: usize) -> Self {
        self.queue_capacity = deltas.max(1);
        self
    }

    /// Sets the time after which a collection that the server did not serve, for example because
    /// its definition was removed, is asked for again.
    ///
    /// Defaults to 30 s; with zero, or `None`, the informer stops instead.
    /// [`ReflectorOptions::not_found`] decides when a collection counts as gone, and
    /// [`Self::on_gone`] what happens to its objects.
    pub fn retry_not_served_after(mut self, wait: impl Into<Option<Duration>>) -> Self {
        self.retry_not_served_after = wait.into().filter(|it| !it.is_zero());
        self
    }

    /// Sets what happens to the objects of a collection that the server does not serve any more.
    /// Defaults to [`OnGone::Keep`].
    pub fn on_gone(mut self, policy: OnGone) -> Self {
        self.on_gone = policy;
        self
    }

    /// Sets how long [`SharedInformer::stop`] waits for handlers to process their pending changes;
    /// the rest is then dropped. Defaults to 30 s.
    pub fn shutdown_timeout(mut self, grace: Duration) -> Self {
        self.shutdown_timeout = grace;
        self
    }

    /// Adjusts how the collection is read: pages, streamed lists, timeouts, backoff.
    ///
    /// Labels, fields and transform are the same settings as those of this builder, and the later
    /// call wins. A name set here is used in the reflector's own log lines. The resync interval of
    /// the reflector is not used: see [`Self::resync_every`].
    pub fn reflector(mut self, adjust: impl FnOnce(ReflectorOptions<T>) -> ReflectorOptions<T>) -> Self {
        self.reflector = adjust(self.reflector);
        self
    }

    /// Gives the informer a name that is not in `taken`, if it has none yet. Warns if its own name
    /// is in `taken`.
    pub(crate) fn named_apart_from(mut self, taken: &BTreeSet<String>) -> Self {
        match &self.name {
            Some(name) if taken.contains(name) => {
                tracing::warn!(
                    informer = name,
                    "two informers have the same name, so their metrics are indistinguishable"
                );
            }
            Some(_) => {}
            None => {
                let plural = self.sources[0].resource().plural.to_string();
                let numbered = (2..).map(|number| format!("{plural}-{number}"));
                self.name = std::iter::once(plural.clone()).chain(numbered).find(|it| !taken.contains(it));
            }
        }
        self
    }

    /// Returns the settings that determine the contents of the store.
    pub(crate) fn contents(&self) -> Contents {
        let ReflectorOptions { selectors, start, transform, transform_type, .. } = &self.reflector;
        let mut namespaces: Vec<_> =
            self.sources.iter().filter_map(|it| namespace_of(&**it).map(str::to_owned)).collect();
        namespaces.sort_unstable();
        Contents {
            resource: self.sources[0].resource().gvr(),
            namespaces,
            selectors: selectors.clone(),
            start: *start,
            transform: transform.as_ref().map(|it| match transform_type {
                Some(stateless) => TransformIdentity::Stateless(*stateless),
                None => TransformIdentity::At(Arc::as_ptr(it).cast::<()>() as usize),
            }),
        }
    }

    /// Returns the requested indexes.
    pub(crate) fn into_indexes(self) -> Vec<Index<T>> {
        self.indexes
    }

    /// Builds the informer. It is not started.
    pub fn build(self) -> SharedInformer<T> {
        let resource = self.sources[0].resource().clone();
        let name = self.name.unwrap_or_else(|| resource.plural.to_string());
        let mut options = self.reflector;
        options.name.get_or_insert_with(|| name.clone());
        // Handlers have resync periods of their own; no delta has to travel through the queue for
        // them.
        options.resync = None;

        let writer = match &*self.sources {
            [_] => StoreWriter::new(),
            several => StoreWriter::of_namespaces(several.iter().filter_map(|it| namespace_of(&**it))),
        };
        let writer = writer.measured(self.measure);
        let store = writer.store();
        for index in self.indexes {
            if let Err(error) = store.add_index(index) {
                tracing::warn!(informer = name, %error, "skipping an index");
            }
        }
        let coverage = Coverage::new(&self.sources, &options);
        let (history, capacity) = (SyncHistory::default(), self.queue_capacity);
        let feed = |(source, rewinds)| Feed::new(source, options.clone(), capacity, rewinds, history.clone());
        let feeds: Vec<_> = self.sources.into_iter().zip(writer.rewind_counts()).map(feed).collect();
        let healths = CombinedHealth::new(feeds.iter().map(Feed::health).collect());
        let gauges = Mutex::new(feeds.iter().map(Feed::queue).collect());
        let queues = Queues { gauges, capacity };
        let members = HandlerContext::new(InformerMetrics::new(&name, &resource), self.resync_every);
        let fan_out = FanOut::new(members.hasher.clone());
        let (subscriptions, new_subscriptions) = subscription_channel();
        let state = SharedState::new(
            name,
            resource,
            coverage,
            store,
            members,
            subscriptions,
            healths,
            history,
            queues,
        );
        let pump = Pump {
            feeds,
            writer,
            fan_out,
            subscriptions: new_subscriptions,
            batch: self.queue_capacity,
            retry_not_served_after: self.retry_not_served_after,
            on_gone: self.on_gone,
            shutdown_timeout: self.shutdown_timeout,
        };
        SharedInformer::from_parts(Arc::new(state), pump)
    }
}

impl<T: Object> fmt::Debug for InformerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("name", &self.name)
            .field("reflector", &self.reflector)
            .field("resync_every", &self.resync_every)
            .finish_non_exhaustive()
    }
}
