//! An immutable snapshot of a store, whose answers are all consistent with each other.

use std::fmt;
use std::sync::Arc;

use dogwatch_core::{LabelSelector, Object, ObjectKey, ResourceVersion};

use super::lookup::KeyRange;
use super::state::{StoreState, object_key};
use super::walk::Values;
use crate::index::IndexError;

/// The contents of a store at one version.
///
/// Taking one costs one reference count, whatever the size of the store. While it is held, it keeps
/// the objects of its state in memory, so drop it soon.
///
/// ```
/// use dogwatch_client::Api;
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
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.synced().await?;
/// let snapshot = maps.store().snapshot();
/// assert!(snapshot.get_named(Some("default"), "settings").is_some());
/// // All reads of one snapshot agree.
/// assert_eq!(snapshot.iter().count(), snapshot.len());
/// # Ok(())
/// # }
/// ```
pub struct Snapshot<T> {
    state: Arc<StoreState<T>>,
}

/// A page of consecutive objects, and where the next page starts.
///
/// ```
/// use dogwatch_client::Api;
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
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.synced().await?;
/// let snapshot = maps.store().snapshot();
/// let (mut read, mut after) = (0, None);
/// loop {
///     let page = snapshot.page(after.as_ref(), 100);
///     read += page.objects.len();
///     let Some(next) = page.next else { break };
///     after = Some(next);
/// }
/// assert_eq!(read, snapshot.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The objects, ordered by key.
    pub objects: Vec<Arc<T>>,
    /// The key of the last object if there are more; pass it to get the next page.
    pub next: Option<ObjectKey>,
}

impl<T: Object> Snapshot<T> {
    pub(super) fn new(state: Arc<StoreState<T>>) -> Self {
        Self { state }
    }

    /// Returns the version of the store; unset if the initial list was not complete yet.
    pub fn version(&self) -> &ResourceVersion {
        &self.state.version
    }

    /// Returns true if the initial list was complete.
    pub fn is_synced(&self) -> bool {
        self.state.synced
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.state.objects.len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.state.get(key)
    }

    /// Returns the object with this name. An empty namespace is the same as none.
    pub fn get_named(&self, namespace: Option<&str>, name: &str) -> Option<&Arc<T>> {
        self.state.get_named(namespace, name)
    }

    /// Returns all objects, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        Values::of(self.state.slices(&KeyRange::new(None)))
    }

    /// Returns the objects of one namespace, ordered by name.
    pub fn in_namespace<'s>(&'s self, namespace: &str) -> impl Iterator<Item = &'s Arc<T>> + use<'s, T> {
        Values::of(self.state.slices(&KeyRange::of_namespace(namespace)))
    }

    /// Returns the objects of one namespace, or of all, whose labels match, ordered by key.
    pub fn select(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.state.select(namespace, selector)
    }

    /// Returns the first `limit` objects after this key, ordered by key. A limit of 0 counts as 1.
    pub fn page(&self, after: Option<&ObjectKey>, limit: usize) -> Page<T> {
        let limit = limit.max(1);
        let from = after.map_or(b"".as_slice(), |it| it.as_str().as_bytes());
        let mut rest = self.state.objects.walk_from(from).peekable();
        if after.is_some() {
            rest.next_if(|(key, _)| *key == from);
        }
        let mut objects = Vec::with_capacity(limit.min(self.len()));
        let mut last = after.cloned();
        for (key, object) in rest.by_ref().take(limit) {
            objects.push(object.clone());
            if objects.len() == limit {
                last = Some(object_key(key));
            }
        }
        Page { objects, next: last.filter(|_| rest.peek().is_some()) }
    }

    /// Returns the objects under a value of an index, ordered by key.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        self.state.by_index(index, value)
    }

    /// Returns the keys under a value of an index, in order.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.state.index_keys(index, value)
    }

    /// Returns the values of an index under which there are objects, in order.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index_values(&self, index: &str) -> Result<Vec<String>, IndexError> {
        self.state.index_values(index)
    }

    /// Returns the objects that share a value of an index with this one, ordered by key.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn sharing(&self, index: &str, object: &T) -> Result<Vec<Arc<T>>, IndexError> {
        self.state.sharing(index, object)
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreState { objects, version, synced, .. } = &*self.state;
        f.debug_struct("Snapshot")
            .field("len", &objects.len())
            .field("version", version)
            .field("synced", synced)
            .finish_non_exhaustive()
    }
}
