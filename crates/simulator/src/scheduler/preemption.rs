//! Preemption: a pod for which no node has room may have pods of lower priority deleted, as
//! k8s.io/kubernetes v1.36.4 pkg/scheduler/framework/plugins/defaultpreemption and
//! pkg/scheduler/framework/preemption/preemption.go decide it.
//!
//! Room is what can be made: requests, host ports and the number of pods. A node that a pod cannot
//! have for another reason stays that way.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use dogwatch_core::{LabelSelector, Object, ObjectKey};
use serde_json::Value;

use super::resources::{Amounts, Usage, priority};
use crate::collection::Collection;
use crate::index::{NODE, NOMINATED, SELECTOR, labels};
use crate::json_access::{at, number, text};
use crate::object::{JsonObject, Pod};
use crate::selector::of_budget;

/// The number of nodes that are compared: `minCandidateNodesAbsolute` in k8s.io/kubernetes v1.36.4
/// pkg/scheduler/apis/config/v1/defaults.go.
const CANDIDATES: usize = 100;

/// The pods that are deleted from a node so that another has room.
#[derive(Debug)]
pub(super) struct Preemption {
    pub(super) node: String,
    /// The most important one first.
    pub(super) victims: Vec<Arc<Pod>>,
    /// The number of victims that a budget protects.
    violations: usize,
}

/// The pods for which others have been deleted, by the name of the node that they wait for.
#[derive(Debug, Default)]
pub(super) struct Nominated(HashMap<String, Vec<Arc<Pod>>>);

impl Nominated {
    /// Returns those whose room another pod may not have, because it is not more important.
    pub(super) fn before(pod: &Pod, pods: &Collection<Pod>) -> Self {
        let mut all: HashMap<String, Vec<Arc<Pod>>> = HashMap::new();
        let uid = text(pod, "/metadata/uid");
        for other in pods.found(NOMINATED, "") {
            if text(&other, "/metadata/uid") != uid && priority(&other) >= priority(pod) {
                all.entry(text(&other, "/status/nominatedNodeName").to_owned()).or_default().push(other);
            }
        }
        Self(all)
    }

    /// Returns those that wait for a node.
    pub(super) fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.0.get(node).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns true if a pod may have others deleted now. It may not while it waits for those that it
/// has had deleted.
pub(super) fn may_preempt(pod: &Pod, pods: &Collection<Pod>) -> bool {
    if text(pod, "/spec/preemptionPolicy") == "Never" {
        return false;
    }
    let nominated = text(pod, "/status/nominatedNodeName");
    let leaves = |it: &Arc<Pod>| it.is_deleting && !it.has_ended && priority(it) < priority(pod);
    nominated.is_empty() || !pods.found(NODE, nominated).iter().any(leaves)
}

/// Chooses the node on which the deletion of pods does the least harm. `nodes` are those that the
/// pod could have if they had room.
pub(super) fn choose<'a>(
    pod: &Pod,
    requests: &Amounts,
    nodes: impl Iterator<Item = &'a Value>,
    usage: &Usage,
    nominated: &Nominated,
    (pods, budgets): (&Collection<Pod>, Option<&Collection<JsonObject>>),
) -> Option<Preemption> {
    let limit = priority(pod);
    let has_lower = |it: &&Value| usage.has_below(text(it, "/metadata/name"), limit);
    let candidates = nodes.filter(has_lower).filter_map(|node| {
        let name = text(node, "/metadata/name");
        let lower = |it: &Arc<Pod>| priority(it) < limit && !it.has_ended;
        let potential: Vec<_> = pods.found(NODE, name).into_iter().filter(lower).collect();
        let allowances = Allowances::of(budgets, &potential);
        victims(node, requests, usage, nominated.on(name), potential, allowances)
    });
    candidates.take(CANDIDATES).min_by_key(Preemption::harm)
}

