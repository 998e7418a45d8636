//! What one may choose about an informer before it starts.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{FieldSelector, Gvr, LabelSelector, Object};
use tokio::sync::mpsc;

use super::core::Core;
use super::coverage::Coverage;
use super::feed::Feed;
use super::pump::{OnGone, Pump};
use super::shared::SharedInformer;
use crate::fan_out::{FanOut, Shared};
use crate::health_watch::Healths;
use crate::index::Index;
use crate::list_watch::ListWatch;
use crate::metrics::InformerMetrics;
use crate::queue::DeltaQueue;
use crate::reflector::{ReflectorOptions, Start};
use crate::store::StoreWriter;

/// How long after a collection was found to be gone it is asked for again.
const REVIVE_AFTER: Duration = Duration::from_secs(30);

/// How long a stop waits for handlers to work off what waits for them.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// The part of an informer's settings that decides what is in its store. Two informers of one client with equal contents are one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contents {
    resource: Gvr,
    /// In order; empty for all.
    namespaces: Vec<String>,
    labels: String,
    fields: String,
    shard_selector: Option<String>,
    start: Start,
    transform: Option<TransformIdentity>,
}

/// Which function objects go through.
#[derive(Debug, PartialEq, Eq, Hash)]
enum TransformIdentity {
    /// One without state: its type is its identity.
    Stateless(TypeId),
    /// One with state, by its address. An informer keeps it, so no other has the address while the informer lives.
    At(usize),
}

/// Makes a [`SharedInformer`].
#[must_use]
pub struct InformerBuilder<T: Object> {
    sources: Vec<Arc<dyn ListWatch<T>>>,
    name: Option<String>,
    reflector: ReflectorOptions<T>,
    indexes: Vec<Index<T>>,
    resync_every: Option<Duration>,
    queue_capacity: usize,
    revive_after: Option<Duration>,
    on_gone: OnGone,
    stop_grace: Duration,
}

impl<T: Object> SharedInformer<T> {
    /// An informer of this collection with the usual options, not started.
    pub fn new(source: impl ListWatch<T>) -> Self {
        Self::builder(source).build()
    }

    /// An informer of this collection, to be adjusted. What it holds is what the source reads: whole objects, a view,
    /// metadata only.
    pub fn builder(source: impl ListWatch<T>) -> InformerBuilder<T> {
        InformerBuilder {
            sources: vec![Arc::new(source)],
            name: None,
            reflector: ReflectorOptions::default(),
            indexes: Vec::new(),
            resync_every: None,
            queue_capacity: DeltaQueue::CAPACITY,
            revive_after: Some(REVIVE_AFTER),
            on_gone: OnGone::default(),
            stop_grace: STOP_GRACE,
        }
    }
}

impl<T: Object> InformerBuilder<T> {
    /// Another namespace of the same collection: all of them are read each by itself, and are one informer. Its version is that of
    /// the namespace that is furthest behind.
    ///
    /// # Panics
    /// When this source, or one before it, is not of one namespace, or of one that another is of.
    pub fn also(mut self, source: impl ListWatch<T>) -> Self {
        let namespace = source.namespace();
        let known = |it: &Arc<dyn ListWatch<T>>| it.namespace().is_none() || it.namespace() == namespace;
        assert!(
            namespace.is_some() && !self.sources.iter().any(known),
            "each source of an informer must be a namespace of its own"
        );
        self.sources.push(Arc::new(source));
        self
    }

