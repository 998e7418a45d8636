//! The terms of pods about other pods: which namespaces and labels they name, and the indexes by
//! which the scheduler finds them.

use dogwatch_core::{LabelSelector, Object};
use dogwatch_informer::Index;
use serde_json::{Value, json};

use crate::index::anchor;
use crate::json_access::{at, items};
use crate::object::Pod;
use crate::selector::of_budget;

/// Pods with a node by what their required anti-affinity keeps away.
pub(crate) const KEEPS_AWAY: &str = "keeps-away";
/// Pods without a node that have constraints on other pods.
pub(crate) const CONSTRAINED: &str = "constrained";

/// The terms of a pod about other pods.
pub(crate) const AFFINITY: &str = "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
/// The terms of a pod against other pods.
pub(crate) const ANTI_AFFINITY: &str =
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
/// The constraints of a pod on the distribution of pods.
pub(crate) const SPREAD: &str = "/spec/topologySpreadConstraints";

/// Indexes pods with a node by what their required anti-affinity keeps away.
pub(crate) fn by_kept_away() -> Index<Pod> {
    Index::visiting(KEEPS_AWAY, |pod: &Pod, found| {
        if pod.node().is_empty() || pod.has_ended {
            return;
        }
        for term in items(pod, ANTI_AFFINITY) {
            let Some(selector) = selector(term, pod) else { continue };
            match namespaces(term, pod) {
                Some(all) => all.iter().for_each(|it| found(&anchor(it, &selector))),
                None => found(&anchor("", &selector)),
            }
        }
    })
}

/// Indexes pods without a node that have constraints on other pods.
pub(crate) fn by_constrained() -> Index<Pod> {
    Index::visiting(CONSTRAINED, |pod: &Pod, found| {
        if pod.node().is_empty() && is_constrained(pod) {
            found("");
        }
    })
}

/// Returns true if a pod has constraints on other pods.
pub(crate) fn is_constrained(pod: &Value) -> bool {
    [AFFINITY, ANTI_AFFINITY, SPREAD].iter().any(|it| !items(pod, it).is_empty())
}

/// Returns the namespaces that a term is about; `None` for all.
pub(crate) fn namespaces(term: &Value, pod: &Pod) -> Option<Vec<String>> {
    let named = items(term, "/namespaces").iter().filter_map(|it| it.as_str().map(str::to_owned));
    let named: Vec<String> = named.collect();
    if at(term, "/namespaceSelector").is_some() {
        return None;
    }
    let own = || vec![pod.header().namespace.unwrap_or_default().to_owned()];
    Some(if named.is_empty() { own() } else { named })
}

/// Returns the selector of a term, with the labels of the pod that it names by key.
pub(crate) fn selector(term: &Value, pod: &Pod) -> Option<LabelSelector> {
    let mut selector = at(term, "/labelSelector")?.clone();
    for (field, operator) in [("/matchLabelKeys", "In"), ("/mismatchLabelKeys", "NotIn")] {
        for key in items(term, field).iter().filter_map(Value::as_str) {
            let Some(value) = pod["metadata"]["labels"].get(key) else { continue };
            let mut terms = items(&selector, "/matchExpressions").to_vec();
            terms.push(json!({ "key": key, "operator": operator, "values": [value] }));
            selector["matchExpressions"] = terms.into();
        }
    }
    of_budget(&json!({ "spec": { "selector": selector } }))
}
