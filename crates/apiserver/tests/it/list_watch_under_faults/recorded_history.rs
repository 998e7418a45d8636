//! What really happened: every change since the beginning, read before it can be forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_apiserver::cluster::Cluster;
use dogwatch_apiserver::store::{CollectionName, Cursor};
use serde_json::Value;

/// Which pods a watcher wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selector {
    pub(crate) namespace: Option<&'static str>,
    /// The query, and the same as a condition.
    pub(crate) query: &'static str,
    pub(crate) holds: fn(&Value) -> bool,
}

/// Pods by key.
pub(crate) type Pods = BTreeMap<String, Arc<Value>>;

/// All changes of pods.
pub(crate) struct Truth {
    cursor: Cursor,
    /// Versions only grow; `None` from a deletion on.
    changes: Vec<(u64, String, Option<Arc<Value>>)>,
}

impl Truth {
    /// Must be made before anything is written.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let pods = CollectionName::from("/pods");
        let cursor = cluster.store().watch(&pods, cluster.store().revision()).expect("kept");
        Self { cursor, changes: Vec::new() }
    }

    /// Reads what is new. Must be called before history is forgotten.
    pub(crate) fn read(&mut self) {
        while let Some(change) = self.cursor.try_next().expect("it is read before it is forgotten") {
            let object = change.after.as_ref().or(change.before.as_ref()).expect("a change of something");
            let after = change.after.as_ref().map(|it| Arc::new(it.to_value()));
            self.changes.push((change.version, object.key().to_string(), after));
        }
    }

    /// The pods at a version, by key.
    pub(crate) fn at(&mut self, version: u64, selector: &Selector) -> Pods {
        self.read();
        let mut pods: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
        for (_, key, after) in self.changes.iter().take_while(|(at, ..)| *at <= version) {
            match after {
                Some(after) => pods.insert(key, after),
                None => pods.remove(key.as_str()),
            };
        }
        let selected = pods.into_iter().filter(|(_, pod)| selector.holds(pod));
        selected.map(|(key, pod)| (key.to_owned(), Arc::clone(pod))).collect()
    }
}

impl Selector {
    pub(crate) fn holds(&self, pod: &Value) -> bool {
        let here = self.namespace.is_none_or(|it| pod["metadata"]["namespace"] == it);
        here && (self.holds)(pod)
    }

    /// The path of the collection, ready for parameters.
    pub(crate) fn path(&self) -> String {
        let collection = match self.namespace {
            None => "/api/v1/pods".to_owned(),
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        };
        format!("{collection}?{}", self.query)
    }
}
