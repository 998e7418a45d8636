//! The next steps for a DaemonSet: pods that nodes miss, pods that they should not have, and a
//! rolling update, as in k8s.io/kubernetes v1.36.4 pkg/controller/daemon/daemon_controller.go and
//! update.go. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::placement::{Placement, Wanted, is_updated, node_of};
use crate::int_or_percent::scaled;
use crate::json_access::{at, number, text};
use crate::object::Pod;

/// The inputs of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) set: &'a Value,
    pub(super) hash: &'a str,
    pub(super) placement: &'a Placement,
    pub(super) now: Timestamp,
}

/// The pods of a DaemonSet, by node.
#[derive(Debug)]
pub(super) struct ByNode<'a> {
    observed: Observed<'a>,
    /// The right of each node that exists to a pod.
    wanted: BTreeMap<String, Wanted>,
    /// The pods of each node, and of those that do not exist, the oldest first.
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
}

/// The steps for a DaemonSet.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// The pods that have ended, by node: they are deleted too, the failed ones after a back-off.
    pub(super) ended: Vec<(String, Arc<Pod>)>,
}

/// The pods on one node during an update.
#[derive(Clone, Copy, Default)]
struct Pair<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

impl<'a> ByNode<'a> {
    pub(super) fn new<'n>(
        observed: Observed<'a>,
        nodes: impl Iterator<Item = &'n Value>,
        claimed: &[Arc<Pod>],
    ) -> Self {
        let wanted =
            nodes.map(|it| (text(it, "/metadata/name").to_owned(), observed.placement.on(it))).collect();
        let mut pods: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in claimed.iter().filter(|it| !(it.has_ended && it.is_deleting)) {
            if let Some(node) = node_of(pod) {
                pods.entry(node.to_owned()).or_default().push(Arc::clone(pod));
            }
        }
        for on_node in pods.values_mut() {
            let key = |it: &Arc<Pod>| {
                let field = |pointer: &str| text(it, pointer).to_owned();
                (it.node().is_empty(), field("/metadata/creationTimestamp"), field("/metadata/name"))
            };
            on_node.sort_by_cached_key(key);
        }
        Self { observed, wanted, pods }
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = (&str, Wanted)> {
        self.wanted.iter().map(|(node, wanted)| (node.as_str(), *wanted))
    }

    pub(super) fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the steps that give each node its pod; without any, those of an update.
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        for (node, wanted) in self.wanted() {
            self.keep(node, wanted, &mut plan);
        }
        // Pods that wait for a node that does not exist.
        let without = self.pods.iter().filter(|(node, _)| !self.wanted.contains_key(*node));
        let waiting = without.flat_map(|(_, pods)| pods).filter(|it| it.node().is_empty() && !it.is_deleting);
        plan.delete.extend(waiting.cloned());
        let rolls = text(self.observed.set, "/spec/updateStrategy/type") != "OnDelete";
        if rolls && plan.create.is_empty() && plan.delete.is_empty() && plan.ended.is_empty() {
            match self.surge() {
                0 => self.replace(&mut plan),
                surge => self.surge_by(surge, &mut plan),
            }
        }
        plan
    }

    /// Adds the steps for one node, apart from an update.
    fn keep(&self, node: &str, wanted: Wanted, plan: &mut Plan) {
        let pods = self.on(node);
        if wanted == Wanted::No {
            plan.delete.extend(pods.iter().filter(|it| !it.is_deleting).cloned());
            return;
        }
        if pods.is_empty() {
            plan.create.extend((wanted == Wanted::Yes).then(|| node.to_owned()));
            return;
        }
        let (ended, running): (Vec<_>, Vec<_>) =
            pods.iter().filter(|it| !it.is_deleting).partition(|it| it.has_ended);
        plan.ended.extend(ended.into_iter().map(|it| (node.to_owned(), Arc::clone(it))));
        if self.surge() == 0 {
            plan.delete.extend(running.into_iter().skip(1).cloned());
            return;
        }
        if running.is_empty() && wanted == Wanted::Yes {
            plan.create.push(node.to_owned());
        }
        if running.len() <= 1 {
            return;
        }
        let mut pair = Pair::default();
        for pod in running {
            let place = if self.is_updated(pod) { &mut pair.new } else { &mut pair.old };
            match place {
                None => *place = Some(pod),
                Some(_) => plan.delete.push(Arc::clone(pod)),
            }
        }
        if let (Some(new), Some(old)) = (pair.new, pair.old)
            && (old.ready.is_none() || self.is_available(new))
        {
            plan.delete.push(Arc::clone(old));
        }
    }

    /// Deletes old pods, as many as may be unavailable.
    fn replace(&self, plan: &mut Plan) {
        let (mut unavailable, mut candidates) = (0, Vec::new());
        for node in self.nodes_to_update() {
            match self.pair(node) {
                None | Some(Pair { new: None, old: None } | Pair { new: Some(_), old: Some(_) }) => {
                    unavailable += 1;
                }
                Some(Pair { new: Some(new), old: None }) => {
                    unavailable += usize::from(!self.is_available(new));
                }
                Some(Pair { new: None, old: Some(old) }) if !self.is_available(old) => {
                    unavailable += 1;
                    plan.delete.push(Arc::clone(old));
                }
                Some(Pair { new: None, old: Some(old) }) => candidates.push(Arc::clone(old)),
            }
        }
        let allowed = self.limit("maxUnavailable").max(usize::from(!self.wanted.is_empty()));
        plan.delete.extend(candidates.into_iter().take(allowed.saturating_sub(unavailable)));
    }

    /// Creates new pods beside old ones, and deletes the old ones of those that are available.
    fn surge_by(&self, limit: usize, plan: &mut Plan) {
        let (mut surging, mut available, mut candidates, mut sunset) =
            (0_usize, 0_usize, Vec::new(), Vec::new());
        for node in self.nodes_to_update() {
            let Some(pair) = self.pair(node) else {
                surging += 1;
                continue;
            };
            available += usize::from(pair.old.or(pair.new).is_some_and(|it| self.is_available(it)));
            let runs = self.wanted.get(node) == Some(&Wanted::Yes);
            match (pair.new, pair.old) {
                (_, None) => {}
                (None, Some(old)) => match (self.is_available(old), runs) {
                    (false, false) => plan.delete.push(Arc::clone(old)),
                    (false, true) => plan.create.push(node.to_owned()),
                    (true, false) => sunset.push(Arc::clone(old)),
                    (true, true) => candidates.push(node.to_owned()),
                },
                (Some(new), Some(_)) if !self.is_available(new) => surging += 1,
                (Some(_), Some(old)) => plan.delete.push(Arc::clone(old)),
            }
        }
        plan.delete.extend(sunset.into_iter().take(available.saturating_sub(self.desired())));
        plan.create.extend(candidates.into_iter().take(limit.saturating_sub(surging)));
    }

    /// Returns the nodes that have a pod or should have one.
    fn nodes_to_update(&self) -> impl Iterator<Item = &str> {
        let missing = self.wanted().filter(|(node, it)| *it == Wanted::Yes && self.on(node).is_empty());
        self.pods.keys().map(String::as_str).chain(missing.map(|(node, _)| node))
    }

    /// Returns the pods of a node that are not being deleted; `None` if there are two of a kind.
    fn pair(&self, node: &str) -> Option<Pair<'_>> {
        let mut pair = Pair::default();
        for pod in self.on(node).iter().filter(|it| !it.is_deleting) {
            let place = if self.is_updated(pod) { &mut pair.new } else { &mut pair.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }

    /// Returns the number of nodes that should have a pod.
    pub(super) fn desired(&self) -> usize {
        self.wanted.values().filter(|it| **it == Wanted::Yes).count()
    }

    fn surge(&self) -> usize {
        self.limit("maxSurge")
    }

    fn limit(&self, field: &str) -> usize {
        let value = at(self.observed.set, &format!("/spec/updateStrategy/rollingUpdate/{field}"));
        let desired = i64::try_from(self.desired()).unwrap_or(i64::MAX);
        usize::try_from(scaled(value, desired, true)).unwrap_or(0)
    }

    pub(super) fn is_updated(&self, pod: &Value) -> bool {
        is_updated(self.observed.set, pod, self.observed.hash)
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        let seconds = number(self.observed.set, "/spec/minReadySeconds").unwrap_or(0);
        pod.available_after(seconds, self.observed.now).is_some_and(|it| it.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::revisions::REVISION_LABEL;

    fn pod(node: &str, revision: &str, is_ready: bool) -> Arc<Pod> {
        let status = if is_ready { "True" } else { "False" };
        Arc::new(Pod::from(json!({
            "metadata": { "name": format!("{node}-{revision}"), "labels": { REVISION_LABEL: revision } },
            "spec": { "nodeName": node },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:10Z" }] } })))
    }

    fn changed(pod: &Arc<Pod>, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
        let mut pod = Value::clone(pod);
        change(&mut pod);
        Arc::new(Pod::from(pod))
    }

    /// The creations and deletions of a plan on three nodes, as `+node` and `-pod`.
    fn steps(strategy: Value, pods: &[Arc<Pod>]) -> String {
        let set = json!({ "metadata": { "name": "agent" },
            "spec": { "updateStrategy": strategy, "template": { "spec": {} } } });
        let placement = Placement::new(&set, "new");
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let nodes = ["a", "b", "c"].map(|it| json!({ "metadata": { "name": it } }));
        let observed = Observed { set: &set, hash: "new", placement: &placement, now };
        let plan = ByNode::new(observed, nodes.iter(), pods).plan();
        let created = plan.create.iter().map(|it| format!("+{it}"));
        let deleted = plan.delete.iter().map(|it| format!("-{}", text(it, "/metadata/name")));
        let ended = plan.ended.iter().map(|(_, it)| format!("x{}", text(it, "/metadata/name")));
        created.chain(deleted).chain(ended).collect::<Vec<_>>().join(" ")
    }

    fn rolling(unavailable: u32, surge: u32) -> Value {
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge } })
    }

    #[test]
    fn each_node_has_one_pod() {
        let ready = |node| pod(node, "new", true);
        let failed = changed(&ready("a"), |it| it["status"]["phase"] = "Failed".into());
        let gone = changed(&failed, |it| it["metadata"]["deletionTimestamp"] = "t".into());
        let mut twice = vec![ready("a"), ready("b"), ready("c"), pod("c", "newer", true)];
        for (pods, expected) in [
            (vec![], "+a +b +c"),
            (vec![ready("a"), ready("c")], "+b"),
            (vec![failed, ready("b"), ready("c")], "xa-new"),
            (vec![gone, ready("b"), ready("c")], "+a"),
            (std::mem::take(&mut twice), "-c-newer"),
        ] {
            assert_eq!(steps(rolling(1, 0), &pods), expected, "{pods:?}");
        }
        let mut waiting =
            Value::clone(&Placement::new(&json!({ "metadata": { "name": "agent" } }), "new").pod_for("gone"));
        waiting["metadata"]["name"] = "waiting".into();
        let pods = [ready("a"), ready("b"), ready("c"), Arc::new(Pod::from(waiting))];
        assert_eq!(steps(rolling(1, 0), &pods), "-waiting", "its node does not exist");
    }

    #[test]
    fn an_update_replaces_no_more_pods_than_may_be_unavailable() {
        let old = |node| pod(node, "old", true);
        for (unavailable, pods, expected) in [
            (1, vec![old("a"), old("b"), old("c")], "-a-old"),
            (2, vec![old("a"), old("b"), old("c")], "-a-old -b-old"),
            (1, vec![pod("a", "new", false), old("b"), old("c")], ""),
            (1, vec![pod("a", "new", true), old("b"), old("c")], "-b-old"),
            (1, vec![pod("a", "old", false), pod("b", "old", false), old("c")], "-a-old -b-old"),
            (0, vec![old("a"), old("b"), old("c")], "-a-old"),
        ] {
            assert_eq!(steps(rolling(unavailable, 0), &pods), expected, "{pods:?}");
        }
        assert_eq!(steps(json!({ "type": "OnDelete" }), &[old("a"), old("b"), old("c")]), "");
    }

    #[test]
    fn with_a_surge_new_pods_start_beside_the_old_ones() {
        let old = |node| pod(node, "old", true);
        for (pods, expected) in [
            (vec![old("a"), old("b"), old("c")], "+a"),
            (vec![old("a"), pod("a", "new", false), old("b"), old("c")], ""),
            (vec![old("a"), pod("a", "new", true), old("b"), old("c")], "-a-old"),
            (vec![pod("a", "new", true), old("b"), old("c")], "+b"),
            (vec![pod("a", "old", false), old("b"), old("c")], "+a +b"),
            (vec![pod("a", "old", false), pod("a", "new", false), old("b"), old("c")], "-a-old"),
        ] {
            assert_eq!(steps(rolling(0, 1), &pods), expected, "{pods:?}");
        }
    }
}
