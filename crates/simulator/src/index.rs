//! The indexes of the caches, so that the cost of a change does not grow with the number of
//! objects: pods by controller, node and label, and workloads by their selectors.

use dogwatch_core::{Header, LabelSelector, Object, Operator};
use dogwatch_informer::Index;
use serde_json::Value;

use crate::json_access::{at, items, text};
use crate::object::{JsonObject, Payload, Pod};
use crate::owner::controller;

/// Objects by the uid of their controller.
pub(crate) const CONTROLLER: &str = "controller";
/// Objects without a controller, by namespace and label.
pub(crate) const ORPHAN: &str = "orphan";
/// Objects by namespace and label.
pub(crate) const LABEL: &str = "label";
/// Pods by the name of their node, which is empty if they have none.
pub(crate) const NODE: &str = "node";
/// Pods without a node that wait for one on which others are deleted for them, under the empty
/// value.
pub(crate) const NOMINATED: &str = "nominated";
/// Pods that have ended, under the empty value.
pub(crate) const ENDED: &str = "ended";
/// Pods that wait to be counted, by the key of their Job.
pub(crate) const TRACKED: &str = "tracked";
/// Volumes by their storage class, which is empty if they have none.
pub(crate) const CLASS: &str = "class";
/// Claims without a volume by their storage class, which is empty if they wait for the default one.
pub(crate) const PENDING_CLASS: &str = "pending-class";
/// Pods without a node by the key of a claim that they use.
pub(crate) const WAITING_CLAIM: &str = "waiting-claim";
/// Objects with a selector, by namespace and one label that the selector requires.
pub(crate) const SELECTOR: &str = "selector";

/// Indexes objects by the uid of their controller.
pub(crate) fn by_controller<T: Payload>() -> Index<T> {
    Index::visiting(CONTROLLER, |object: &T, found| {
        if let Some(owner) = controller(object) {
            found(text(owner, "/uid"));
        }
    })
}

/// Indexes objects without a controller by namespace and label.
pub(crate) fn orphans<T: Payload>() -> Index<T> {
    Index::visiting(ORPHAN, |object: &T, found| {
        if controller(object).is_none() {
            labels(&object.header()).iter().for_each(|it| found(it));
        }
    })
}

/// Indexes objects by namespace and label.
pub(crate) fn by_label<T: Payload>() -> Index<T> {
    Index::visiting(LABEL, |object: &T, found| labels(&object.header()).iter().for_each(|it| found(it)))
}

/// Indexes pods by their node.
pub(crate) fn by_node() -> Index<Pod> {
    Index::visiting(NODE, |pod: &Pod, found| found(pod.node()))
}

/// Indexes pods that wait for a node on which others are deleted for them.
pub(crate) fn by_nomination() -> Index<Pod> {
    Index::visiting(NOMINATED, |pod: &Pod, found| {
        let waits = pod.node().is_empty() && pod.is_active();
        if waits && !text(pod, "/status/nominatedNodeName").is_empty() {
            found("");
        }
    })
}

/// Indexes pods that have ended.
pub(crate) fn by_end() -> Index<Pod> {
    Index::visiting(ENDED, |pod: &Pod, found| {
        if pod.has_ended {
            found("");
        }
    })
}

/// Indexes volumes by their storage class.
pub(crate) fn by_class() -> Index<JsonObject> {
    Index::visiting(CLASS, |it: &JsonObject, found| found(text(it, "/spec/storageClassName")))
}

/// Indexes claims without a volume by their storage class.
pub(crate) fn by_pending_class() -> Index<JsonObject> {
    Index::visiting(PENDING_CLASS, |it: &JsonObject, found| {
        if text(it, "/spec/volumeName").is_empty() {
            found(text(it, "/spec/storageClassName"));
        }
    })
}

/// Indexes pods without a node by the claims that they use.
pub(crate) fn by_waiting_claim() -> Index<Pod> {
    Index::visiting(WAITING_CLAIM, |pod: &Pod, found| {
        if pod.node().is_empty() {
            claims_of(pod).for_each(|it| found(&it));
        }
    })
}

/// Returns the keys of the claims that a pod uses, as text.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = String> + '_ {
    let namespace = pod.header().namespace.unwrap_or_default();
    items(pod, "/spec/volumes").iter().filter_map(move |volume| {
        let name = match text(volume, "/persistentVolumeClaim/claimName") {
            // The claim of an ephemeral volume has the names of both.
            "" if at(volume, "/ephemeral").is_some() => {
                format!("{}-{}", pod.header().name, text(volume, "/name"))
            }
            "" => return None,
            name => name.to_owned(),
        };
        Some(format!("{namespace}/{name}"))
    })
}

/// Indexes pods that wait to be counted by the key of their Job.
pub(crate) fn by_tracking_job() -> Index<Pod> {
    Index::visiting(TRACKED, |pod: &Pod, found| {
        if let Some(job) = tracking_job(pod) {
            found(&job);
        }
    })
}

/// Returns the key of the Job by which a pod waits to be counted: of its controller, or as a label
/// names it if its controller has left it.
pub(crate) fn tracking_job(pod: &Pod) -> Option<String> {
    const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
    if !items(pod, "/metadata/finalizers").iter().any(|it| it == FINALIZER) {
        return None;
    }
    let name = match controller(pod) {
        Some(owner) if text(owner, "/kind") == "Job" => text(owner, "/name"),
        Some(_) => return None,
        None => text(pod, "/metadata/labels/batch.kubernetes.io~1job-name"),
    };
    (!name.is_empty()).then(|| format!("{}/{name}", pod.header().namespace.unwrap_or_default()))
}

/// Indexes objects by one label that their selector requires.
pub(crate) fn by_selector<T: Payload>(selector: fn(&Value) -> Option<LabelSelector>) -> Index<T> {
    Index::new(SELECTOR, move |object: &T| {
        let namespace = object.header().namespace.unwrap_or_default();
        selector(object).map(|it| anchor(namespace, &it))
    })
}

/// Returns the values under which an object is found by label: one for each label, and one without,
/// for selectors that require none.
pub(crate) fn labels(header: &Header<'_>) -> Vec<String> {
    let namespace = header.namespace.unwrap_or_default();
    let each = header.labels.iter().map(|(key, value)| format!("{namespace}/{key}={value}"));
    each.chain([format!("{namespace}/")]).collect()
}

/// Returns the value under which the objects are found that a selector may select: that of the
/// first label that it requires.
pub(crate) fn anchor(namespace: &str, selector: &LabelSelector) -> String {
    let mut requirements = selector.requirements().iter();
    let required = requirements.find(|it| it.operator() == Operator::Equals);
    match required.and_then(|it| Some((it.key(), it.values().next()?))) {
        Some((key, value)) => format!("{namespace}/{key}={value}"),
        None => format!("{namespace}/"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selector::of_workload;

    #[test]
    fn an_object_is_found_under_the_anchor_of_each_selector_that_selects_it() {
        let pod = JsonObject::from(json!({ "metadata": { "name": "p", "namespace": "n",
            "labels": { "app": "web", "tier": "front" } } }));
        for selector in [
            json!({ "matchLabels": { "app": "web" } }),
            json!({ "matchLabels": { "tier": "front" }, "matchExpressions": [{ "key": "app", "operator": "Exists" }] }),
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }] }),
        ] {
            let workload = json!({ "spec": { "selector": selector } });
            let selector = of_workload(&workload).unwrap();
            assert!(selector.matches(pod.header().labels), "{workload}");
            assert!(labels(&pod.header()).contains(&anchor("n", &selector)), "{workload}");
        }
    }
}
