//! The source of an informer: a list and a watch of one collection. [`Api`] implements it; tests
//! use scripted sources.
//!
//! A source does not retry, resume or fall back: the reflector does.

use dogwatch_client::{Api, Error, ListEvent};
use dogwatch_core::{FieldSelector, ListParams, ResourceType, ResourceVersion, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde::de::{DeserializeOwned, IgnoredAny};

/// A list as it arrives. It ends with [`ListEvent::End`] or with an error. Dropping it cancels the
/// request.
///
/// ```
/// use dogwatch_core::ResourceVersion;
/// use dogwatch_informer::{ListEvent, Lists};
/// use futures_util::{StreamExt, stream};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let end = ListEvent::End { version: ResourceVersion::new("7"), paginated: false };
/// let map = ListEvent::Item(ConfigMap::default());
/// let list: Lists<ConfigMap> = stream::iter([Ok(map), Ok(end)]).boxed();
/// # let _ = list;
/// ```
pub type Lists<T> = BoxStream<'static, Result<ListEvent<T>, Error>>;

/// The events of one watch, as [`WatchStream`](dogwatch_client::WatchStream) yields them. Dropping
/// it closes the watch.
///
/// ```
/// use dogwatch_informer::Watches;
/// use dogwatch_wire::WatchEvent;
/// use futures_util::{StreamExt, stream};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let added = WatchEvent::Added(ConfigMap::default());
/// let watch: Watches<ConfigMap> = stream::iter([Ok(added)]).chain(stream::pending()).boxed();
/// # let _ = watch;
/// ```
pub type Watches<T> = BoxStream<'static, Result<WatchEvent<T>, Error>>;

/// A collection that can be listed and watched.
///
/// ```
/// # use dogwatch_client::Error;
/// # use dogwatch_core::{ListParams, ResourceType, ResourceVersion, Scope, WatchParams};
/// # use futures_util::future::{BoxFuture, ready};
/// # use futures_util::{FutureExt, StreamExt, stream};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use dogwatch_informer::{ListEvent, ListWatch, Lists, SharedInformer, Watches};
///
/// /// A collection for tests: it is empty and never changes.
/// struct Empty(ResourceType);
///
/// impl ListWatch<ConfigMap> for Empty {
///     fn resource(&self) -> &ResourceType {
///         &self.0
///     }
///     fn list(&self, _: ListParams) -> Lists<ConfigMap> {
///         let end = ListEvent::End { version: ResourceVersion::new("1"), paginated: false };
///         stream::iter([Ok(end)]).boxed()
///     }
///     fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<ConfigMap>, Error>> {
///         ready(Ok(stream::pending().boxed())).boxed()
///     }
/// #   fn lacks_initial_events(&self) -> bool { true }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let source = Empty(ResourceType::of::<ConfigMap>(&(), Scope::Namespaced));
/// # let maps = SharedInformer::new(source);
/// # maps.start();
/// # maps.synced().await?;
/// # assert!(maps.store().is_empty());
/// # Ok(())
/// # }
/// ```
pub trait ListWatch<T>: Send + Sync + 'static {
    /// Returns the resource type of the collection, for messages and metrics.
    fn resource(&self) -> &ResourceType;

    /// Returns the namespace, if the source reads a single one. An empty one is the same as none.
    fn namespace(&self) -> Option<&str> {
        None
    }

    /// Lists the collection. If the parameters have a limit, all pages are read (rule PG-1).
    fn list(&self, params: ListParams) -> Lists<T>;

    /// Opens a watch.
    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<T>, Error>>;

    /// Returns true if the source is known not to send initial events on a watch, as for test
    /// doubles. A server need not be known in advance: if it rejects the request, the reflector
    /// lists instead.
    fn lacks_initial_events(&self) -> bool {
        false
    }

    /// Returns the version of the server's newest state, read with one small request. Returns
    /// `None`, the default, if the source does not support this.
    ///
    /// A reflector calls it before it resumes a watch on a new connection: a server that was
    /// restarted with an older state would accept the watch and stay silent. The answer must not
    /// come from a cache that may be stale.
    fn newest_version(
        &self,
        fields: FieldSelector,
    ) -> BoxFuture<'static, Result<Option<ResourceVersion>, Error>> {
        let _ = fields;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Asks the server's discovery whether it serves the collection. Returns `None`, the default,
    /// if the source cannot know.
    ///
    /// A reflector calls it after the collection was not found for a while. Only an answer from the
    /// server itself counts: a proxy, or a server that has just started, answers 404 too.
    fn is_served(&self) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Returns the namespace of a source; `None` if it reads all.
pub(crate) fn namespace_of<T>(source: &(impl ListWatch<T> + ?Sized)) -> Option<&str> {
    source.namespace().filter(|it| !it.is_empty())
}

impl<T: DeserializeOwned + Send + 'static> ListWatch<T> for Api<T> {
    fn resource(&self) -> &ResourceType {
        Api::resource(self)
    }

    fn namespace(&self) -> Option<&str> {
        Api::namespace(self)
    }

    fn list(&self, params: ListParams) -> Lists<T> {
        Box::pin(self.list_stream(&params))
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<T>, Error>> {
        let api = self.clone();
        Box::pin(async move { Ok(Box::pin(Api::watch(&api, &params).await?) as Watches<T>) })
    }

    fn newest_version(
        &self,
        fields: FieldSelector,
    ) -> BoxFuture<'static, Result<Option<ResourceVersion>, Error>> {
        // The first object is not decoded, whatever its type is. Without a resourceVersion
        // parameter the server must answer with its newest state, not from a stale cache.
        let api = self.reading::<IgnoredAny>();
        let params = ListParams::default().fields(fields).limit(1);
        Box::pin(async move {
            let version = api.list(&params).await?.metadata.version;
            Ok(Some(version).filter(ResourceVersion::is_exact))
        })
    }

    fn is_served(&self) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        let (client, resource) = (self.client().clone(), Api::resource(self).gvr());
        Box::pin(async move {
            let discovery = client.discover().await?;
            let served = discovery.by_resource(&resource).is_some();
            // A group whose resources could not be read may contain it. An answer without any group
            // is not that of a complete server.
            let unknown = discovery.groups.is_empty()
                || discovery.failures.iter().any(|it| it.group.as_str() == resource.group.as_str());
            Ok(if served || !unknown { Some(served) } else { None })
        })
    }
}
