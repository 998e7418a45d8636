//! Read access to a store for reconcilers: by key, namespace, labels and index.

use std::fmt;
use std::sync::Arc;

use dogwatch_core::{LabelSelector, Object, ObjectKey};

use crate::index::IndexError;
use crate::store::Store;

/// Reads the objects of a store. A clone reads the same store.
///
/// Every call reads the newest state, and none waits. Lists are ordered by key. A lister that an
/// informer returned keeps that informer running. Until the initial list is complete it finds
/// nothing: see [`Self::is_synced`].
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
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
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let lister = maps.lister();
/// maps.start();
/// maps.synced().await?;
/// let settings = lister.get(&ObjectKey::namespaced("default", "settings")).expect("it is listed");
/// assert_eq!(settings.metadata.name.as_deref(), Some("settings"));
/// assert_eq!(lister.list(&"app=web".parse()?).len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct Lister<T> {
    store: Store<T>,
}

/// Reads the objects of one namespace of a store.
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
/// let lister = maps.lister().namespaced("default");
/// assert!(lister.get("settings").is_some());
/// assert!(lister.list(&"app=web".parse()?).is_empty());
/// # Ok(())
/// # }
/// ```
pub struct NamespaceLister<T> {
    store: Store<T>,
    namespace: String,
}

impl<T: Object> Lister<T> {
    /// Creates a lister of this store.
    pub fn new(store: Store<T>) -> Self {
        Self { store }
    }

    /// Returns true once the initial list is complete. Before that, an object that is not found may
    /// still exist.
    pub fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    /// Returns true if the informer has stopped; the objects may then be out of date.
    pub fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// Returns the object with this key, or `None` if the store has no such object. The server may
    /// already have it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.store.get(key)
    }

    /// Returns the objects whose labels match, ordered by key.
    ///
    /// Selectors that match everything or nothing do not look at any label. If a requirement asks
    /// for certain values of a label that has an index ([`Index::label`](crate::Index::label)) and
    /// few objects have these values, only those objects are examined; otherwise all are.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.store.snapshot().select(None, selector)
    }

    /// Returns the objects under a value of an index, ordered by key.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        self.store.by_index(index, value)
    }

    /// Returns a lister of a single namespace.
    pub fn namespaced(&self, namespace: &str) -> NamespaceLister<T> {
        NamespaceLister { store: self.store.clone(), namespace: namespace.to_owned() }
    }
}

impl<T: Object> NamespaceLister<T> {
    /// Returns the object with this name, or `None` if the store has no such object in this
    /// namespace.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.store.get_named(Some(&self.namespace), name)
    }

    /// Returns the objects of the namespace whose labels match, ordered by name. It uses label
    /// indexes as [`Lister::list`] does.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.store.snapshot().select(Some(&self.namespace), selector)
    }
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone() }
    }
}

impl<T> Clone for NamespaceLister<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), namespace: self.namespace.clone() }
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lister").field(&self.store).finish()
    }
}

impl<T> fmt::Debug for NamespaceLister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamespaceLister").field(&self.namespace).field(&self.store).finish()
    }
}
