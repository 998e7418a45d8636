//! Objects as values, decoded once for each version of them.

use std::collections::HashMap;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::registry::Kind;
use crate::store::Encoded;

/// What was decoded of one kind. Holds at most one value for each object that is there, once [`View::forget`] is told of
/// those that are gone.
#[derive(Debug, Default)]
pub(super) struct View {
    decoded: HashMap<ObjectKey, (u64, Arc<Value>)>,
}

impl View {
    /// An object as a value.
    pub(super) fn value(&mut self, object: &Encoded) -> Arc<Value> {
        match self.decoded.get(object.key()) {
            Some((version, value)) if *version == object.version() => Arc::clone(value),
            _ => {
                let value = Arc::new(object.to_value());
                self.decoded.insert(object.key().clone(), (object.version(), Arc::clone(&value)));
                value
            }
        }
    }

    /// All objects of a namespace as they are now.
    pub(super) fn all(&mut self, cluster: &Cluster, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Value>> {
        cluster.list(kind, namespace).iter().map(|it| self.value(it)).collect()
    }

    /// An object is gone.
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
        let mut view = View::default();
        let first = view.value(&at(1));
        assert!(Arc::ptr_eq(&first, &view.value(&at(1))));
        assert_eq!(view.value(&at(2))["metadata"]["resourceVersion"], "2");
        view.forget(&ObjectKey::cluster("a"));
        assert!(view.decoded.is_empty());
    }
}
