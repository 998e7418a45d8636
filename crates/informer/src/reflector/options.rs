//! The options of a reflector. The defaults are client-go's, except where those have caused
//! problems in practice.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{FieldSelector, LabelSelector, Selectors};

use crate::backoff::BackoffOptions;

/// The default and shortest value of the minimal watch timeout. A watch ends after a random time
/// between one and two times the minimum (rule REF-4), as client-go's do (`defaultMinWatchTimeout`
/// in `tools/cache/reflector.go`).
pub(super) const LEAST_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// A function that changes objects before they are stored, for example to drop fields that no
/// reader needs.
///
/// Name, namespace, uid and version must not change. It may be called more than once for the same
/// object. If it panics, the object is lost and reported as one that cannot be decoded.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_informer::Transform;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let slim: Transform<ConfigMap> = Arc::new(|mut map| {
///     map.metadata.managed_fields = None;
///     map
/// });
/// assert_eq!(slim(ConfigMap::default()), ConfigMap::default());
/// ```
pub type Transform<T> = Arc<dyn Fn(T) -> T + Send + Sync>;

/// The options of a [`Reflector`](crate::Reflector).
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::builder(Api::<ConfigMap>::all(client))
///     .reflector(|it| it.without_watch_list().page_size(100).resync_every(Duration::from_secs(600)))
///     .build();
/// maps.start();
/// maps.synced().await?;
/// assert!(server.requests().verb("list").resource("configmaps").count() > 0);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct ReflectorOptions<T> {
    /// The name in logs and metrics. Defaults to the plural of the resource.
    pub name: Option<String>,
    /// Selects objects by labels, by fields and by shard.
    pub selectors: Selectors,
    /// The page size of every list. `None` follows rule REF-2: pages of 500 objects, except where
    /// the server answers from its cache.
    pub page_size: Option<u32>,
    /// Set to start with a watch that sends initial events (WatchList), and to list only if that
    /// fails. True by default.
    pub watch_list: bool,
    /// The required freshness of the initial state.
    pub start: Start,
    /// The minimal timeout of watches: they end after a random time between one and two times this.
    /// The shortest value is five minutes.
    pub min_watch_timeout: Duration,
    /// The resync interval; `None` disables resyncs.
    pub resync: Option<Duration>,
    /// The backoff after failures.
    pub backoff: BackoffOptions,
    /// The time for which a watch that the server ends with an internal error is simply opened
    /// again; with `None` the collection is listed again instead (rule REF-6).
    pub internal_error_retry: Option<Duration>,
    /// The silence after which a connection is given up. Servers send a bookmark about once a
    /// minute, so silence means a dead connection or a broken server. `None` waits for ever.
    /// Defaults to four minutes.
    pub stall_after: Option<Duration>,
    /// The policy for a collection that the server does not serve.
    pub not_found: NotFound,
    /// The seed of the random numbers for jitter and watch timeouts. `None` chooses a random one.
    pub seed: Option<u64>,
    /// Changes objects before they are stored.
    pub transform: Option<Transform<T>>,
    /// The type of the transform if it has no state: two of the same type are then the same.
    pub(crate) transform_type: Option<TypeId>,
}

/// The required freshness of the initial state. Later states are never older than what was seen
/// before.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{SharedInformer, Start};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// // The cheapest start: any state in the server's cache will do.
/// let maps = SharedInformer::builder(Api::<ConfigMap>::all(client))
///     .reflector(|it| it.start(Start::Cached))
///     .build();
/// maps.start();
/// maps.synced().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// As new as the request, if the server can stream it; a server that cannot answers a list from
    /// its cache, which may be slightly stale (rule REF-1).
    #[default]
    Consistent,
    /// Any state in the server's cache: the cheapest, and possibly older than what an earlier
    /// process saw.
    Cached,
    /// As new as the request, always. On a server that cannot stream, each replica that starts
    /// reads from storage.
    Newest,
}

