//! Reading the store as code that reconciles reads it: by key, by namespace, by labels, by index.

use std::fmt;
use std::sync::Arc;

use dogwatch_core::{LabelSelector, Object, ObjectKey};

use crate::index::IndexError;
use crate::store::Store;

/// Reads the objects of a store. A clone reads the same store.
///
/// Every call is of the newest state; none waits. Lists are ordered by key. A lister that an informer gave out keeps that informer
/// running; before the first list is whole it finds nothing: see [`Self::synced`].
pub struct Lister<T> {
    store: Store<T>,
}

/// Reads the objects of one namespace of a store.
pub struct NamespaceLister<T> {
    store: Store<T>,
    namespace: String,
}

/// The store has no object with this key; the server may have one by now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no object {key} in the store")]
pub struct NotInStore {
    key: String,
}

impl NotInStore {
    /// The key that was asked for.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl<T: Object> Lister<T> {
    /// Reads this store.
    pub fn new(store: Store<T>) -> Self {
        Self { store }
    }

    /// Whether the first list is whole. Before that, an object that is not found may well exist.
    pub fn synced(&self) -> bool {
        self.store.synced()
    }

    /// Whether the informer has stopped: what is found may be out of date.
    pub fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// The object with this key.
    ///
    /// # Errors
    /// When the store has none.
    pub fn get(&self, key: &ObjectKey) -> Result<Arc<T>, NotInStore> {
        self.store.get(key).ok_or_else(|| NotInStore { key: key.to_string() })
    }

    /// The objects whose labels match, ordered by key.
    ///
    /// Everything and nothing are answered without a look at a label. Where a requirement asks for certain values of a label that
    /// has an index ([`Index::label`](crate::Index::label)), only the objects with those values are looked at, if they are few;
    /// else all are.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.store.snapshot().select(None, selector)
    }

    /// The objects under a value of an index, ordered by key.
    ///
    /// # Errors
    /// When there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        self.store.by_index(index, value)
    }

    /// Reads one namespace only.
    pub fn namespaced(&self, namespace: &str) -> NamespaceLister<T> {
        NamespaceLister { store: self.store.clone(), namespace: namespace.to_owned() }
    }
}

impl<T: Object> NamespaceLister<T> {
    /// The object with this name.
    ///
    /// # Errors
    /// When the store has none in this namespace.
    pub fn get(&self, name: &str) -> Result<Arc<T>, NotInStore> {
        let found = self.store.get_named(Some(&self.namespace), name);
        found.ok_or_else(|| NotInStore { key: format!("{}/{name}", self.namespace) })
    }

    /// The objects of the namespace whose labels match, ordered by name. It is as cheap as [`Lister::list`].
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