    /// Sets what it is called in metrics, logs and errors. Defaults to the plural of its resource; a factory puts a number behind that
    /// where an informer of this name exists. Without a factory, give two informers of one resource different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only objects with these labels.
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.reflector = self.reflector.labels(labels);
        self
    }

    /// Only objects with these fields.
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.reflector = self.reflector.fields(fields);
        self
    }

    /// Adds an index to the store. Of two with one name the first counts.
    pub fn index(mut self, index: Index<T>) -> Self {
        self.indexes.push(index);
        self
    }

    /// Tells every handler that does not say otherwise of every object again this often, as an update in which nothing changed; at
    /// most once a second. Off unless called.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = Some(period.max(Duration::from_secs(1)));
        self
    }

    /// Changes objects before anybody sees them, for example to drop what nobody reads. Key, uid and version must stay as they are.
    pub fn transform<F: Fn(T) -> T + Send + Sync + 'static>(mut self, transform: F) -> Self {
        self.reflector = self.reflector.transform(transform);
        self
    }

    /// How many changes may wait between the server and the store before reading stops, and how many are applied at once.
    /// [`DeltaQueue::CAPACITY`] unless called.
    pub fn queue_capacity(mut self, deltas: usize) -> Self {
        self.queue_capacity = deltas.max(1);
        self
    }

    /// Sets how long after the collection was found not to be served, as when its definition was removed, it is asked for again.
    /// Defaults to half a minute; with `None` the informer stops instead. How soon it is found to be gone is up to
    /// [`ReflectorOptions::not_found`], and what becomes of its objects to [`Self::on_gone`].
    pub fn revive_after(mut self, wait: Option<Duration>) -> Self {
        self.revive_after = wait;
        self
    }

    /// Sets what becomes of the objects of a collection that the server does not serve any more. Defaults to [`OnGone::Keep`].
    pub fn on_gone(mut self, policy: OnGone) -> Self {
        self.on_gone = policy;
        self
    }

    /// Sets how long [`SharedInformer::stop`] waits for handlers to work off what waits for them; what is left then is dropped.
    /// Defaults to half a minute.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Adjusts how the collection is read: pages, streamed lists, patience, back-off.
    pub fn reflector(mut self, adjust: impl FnOnce(ReflectorOptions<T>) -> ReflectorOptions<T>) -> Self {
        self.reflector = adjust(self.reflector);
        self
    }

    /// Where it has no name yet, gives it one that is not among these. Warns where its name is.
    pub(crate) fn named_apart_from(mut self, taken: &BTreeSet<String>) -> Self {
        match &self.name {
            Some(name) if taken.contains(name) => {
                tracing::warn!(
                    informer = name,
                    "two informers have one name; their metrics are not told apart"
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

    /// What tells this informer from others, as far as it decides what is in the store.
    pub(crate) fn contents(&self) -> Contents {
        let ReflectorOptions { labels, fields, shard_selector, start, transform, transform_type, .. } =
            &self.reflector;
        let mut namespaces: Vec<_> =
            self.sources.iter().filter_map(|it| it.namespace().map(str::to_owned)).collect();
        namespaces.sort_unstable();
        Contents {
            resource: self.sources[0].resource().gvr(),
            namespaces,
            labels: labels.to_string(),
            fields: fields.to_string(),
            shard_selector: shard_selector.clone(),
            start: *start,
            transform: transform.as_ref().map(|it| match transform_type {
                Some(stateless) => TransformIdentity::Stateless(*stateless),
                None => TransformIdentity::At(Arc::as_ptr(it).cast::<()>() as usize),
            }),
        }
    }

    /// The indexes asked for.
    pub(crate) fn into_indexes(self) -> Vec<Index<T>> {
        self.indexes
    }

    /// The informer, not started.
    pub fn build(self) -> SharedInformer<T> {
        let resource = self.sources[0].resource().clone();
        let name = self.name.unwrap_or_else(|| resource.plural.to_string());
        let mut options = self.reflector;
        options.name.get_or_insert_with(|| name.clone());
        // Handlers have periods of their own; nothing has to travel through the queue for them.
        options.resync = None;

        let writer = match &*self.sources {
            [_] => StoreWriter::new(),
            several => StoreWriter::of_namespaces(several.iter().filter_map(|it| it.namespace())),
        };
        let store = writer.store();
        for index in self.indexes {
            if let Err(error) = store.add_index(index) {
                tracing::warn!(informer = name, %error, "an index was left out");
            }
        }
        let coverage = Coverage::new(&self.sources, &options);
        let feed = |source| Feed::new(source, options.clone(), self.queue_capacity);
        let feeds: Vec<_> = self.sources.into_iter().map(feed).collect();
        let healths = Healths::new(feeds.iter().map(Feed::health).collect());
        let members = Shared::new(InformerMetrics::new(&name, &resource), self.resync_every);
        let fan_out = FanOut::new(members.hasher.clone());
        let (joins, joining) = mpsc::unbounded_channel();
        let core = Core::new(name, resource, coverage, store, members, joins, healths);
        let pump = Pump {
            feeds,
            writer,
            fan_out,
            joins: joining,
            batch: self.queue_capacity,
            revive_after: self.revive_after,
            on_gone: self.on_gone,
            stop_grace: self.stop_grace,
        };
        SharedInformer::from_parts(Arc::new(core), pump)
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