impl Preemption {
    /// Returns a key by which nodes are compared: fewer violated budgets, a lower highest priority,
    /// a lower sum of priorities, fewer victims, and the later start of the most important ones.
    fn harm(&self) -> (usize, i64, i64, usize, Reverse<String>) {
        let highest = self.victims.first().map_or(i64::MIN, |it| priority(it));
        // As upstream: without the offset, two victims of a negative priority would be better than
        // one.
        let offset = i64::from(i32::MAX).saturating_add(1);
        let sum = self
            .victims
            .iter()
            .fold(0_i64, |sum, it| sum.saturating_add(priority(it).saturating_add(offset)));
        let important = self.victims.iter().filter(|it| priority(it) == highest);
        let earliest = important.map(|it| text(it, "/status/startTime")).min().unwrap_or_default();
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest.to_owned()))
    }
}

/// Returns the victims on a node: as few as possible of the pods of lower priority, and rather
/// those that no budget protects. Returns `None` if even without all of them there is no room.
fn victims(
    node: &Value,
    requests: &Amounts,
    usage: &Usage,
    nominated: &[Arc<Pod>],
    mut potential: Vec<Arc<Pod>>,
    mut allowances: Allowances,
) -> Option<Preemption> {
    potential.sort_by_cached_key(|it| (Reverse(priority(it)), text(it, "/status/startTime").to_owned()));
    let uids = potential.iter().map(|it| text(it, "/metadata/uid"));
    let mut without = usage.without(text(node, "/metadata/name"), uids);
    without.assign_all(text(node, "/metadata/name"), nominated);
    if without.lack(node, requests).is_some() {
        return None;
    }
    let (protected, others): (Vec<_>, Vec<_>) = potential.into_iter().partition(|it| allowances.spend(it));
    let (mut victims, mut violations) = (Vec::new(), 0_usize);
    for (pod, is_protected) in
        protected.into_iter().map(|it| (it, true)).chain(others.into_iter().map(|it| (it, false)))
    {
        let uid = text(&pod, "/metadata/uid");
        without.assign_all(text(node, "/metadata/name"), std::slice::from_ref(&pod));
        if without.lack(node, requests).is_some() {
            without.remove(uid);
            violations = violations.saturating_add(usize::from(is_protected));
            victims.push(pod);
        }
    }
    victims.sort_by_cached_key(|it| (Reverse(priority(it)), text(it, "/status/startTime").to_owned()));
    let node = text(node, "/metadata/name").to_owned();
    Some(Preemption { node, victims, violations })
}

/// The budgets of pods, and the numbers of their pods that may be disrupted.
#[derive(Debug, Default)]
struct Allowances(HashMap<ObjectKey, Allowance>);

#[derive(Debug)]
struct Allowance {
    budget: Arc<JsonObject>,
    selector: LabelSelector,
    left: i64,
}

impl Allowances {
    /// Returns the budgets of any of these pods.
    fn of(budgets: Option<&Collection<JsonObject>>, pods: &[Arc<Pod>]) -> Self {
        let mut all = HashMap::new();
        let Some(budgets) = budgets else { return Self(all) };
        for pod in pods {
            let header = pod.header();
            for budget in labels(&header).into_iter().flat_map(|it| budgets.found(SELECTOR, &it)) {
                let (Some(key), Some(selector)) = (budget.key(), of_budget(&budget)) else { continue };
                if selector.matches(header.labels) {
                    let left = number(&budget, "/status/disruptionsAllowed").unwrap_or(0);
                    all.entry(key).or_insert(Allowance { budget, selector, left });
                }
            }
        }
        Self(all)
    }

