//! A cache of decoded objects, or of the facts that a simulator needs of them, one for each
//! version.

use std::collections::HashMap;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::registry::Kind;
use crate::store::Encoded;

/// A value that is derived from an object and cached.
pub(super) trait FromStored {
    /// Derives the value from an object as it is stored.
    fn read(object: &Encoded) -> Self;
}

/// The whole object.
impl FromStored for Value {
    fn read(object: &Encoded) -> Self {
        object.to_value()
    }
}

/// A cache of the values of one kind. Holds at most one value for each object, if
/// [`DecodedCache::forget`] is called for those that are gone.
#[derive(Debug)]
pub(super) struct DecodedCache<T = Value> {
    decoded: HashMap<ObjectKey, (u64, Arc<T>)>,
}

impl<T> Default for DecodedCache<T> {
    fn default() -> Self {
        Self { decoded: HashMap::new() }
    }
}

impl<T: FromStored> DecodedCache<T> {
    /// Returns the value of an object.
    pub(super) fn value(&mut self, object: &Encoded) -> Arc<T> {
        match self.decoded.get(object.key()) {
            Some((version, value)) if *version == object.version() => Arc::clone(value),
            _ => {
                let value = Arc::new(T::read(object));
                self.decoded.insert(object.key().clone(), (object.version(), Arc::clone(&value)));
                value
            }
        }
    }

    /// Returns the values of all current objects of a namespace.
    pub(super) fn all(&mut self, cluster: &Cluster, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<T>> {
        cluster.list(kind, namespace).iter().map(|it| self.value(it)).collect()
    }

    /// Removes the value of an object that is gone.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.decoded.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Draft;

    #[test]
    fn an_object_is_decoded_once_for_each_version() {
        let at = |version| Draft::new(&json!({ "metadata": { "name": "a" } }), vec![]).unwrap().at(version);
        let mut view = DecodedCache::<Value>::default();
        let first = view.value(&at(1));
        assert!(Arc::ptr_eq(&first, &view.value(&at(1))));
        assert_eq!(view.value(&at(2))["metadata"]["resourceVersion"], "2");
        view.forget(&ObjectKey::cluster("a"));
        assert!(view.decoded.is_empty());
    }
}
