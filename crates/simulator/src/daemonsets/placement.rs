//! The nodes that get a pod of a DaemonSet, and the pods for them. Pure.

use serde_json::{Value, json};

use crate::json_access::{flag, items, text};
use crate::node_fit::{matches_selection, untolerated};
use crate::object::Pod;
use crate::pod_template::new_pod;
use crate::revisions::REVISION_LABEL;

/// The label of the number of the template, which predates revisions.
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// The taints that all pods of DaemonSets tolerate: `AddOrUpdateDaemonPodTolerations` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/daemon/util/daemonset_util.go.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that those in the network of their node tolerate too.
const NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The pods of a DaemonSet before they have a node.
#[derive(Debug)]
pub(super) struct Placement {
    pod: Value,
}

/// The right of a node to a pod of a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It should have one.
    Yes,
    /// It should have none, but may keep one.
    Stays,
    No,
}

impl Placement {
    /// Creates the placement of a DaemonSet whose current revision has this hash.
    pub(super) fn new(set: &Value, hash: &str) -> Self {
        let mut pod = new_pod(set, &set["spec"]["template"]);
        let in_node_network = flag(&pod, "/spec/hostNetwork").then_some(NETWORK);
        let mut tolerations = items(&pod, "/spec/tolerations").to_vec();
        for (key, effect) in TOLERATED.into_iter().chain(in_node_network) {
            let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
            if !tolerations.contains(&toleration) {
                tolerations.push(toleration);
            }
        }
        pod["spec"]["tolerations"] = tolerations.into();
        pod["metadata"]["labels"][REVISION_LABEL] = hash.into();
        if let Some(generation) = generation(set) {
            pod["metadata"]["labels"][GENERATION_LABEL] = generation.into();
        }
        Self { pod }
    }

    /// Returns whether a node has a pod.
    pub(super) fn on(&self, node: &Value) -> Wanted {
        let named = text(&self.pod, "/spec/nodeName");
        if !(named.is_empty() || named == text(node, "/metadata/name")) || !matches_selection(&self.pod, node)
        {
            return Wanted::No;
        }
        if untolerated(&self.pod, node, &["NoSchedule", "NoExecute"]).is_none() {
            Wanted::Yes
        } else if untolerated(&self.pod, node, &["NoExecute"]).is_none() {
            Wanted::Stays
        } else {
            Wanted::No
        }
    }

    /// Returns a new pod for a node. The scheduler assigns it to that node only.
    pub(super) fn pod_for(&self, node: &str) -> Value {
        let mut pod = self.pod.clone();
        let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let required =
            &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        *required = json!({ "nodeSelectorTerms": [term] });
        pod
    }
}

/// Returns the node that a pod has, or is for.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    if !pod.node().is_empty() {
        return Some(pod.node());
    }
    let names = crate::node_fit::named_nodes(pod)?;
    match names[..] {
        [name] => Some(name),
        _ => None,
    }
}

/// Returns true if a pod has the current template of its DaemonSet.
pub(super) fn is_updated(set: &Value, pod: &Value, hash: &str) -> bool {
    let label = |name: &str| pod["metadata"]["labels"].get(name).and_then(Value::as_str);
    label(REVISION_LABEL) == Some(hash)
        || generation(set).is_some_and(|it| label(GENERATION_LABEL) == Some(it))
}

fn generation(set: &Value) -> Option<&str> {
    let generation = set["metadata"]["annotations"].get(GENERATION)?.as_str()?;
    generation.parse::<i64>().is_ok().then_some(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(spec: Value) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "agent", "namespace": "n", "uid": "u", "annotations": { GENERATION: "2" } },
            "spec": { "template": { "metadata": { "labels": { "app": "agent" } }, "spec": spec } } })
    }

    #[test]
    fn taints_and_selectors_decide_which_nodes_have_a_pod() {
        let node = |key: &str, effect: &str| {
            json!({ "metadata": { "name": "a", "labels": { "disk": "ssd" } },
                "spec": { "taints": [{ "key": key, "effect": effect }] } })
        };
        for (spec, key, effect, expected) in [
            (json!({}), "mine", "PreferNoSchedule", Wanted::Yes),
            (json!({}), "mine", "NoSchedule", Wanted::Stays),
            (json!({}), "mine", "NoExecute", Wanted::No),
            (json!({}), "node.kubernetes.io/unreachable", "NoExecute", Wanted::Yes),
            (json!({}), "node.kubernetes.io/network-unavailable", "NoSchedule", Wanted::Stays),
            (
                json!({ "hostNetwork": true }),
                "node.kubernetes.io/network-unavailable",
                "NoSchedule",
                Wanted::Yes,
            ),
            (json!({ "nodeSelector": { "disk": "hdd" } }), "mine", "PreferNoSchedule", Wanted::No),
            (json!({ "nodeName": "b" }), "mine", "PreferNoSchedule", Wanted::No),
        ] {
            let placement = Placement::new(&set(spec.clone()), "5d");
            assert_eq!(placement.on(&node(key, effect)), expected, "{spec} {key} {effect}");
        }
    }

    #[test]
    fn a_pod_is_for_one_node_and_carries_its_revision() {
        let set = set(json!({ "containers": [] }));
        let pod = Placement::new(&set, "5d").pod_for("node-7");
        assert_eq!(pod["metadata"]["generateName"], "agent-");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({ "app": "agent", REVISION_LABEL: "5d", GENERATION_LABEL: "2" })
        );
        let mut pod = Pod::from(pod);
        assert_eq!(node_of(&pod), Some("node-7"));
        assert!(is_updated(&set, &pod, "5d") && is_updated(&set, &pod, "other"), "by its generation");
        let mut newer = set.clone();
        newer["metadata"]["annotations"][GENERATION] = "3".into();
        assert!(!is_updated(&newer, &pod, "other"));
        pod = Pod::from(json!({ "spec": { "nodeName": "node-8" } }));
        assert_eq!((node_of(&pod), node_of(&Pod::from(json!({})))), (Some("node-8"), None));
    }
}
