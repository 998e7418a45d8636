//! The recorded history: every change since the start, read before it is compacted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::store::{CollectionName, Cursor};
use serde_json::Value;

/// The pods that a watcher selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selector {
    pub(crate) namespace: Option<&'static str>,
    /// The query parameters, and the same condition as a function.
    pub(crate) query: &'static str,
    pub(crate) holds: fn(&Value) -> bool,
}

/// Pods by key.
pub(crate) type Pods = BTreeMap<String, Arc<Value>>;

/// All changes of pods.
pub(crate) struct RecordedHistory {
    cursor: Cursor,
    /// Each change with its version, in increasing order; `None` for a deletion.
    changes: Vec<(u64, String, Option<Arc<Value>>)>,
}

impl RecordedHistory {
    /// Starts to record. Must be called before anything is written.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let pods = CollectionName::from("/pods");
        let cursor = cluster.store().watch(&pods, cluster.store().revision()).expect("kept");
        Self { cursor, changes: Vec::new() }
    }

    /// Reads new changes. Must be called before history is compacted.
    pub(crate) fn read(&mut self) {
        while let Some(change) = self.cursor.try_next().expect("read before compaction") {
            let object = change.after.as_ref().or(change.before.as_ref()).expect("a change has an object");
            let after = change.after.as_ref().map(|it| Arc::new(it.to_value()));
            self.changes.push((change.version, object.key().to_string(), after));
        }
    }

    /// Returns the selected pods at a version, by key.
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

    /// Returns the path of the collection with the query, to which parameters can be appended.
    pub(crate) fn path(&self) -> String {
        let collection = match self.namespace {
            None => "/api/v1/pods".to_owned(),
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        };
        format!("{collection}?{}", self.query)
    }
}
