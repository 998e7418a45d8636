//! What one may choose about a reflector. The defaults are client-go's, except where its users were hurt by them.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{FieldSelector, LabelSelector};

use crate::backoff::BackoffOptions;

/// Watches end after between one and two times this, by chance; servers drop longer ones anyway (rule REF-4).
pub(super) const LEAST_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// Changes objects before anybody sees them, for example to drop what nobody reads.
///
/// Name, namespace, uid and version must stay as they are. It may see one object more than once. One that panics loses the object
/// it was given, which is reported as one that cannot be decoded.
pub type Transform<T> = Arc<dyn Fn(T) -> T + Send + Sync>;

/// What one may choose about a [`Reflector`](crate::Reflector).
#[non_exhaustive]
pub struct ReflectorOptions<T> {
    /// What it is called in logs and metrics; the plural of the resource unless given.
    pub name: Option<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// Only the objects of one shard, in the server's own words (alpha in Kubernetes 1.36).
    pub shard_selector: Option<String>,
    /// Objects a page of every list. `None` leaves it to rule REF-2: pages of 500, except where the server answers from memory.
    pub page_size: Option<u32>,
    /// Whether to begin with a watch that sends what is there first (WatchList), and to list only where that fails.
    pub watch_list: bool,
    /// How fresh the first state must be.
    pub start: Start,
    /// Watches end after between one and two times this, by chance. Less than five minutes counts as five.
    pub min_watch_timeout: Duration,
    /// How often handlers are told of every object again; `None` is never.
    pub resync: Option<Duration>,
    /// How waits after failures grow.
    pub backoff: BackoffOptions,
    /// For how long a watch that the server ends with an internal error is simply opened again; `None` reads the collection anew
    /// instead (rule REF-6).
    pub internal_error_retry: Option<Duration>,
    /// A connection that is silent for this long is given up. Servers send a bookmark about once a minute, so silence means a
    /// dead connection or a server that has lost its way. `None` waits for ever.
    pub stall_after: Option<Duration>,
    /// What to do about a collection that the server does not serve.
    pub not_found: NotFound,
    /// Decides what is left to chance: by how much waits differ, and when watches end. `None` is never the same twice.
    pub seed: Option<u64>,
    /// Changes objects before anybody sees them.
    pub transform: Option<Transform<T>>,
    /// The type of the transform, where it has no state: two of one type are then the same.
    pub(crate) transform_type: Option<TypeId>,
}

/// How fresh the first state must be. Later ones are never older than what was seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// As new as the moment of asking, where the server can stream it; a server that cannot answers a list from its cache, which may be
    /// a little behind (rule REF-1).
    #[default]
    Consistent,
    /// Whatever the server has at hand: the cheapest, and possibly older than what an earlier process saw.
    Cached,
    /// As new as the moment of asking, always; on a server that cannot stream it, each replica that starts reads from its storage.
    Newest,
}

/// The policy for a collection that is not found: its definition is not installed yet, or was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFound {
    /// Ask again for ever.
    KeepTrying,
    /// Ask again, and end as [`Ended::Gone`](crate::Ended::Gone) when nothing but 404 came for this long and the server's discovery
    /// confirms that the collection is not served ([`ListWatch::is_served`](crate::ListWatch::is_served)). A source that cannot ask
    /// discovery needs an answer with a `Status`: plain text may be from anything between here and the server.
    ///
    /// What was known is kept; the reader of the queue decides what becomes of it.
    GoneAfter(Duration),
}

impl Default for NotFound {
    /// Two minutes: servers that start, and proxies before servers that do, answer 404 for a while.
    fn default() -> Self {
        Self::GoneAfter(Duration::from_secs(120))
    }
}

impl<T> ReflectorOptions<T> {
    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
        self
    }

    /// Only the objects of one shard.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.shard_selector = Some(selector.into());
        self
    }

    /// What it is called in logs and metrics.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Objects a page, in every list; 0 leaves it to rule REF-2.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = (objects > 0).then_some(objects);
        self
    }

    /// Lists, and never asks a watch for what is there.
    #[must_use]
    pub fn without_watch_list(mut self) -> Self {
        self.watch_list = false;
        self
    }

    /// How fresh the first state must be.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// How long watches last at least.
    #[must_use]
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout;
        self
    }

    /// Tells handlers of every object again, each time this has passed.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// How waits after failures grow.
    #[must_use]
    pub fn backoff(mut self, backoff: BackoffOptions) -> Self {
        self.backoff = backoff;
        self
    }

    /// For how long internal errors of a watch are met by opening it again.
    #[must_use]
    pub fn internal_error_retry(mut self, window: Duration) -> Self {
        self.internal_error_retry = (!window.is_zero()).then_some(window);
        self
    }

    /// After which silence a connection is given up; `None` waits for ever.
    #[must_use]
    pub fn stall_after(mut self, silence: Option<Duration>) -> Self {
        self.stall_after = silence;
        self
    }

    /// What to do about a collection that is not served.
    #[must_use]
    pub fn not_found(mut self, policy: NotFound) -> Self {
        self.not_found = policy;
        self
    }

    /// Has the same chances each time, so that a test can be repeated. Different each time unless called.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Changes objects before anybody sees them; see [`Transform`] for what it may do.
    #[must_use]
    pub fn transform<F: Fn(T) -> T + Send + Sync + 'static>(mut self, transform: F) -> Self {
        self.transform_type = (size_of::<F>() == 0).then(TypeId::of::<F>);
        self.transform = Some(Arc::new(transform));
        self
    }
}

impl<T> Default for ReflectorOptions<T> {
    fn default() -> Self {
        Self {
            name: None,
            labels: LabelSelector::everything(),
            fields: FieldSelector::everything(),
            shard_selector: None,
            page_size: None,
            watch_list: true,
            start: Start::default(),
            min_watch_timeout: LEAST_WATCH_TIMEOUT,
            resync: None,
            backoff: BackoffOptions::default(),
            internal_error_retry: None,
            stall_after: Some(Duration::from_secs(240)),
            not_found: NotFound::default(),
            seed: None,
            transform: None,
            transform_type: None,
        }
    }
}

impl<T> Clone for ReflectorOptions<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            shard_selector: self.shard_selector.clone(),
            transform: self.transform.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for ReflectorOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorOptions")
            .field("name", &self.name)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("watch_list", &self.watch_list)
            .field("start", &self.start)
            .field("resync", &self.resync)
            .field("not_found", &self.not_found)
            .field("transform", &self.transform.is_some())
            .finish_non_exhaustive()
    }
}
