//! The pods of all autoscalers, as far as they overlap: two autoscalers of the same pods would work
//! against each other.

use std::collections::{BTreeSet, HashMap};

use dogwatch_core::{LabelSelector, Object, ObjectKey};

use crate::index::{anchor, labels};
use crate::object::Pod;

/// The selectors of the targets of all autoscalers.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    /// The selectors by the value under which their pods are found.
    by_anchor: HashMap<String, Vec<(ObjectKey, LabelSelector)>>,
    anchors: HashMap<ObjectKey, String>,
}

impl Selectors {
    /// Sets the selector of an autoscaler's target.
    pub(super) fn set(&mut self, key: &ObjectKey, selector: &LabelSelector) {
        self.remove(key);
        let anchor = anchor(key.namespace().unwrap_or_default(), selector);
        self.by_anchor.entry(anchor.clone()).or_default().push((key.clone(), selector.clone()));
        self.anchors.insert(key.clone(), anchor);
    }

    /// Removes an autoscaler.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(anchor) = self.anchors.remove(key) else { return };
        let Some(others) = self.by_anchor.get_mut(&anchor) else { return };
        others.retain(|it| it.0 != *key);
        if others.is_empty() {
            self.by_anchor.remove(&anchor);
        }
    }

    /// Returns the autoscalers of any of these pods.
    pub(super) fn of_pods(&self, pods: &[&Pod]) -> BTreeSet<&ObjectKey> {
        let mut found = BTreeSet::new();
        for pod in pods {
            let header = pod.header();
            for value in labels(&header) {
                let candidates = self.by_anchor.get(&value).into_iter().flatten();
                found.extend(candidates.filter(|it| it.1.matches(header.labels)).map(|it| &it.0));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn autoscalers_of_the_same_pods_are_found_until_they_are_removed() {
        let pod = |namespace: &str| {
            Pod::from(json!({ "metadata": { "name": "p", "namespace": namespace,
                "labels": { "app": "web", "tier": "front" } } }))
        };
        let selector = |text: &str| text.parse::<LabelSelector>().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|it| ObjectKey::namespaced("n", it));
        let mut selectors = Selectors::default();
        selectors.set(&a, &selector("app=web"));
        selectors.set(&b, &selector("tier in (front,back)"));
        selectors.set(&c, &selector("app=db"));
        selectors.set(&ObjectKey::namespaced("m", "d"), &selector("app=web"));
        let pod = pod("n");
        assert_eq!(Vec::from_iter(selectors.of_pods(&[&pod])), [&a, &b]);
        selectors.set(&a, &selector("app=other"));
        assert_eq!(Vec::from_iter(selectors.of_pods(&[&pod])), [&b]);
        for key in [&a, &b, &c] {
            selectors.remove(key);
        }
        assert!(selectors.of_pods(&[&pod]).is_empty());
        assert_eq!(selectors.by_anchor.len(), 1);
    }
}