    /// Counts a pod in all its budgets. Returns true if one of them does not allow it.
    fn spend(&mut self, pod: &Pod) -> bool {
        let (header, mut exceeded) = (pod.header(), false);
        for allowance in self.0.values_mut() {
            let is_in = allowance.budget.header().namespace == header.namespace
                && allowance.selector.matches(header.labels);
            // A pod that an eviction has counted already costs nothing.
            let counted = at(&allowance.budget, "/status/disruptedPods");
            let is_counted = counted.is_some_and(|it| it.get(header.name).is_some());
            if is_in && !is_counted {
                allowance.left = allowance.left.saturating_sub(1);
                exceeded |= allowance.left < 0;
            }
        }
        exceeded
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resources::requests;
    use super::*;

    fn pod(name: &str, priority: i64, cpu: &str, start: &str) -> Arc<Pod> {
        Arc::new(Pod::from(json!({
            "metadata": { "name": name, "namespace": "n", "uid": name, "labels": { "app": name } },
            "spec": { "nodeName": "a", "priority": priority,
                "containers": [{ "resources": { "requests": { "cpu": cpu } } }] },
            "status": { "startTime": start } })))
    }

    /// Returns the victims on a node with four CPUs, for a pod that requests this much.
    fn found(cpu: &str, pods: &[Arc<Pod>], allowances: Allowances) -> Option<(Vec<String>, usize)> {
        let node = json!({ "metadata": { "name": "a" },
            "status": { "allocatable": { "cpu": "4", "pods": "10" } } });
        let mut usage = Usage::default();
        for pod in pods {
            usage.assign(text(pod, "/metadata/uid"), "a", requests(pod), priority(pod), false);
        }
        let wanted = requests(&pod("new", 100, cpu, ""));
        let lower: Vec<_> = pods.iter().filter(|it| priority(it) < 100).cloned().collect();
        let found = victims(&node, &wanted, &usage, &[], lower, allowances)?;
        let names = found.victims.iter().map(|it| text(it, "/metadata/name").to_owned()).collect();
        Some((names, found.violations))
    }

    #[test]
    fn as_few_and_as_unimportant_pods_as_possible_are_victims() {
        let pods = [
            pod("high", 1000, "1", "1"),
            pod("old", 10, "1", "2"),
            pod("new", 10, "1", "3"),
            pod("low", 1, "1", "1"),
        ];
        let names = |cpu: &str| found(cpu, &pods, Allowances::default()).map(|it| it.0);
        assert_eq!(names("1"), Some(vec!["low".to_owned()]));
        assert_eq!(names("2"), Some(vec!["new".to_owned(), "low".to_owned()]));
        assert_eq!(names("3"), Some(vec!["old".to_owned(), "new".to_owned(), "low".to_owned()]));
        assert_eq!(names("4"), None, "the pod of higher priority stays");
        // A large pod makes room alone.
        let pods = [pod("small", 1, "1", "1"), pod("large", 5, "3", "1")];
        assert_eq!(found("3", &pods, Allowances::default()).map(|it| it.0), Some(vec!["large".to_owned()]));
    }

    #[test]
    fn pods_of_a_budget_are_spared_if_others_can_be_victims() {
        let pods = [pod("guarded", 1, "2", "1"), pod("free", 10, "2", "1")];
        let budget = Arc::new(JsonObject::from(json!({ "metadata": { "name": "b", "namespace": "n" },
            "spec": { "selector": { "matchLabels": { "app": "guarded" } } } })));
        let selector = of_budget(&budget).unwrap();
        let allowances = |left: i64| {
            let allowance = Allowance { budget: Arc::clone(&budget), selector: selector.clone(), left };
            Allowances(HashMap::from([(ObjectKey::namespaced("n", "b"), allowance)]))
        };
        assert_eq!(found("2", &pods, allowances(1)), Some((vec!["guarded".to_owned()], 0)));
        assert_eq!(found("2", &pods, allowances(0)), Some((vec!["free".to_owned()], 0)));
        let both = vec!["free".to_owned(), "guarded".to_owned()];
        assert_eq!(found("4", &pods, allowances(0)), Some((both, 1)));
    }

    #[test]
    fn the_node_with_the_least_important_victims_is_chosen() {
        let preemption = |node: &str, violations: usize, victims: &[(i64, &str)]| {
            let victims = victims.iter().map(|(priority, start)| pod("p", *priority, "1", start)).collect();
            Preemption { node: node.to_owned(), victims, violations }
        };
        for (better, worse) in [
            (preemption("a", 0, &[(50, "1"), (50, "1")]), preemption("b", 1, &[(1, "1")])),
            (preemption("a", 0, &[(5, "1"), (5, "1")]), preemption("b", 0, &[(6, "1")])),
            (preemption("a", 0, &[(6, "1"), (1, "1")]), preemption("b", 0, &[(6, "1"), (2, "1")])),
            (preemption("a", 0, &[(-5, "1")]), preemption("b", 0, &[(-5, "1"), (-5, "1")])),
            (preemption("a", 0, &[(6, "2")]), preemption("b", 0, &[(6, "1")])),
        ] {
            assert!(better.harm() < worse.harm(), "{better:?} {worse:?}");
        }
    }
}