/// The policy for a collection that is not found: its definition is not installed yet, or was
/// removed.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_core::{Gvk, ResourceType};
/// use dogwatch_informer::{NotFound, SharedInformer};
/// use kube_core::DynamicObject;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// // Wait for a definition that another program installs, however long that takes.
/// let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
/// let informer = SharedInformer::builder(Api::<DynamicObject>::dynamic(client, widgets))
///     .reflector(|it| it.not_found(NotFound::KeepTrying))
///     .build();
/// informer.start();
/// assert!(informer.synced_within(Duration::ZERO).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFound {
    /// Retry for ever.
    KeepTrying,
    /// Retry, and end with [`ReflectorEnded::Gone`](crate::ReflectorEnded::Gone) if every answer
    /// was a 404 for this long and the server's discovery confirms that the collection is not
    /// served ([`ListWatch::is_served`](crate::ListWatch::is_served)). If the source cannot ask
    /// discovery, the 404 must carry a `Status`: plain text may come from a proxy.
    ///
    /// The known objects are kept; the reader of the queue decides what happens to them.
    GoneAfter(Duration),
}

impl Default for NotFound {
    /// Two minutes: starting servers, and proxies in front of them, answer 404 for a while.
    fn default() -> Self {
        Self::GoneAfter(Duration::from_secs(120))
    }
}

impl<T> ReflectorOptions<T> {
    /// Sets all selectors at once; [`Self::labels`], [`Self::fields`] and [`Self::shard`] set one.
    #[must_use]
    pub fn selectors(mut self, selectors: Selectors) -> Self {
        self.selectors = selectors;
        self
    }

    /// Selects objects by their labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.selectors.labels = labels;
        self
    }

    /// Selects objects by their fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.selectors.fields = fields;
        self
    }

    /// Selects the objects of one shard.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.selectors.shard = Some(selector.into());
        self
    }

    /// Sets the name in logs and metrics.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the page size of every list; 0 follows rule REF-2.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = (objects > 0).then_some(objects);
        self
    }

    /// Disables initial events: the collection is always read by a list.
    #[must_use]
    pub fn without_watch_list(mut self) -> Self {
        self.watch_list = false;
        self
    }

    /// Sets the required freshness of the initial state.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets the minimal timeout of watches.
    #[must_use]
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout;
        self
    }

    /// Sets the resync interval; zero disables resyncs.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// Sets the backoff after failures.
    #[must_use]
    pub fn backoff(mut self, backoff: BackoffOptions) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the time for which a watch that ends with an internal error is simply opened again;
    /// zero lists the collection again instead.
    #[must_use]
    pub fn internal_error_retry(mut self, window: Duration) -> Self {
        self.internal_error_retry = (!window.is_zero()).then_some(window);
        self
    }

    /// Sets the silence after which a connection is given up; zero, or `None`, waits for ever.
    #[must_use]
    pub fn stall_after(mut self, silence: impl Into<Option<Duration>>) -> Self {
        self.stall_after = silence.into().filter(|it| !it.is_zero());
        self
    }

    /// Sets the policy for a collection that is not served.
    #[must_use]
    pub fn not_found(mut self, policy: NotFound) -> Self {
        self.not_found = policy;
        self
    }

    /// Sets the seed of the random numbers, so that a test is reproducible. Random by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Changes objects before they are stored; see [`Transform`] for its contract.
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
            selectors: Selectors::default(),
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
            selectors: self.selectors.clone(),
            transform: self.transform.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for ReflectorOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorOptions")
            .field("name", &self.name)
            .field("selectors", &self.selectors)
            .field("watch_list", &self.watch_list)
            .field("start", &self.start)
            .field("resync", &self.resync)
            .field("not_found", &self.not_found)
            .field("transform", &self.transform.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_none_disable_the_limit_of_silence() {
        let options = ReflectorOptions::<()>::default();
        assert!(options.stall_after.is_some());
        assert_eq!(options.clone().stall_after(None).stall_after, None);
        assert_eq!(options.clone().stall_after(Duration::ZERO).stall_after, None);
        let minute = Duration::from_secs(60);
        assert_eq!(options.clone().stall_after(minute).stall_after, Some(minute));
        assert_eq!(options.stall_after(Some(minute)).stall_after, Some(minute));
    }
}
