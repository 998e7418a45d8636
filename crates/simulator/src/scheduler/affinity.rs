//! Constraints between pods: affinity, anti-affinity and topology spread. Each is reduced to the
//! topology values that a pod may, or may not, have, before nodes are looked at.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dogwatch_core::Object;
use serde_json::Value;

use crate::collection::Collection;
use crate::index::{LABEL, anchor, labels};
use crate::json_access::{items, number, text};
use crate::node_fit::matches_selection;
use crate::object::{JsonObject, Pod};
use crate::pod_terms::{AFFINITY, ANTI_AFFINITY, KEEPS_AWAY, SPREAD, namespaces, selector};

/// The constraints of a pod on the topology values of its node.
#[derive(Debug, Default)]
pub(super) struct Constraints {
    /// The values of which the node must have one; `None` if the pod itself is the first of them.
    affinity: Vec<(String, Option<HashSet<String>>)>,
    anti_affinity: Vec<(String, HashSet<String>)>,
    /// The values that the anti-affinity of other pods forbids.
    kept_away: Vec<(String, HashSet<String>)>,
    /// The values that would exceed the skew.
    spread: Vec<(String, HashSet<String>)>,
}

impl Constraints {
    /// Reads the constraints of a pod, and those of other pods on it.
    pub(super) fn of(pod: &Pod, pods: &Collection<Pod>, nodes: &Collection<JsonObject>) -> Self {
        let topology = |pod: &Pod, key: &str| {
            let node = nodes.store.get_named(None, pod.node())?;
            label(&node, key)
        };
        let mut constraints = Self::default();
        for term in items(pod, AFFINITY) {
            let key = text(term, "/topologyKey");
            let values: HashSet<_> =
                matching(term, pod, pods).iter().filter_map(|it| topology(it, key)).collect();
            // The first pod of a group that attracts itself may be anywhere.
            let is_first = values.is_empty() && selects_itself(term, pod);
            constraints.affinity.push((key.to_owned(), (!is_first).then_some(values)));
        }
        for term in items(pod, ANTI_AFFINITY) {
            let key = text(term, "/topologyKey");
            let values = matching(term, pod, pods).iter().filter_map(|it| topology(it, key)).collect();
            constraints.anti_affinity.push((key.to_owned(), values));
        }
        let header = pod.header();
        let all_namespaces = labels(&header)
            .into_iter()
            .map(|it| it.split_once('/').map_or_else(String::new, |(_, label)| format!("/{label}")));
        for place in labels(&header).into_iter().chain(all_namespaces) {
            for other in pods.found(KEEPS_AWAY, &place) {
                for term in items(&other, ANTI_AFFINITY) {
                    let concerns = namespaces(term, &other)
                        .is_none_or(|it| it.contains(&header.namespace.unwrap_or_default().to_owned()));
                    let selects = selector(term, &other).is_some_and(|it| it.matches(header.labels));
                    let key = text(term, "/topologyKey");
                    if let Some(value) = topology(&other, key).filter(|_| concerns && selects) {
                        constraints.kept_away.push((key.to_owned(), HashSet::from([value])));
                    }
                }
            }
        }
        for constraint in items(pod, SPREAD) {
            if text(constraint, "/whenUnsatisfiable") != "ScheduleAnyway" {
                constraints.spread.push(spread(constraint, pod, pods, nodes));
            }
        }
        constraints
    }

    /// Returns the reason why a node does not meet the constraints, if it does not.
    pub(super) fn violated(&self, node: &Value) -> Option<&'static str> {
        let in_any = |(key, values): &(String, HashSet<String>)| {
            label(node, key).is_some_and(|it| values.contains(&it))
        };
        let misses = |(key, values): &(String, Option<HashSet<String>>)| match label(node, key) {
            None => true,
            Some(value) => values.as_ref().is_some_and(|it| !it.contains(&value)),
        };
        if self.spread.iter().any(|(key, _)| label(node, key).is_none()) {
            return Some("node(s) didn't match pod topology spread constraints (missing required label)");
        }
        if self.spread.iter().any(in_any) {
            return Some("node(s) didn't match pod topology spread constraints");
        }
        if self.affinity.iter().any(misses) {
            return Some("node(s) didn't match pod affinity rules");
        }
        if self.anti_affinity.iter().any(in_any) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        if self.kept_away.iter().any(in_any) {
            return Some("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        None
    }
}

/// Returns the pods with a node that a term of a pod selects.
fn matching(term: &Value, pod: &Pod, pods: &Collection<Pod>) -> Vec<Arc<Pod>> {
    let Some(selector) = selector(term, pod) else { return Vec::new() };
    let is_placed =
        |it: &Arc<Pod>| !it.node().is_empty() && !it.has_ended && selector.matches(it.header().labels);
    match namespaces(term, pod) {
        Some(all) => {
            let found = all.iter().flat_map(|it| pods.found(LABEL, &anchor(it, &selector)));
            found.filter(is_placed).collect()
        }
        None => pods.store.snapshot().iter().filter(|it| is_placed(it)).cloned().collect(),
    }
}

fn selects_itself(term: &Value, pod: &Pod) -> bool {
    let own = namespaces(term, pod)
        .is_none_or(|it| it.iter().any(|it| Some(it.as_str()) == pod.header().namespace));
    own && selector(term, pod).is_some_and(|it| it.matches(pod.header().labels))
}

/// Returns the topology values on which one more pod would exceed the skew of a constraint.
fn spread(
    constraint: &Value,
    pod: &Pod,
    pods: &Collection<Pod>,
    nodes: &Collection<JsonObject>,
) -> (String, HashSet<String>) {
    let key = text(constraint, "/topologyKey");
    let mut counts: HashMap<String, i64> = HashMap::new();
    let honors_affinity = text(constraint, "/nodeAffinityPolicy") != "Ignore";
    for node in nodes.store.snapshot().iter() {
        if let Some(value) = label(node, key).filter(|_| !honors_affinity || matches_selection(pod, node)) {
            counts.entry(value).or_default();
        }
    }
    for other in matching(constraint, pod, pods).iter().filter(|it| !it.is_deleting) {
        let value = nodes.store.get_named(None, other.node()).and_then(|it| label(&it, key));
        if let Some(count) = value.and_then(|it| counts.get_mut(&it)) {
            *count = count.saturating_add(1);
        }
    }
    let least = counts.values().copied().min().unwrap_or(0);
    let wanted = number(constraint, "/minDomains").unwrap_or(1);
    let least = if i64::try_from(counts.len()).unwrap_or(i64::MAX) < wanted { 0 } else { least };
    let own = i64::from(selects_itself(constraint, pod));
    let skew = number(constraint, "/maxSkew").unwrap_or(1);
    let full = counts.into_iter().filter(|(_, it)| it.saturating_add(own).saturating_sub(least) > skew);
    (key.to_owned(), full.map(|(value, _)| value).collect())
}

fn label(node: &Value, key: &str) -> Option<String> {
    Some(node.pointer("/metadata/labels")?.get(key)?.as_str()?.to_owned())
}
