//! The scheduler: assigns pods to nodes, round robin.
//!
//! It checks only hard constraints on nodes: `nodeSelector`, required node affinity, taints and
//! unschedulable nodes. It does not count resources, and ignores pod affinity.

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::condition;
use super::owner::is_deleting;
use super::selector::{of_labels, selects};
use crate::ApiError;
use crate::cluster::{Cluster, ObjectRef};
use crate::controllers::reconcile::{Next, Reconciler};
use crate::controllers::recorder::{Event, record};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{at, flag, items, text};
use crate::store::{CollectionName, Encoded};

/// Assigns pods to nodes.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// The number of assigned pods, which is the position of the round robin.
    round: usize,
}

impl Reconciler for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        ["pods", "nodes"].map(|it| builtin(cluster, "", "v1", it).collection.clone()).to_vec()
    }

    /// Returns a pod without a node, or all of them after a change of a node.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        _: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let waits = |pod: &&Encoded| pod.field("spec.nodeName").is_none_or(str::is_empty);
        if &**collection == "/pods" {
            return after.filter(waits).map(|it| it.key().clone()).into_iter().collect();
        }
        let pods = cluster.list(&builtin(cluster, "", "v1", "pods"), None);
        pods.iter().map(|it| &**it).filter(waits).map(|it| it.key().clone()).collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let pods = builtin(cluster, "", "v1", "pods");
        let Some(pod) = cluster.get(&pods, key).map(|it| it.to_value()) else { return Ok(Next::touch()) };
        if !is_waiting(&pod) {
            return Ok(Next::touch());
        }
        let nodes = cluster.list(&builtin(cluster, "", "v1", "nodes"), None);
        let nodes: Vec<Value> = nodes.iter().map(|it| it.to_value()).collect();
        let writer = writer("kube-scheduler", "kube-scheduler");
        let place = ObjectRef::of(&pods, key);
        let Some(node) = choose(&pod, &nodes, self.round) else {
            let now = cluster.source().stamp();
            let message = format!("0/{} nodes are available", nodes.len());
            let mut reported = false;
            let report = |it: &mut Value| {
                reported = is_waiting(it) && unschedulable(it, &message, &now);
                reported
            };
            cluster.change(&place.part("status"), &writer, report).await?;
            if reported {
                record(cluster, &writer, &pod, &Event::warning("FailedScheduling", message)).await;
            }
            return Ok(Next::touch());
        };
        let name = text(node, "/metadata/name");
        // The uid keeps a decision about a former pod of this name from binding the present one.
        let metadata = json!({ "name": key.name(), "uid": pod["metadata"]["uid"] });
        let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": { "apiVersion": "v1", "kind": "Node", "name": name } });
        match cluster.create(&place.part("binding"), binding, &writer).await {
            Ok(_) => {
                self.round += 1;
                let event = Event::normal("Scheduled", format!("Successfully assigned {key} to {name}"));
                record(cluster, &writer, &pod, &event).await;
                Ok(Next::touch())
            }
            // It has a node already, or is gone.
            Err(refusal) if matches!(refusal.0.code, 404 | 409) => Ok(Next::touch()),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Returns true if a pod waits for this scheduler.
fn is_waiting(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && !is_deleting(pod)
        && matches!(text(pod, "/spec/schedulerName"), "" | "default-scheduler")
        && items(pod, "/spec/schedulingGates").is_empty()
        && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns the node for a pod: the next one of the round robin that fits.
fn choose<'a>(pod: &Value, nodes: &'a [Value], round: usize) -> Option<&'a Value> {
    let wanted = of_labels(pod, "/spec/nodeSelector")?;
    let fits = |node: &&Value| {
        condition::is_true(node, "Ready")
            && !flag(node, "/spec/unschedulable")
            && !is_deleting(node)
            && selects(&wanted, node)
            && matches_node_affinity(pod, node)
            && items(node, "/spec/taints").iter().all(|it| tolerates(pod, it))
    };
    let fitting: Vec<_> = nodes.iter().filter(fits).collect();
    fitting.get(round.checked_rem(fitting.len())?).copied()
}

/// Returns true if a node matches the required node affinity of a pod: all requirements of at least
/// one term.
fn matches_node_affinity(pod: &Value, node: &Value) -> bool {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    if at(pod, required).is_none() {
        return true;
    }
    let labels = |key: &str| node.pointer("/metadata/labels")?.get(key)?.as_str();
    let fields = |key: &str| (key == "metadata.name").then(|| text(node, "/metadata/name"));
    items(pod, &format!("{required}/nodeSelectorTerms")).iter().any(|alternative| {
        let (by_label, by_field) =
            (items(alternative, "/matchExpressions"), items(alternative, "/matchFields"));
        !(by_label.is_empty() && by_field.is_empty())
            && by_label.iter().all(|it| is_true(it, labels(text(it, "/key"))))
            && by_field.iter().all(|it| is_true(it, fields(text(it, "/key"))))
    })
}

/// Returns true if a value, which may be absent, meets a requirement.
fn is_true(term: &Value, value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| items(term, "/values").iter().any(|it| it == value));
    let numbers = || {
        let bound = items(term, "/values").first()?.as_str()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match text(term, "/operator") {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns true if a taint does not keep a pod off a node.
fn tolerates(pod: &Value, taint: &Value) -> bool {
    if text(taint, "/effect") == "PreferNoSchedule" {
        return true;
    }
    items(pod, "/spec/tolerations").iter().any(|it| {
        let effect = matches!(text(it, "/effect"), "") || text(it, "/effect") == text(taint, "/effect");
        let key = text(it, "/key").is_empty() || text(it, "/key") == text(taint, "/key");
        let exists = text(it, "/operator") == "Exists";
        let value = exists || (!text(it, "/key").is_empty() && text(it, "/value") == text(taint, "/value"));
        effect && key && value
    })
}

/// Sets the condition that there is no node for a pod. Returns true if that changed anything.
fn unschedulable(pod: &mut Value, message: &str, now: &str) -> bool {
    let is_known = |it: &&Value| it["status"] == "False" && it["message"] == message;
    if condition::find(pod, "PodScheduled").filter(is_known).is_some() {
        return false;
    }
    let mut conditions = items(pod, "/status/conditions").to_vec();
    condition::set(&mut conditions, "PodScheduled", "False", "Unschedulable", message, now);
    pod["status"]["conditions"] = conditions.into();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, more: Value) -> Value {
        let mut node = json!({ "metadata": { "name": name, "labels": { "disk": name } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        node["spec"] = more;
        node
    }

    #[test]
    fn pods_are_assigned_round_robin_to_the_nodes_that_fit() {
        let taint = json!({ "key": "only", "value": "gpu", "effect": "NoSchedule" });
        let nodes = [
            node("a", json!({})),
            node("b", json!({ "unschedulable": true })),
            node("c", json!({ "taints": [taint] })),
            node("d", json!({})),
        ];
        let chosen = |spec: Value| -> Vec<String> {
            let pod = json!({ "spec": spec });
            let name = |it: &Value| text(it, "/metadata/name").to_owned();
            (0..4).map(|round| choose(&pod, &nodes, round).map_or("-".to_owned(), name)).collect()
        };
        assert_eq!(chosen(json!({})), ["a", "d", "a", "d"]);
        assert_eq!(chosen(json!({ "nodeSelector": { "disk": "d" } })), ["d", "d", "d", "d"]);
        assert_eq!(chosen(json!({ "nodeSelector": { "disk": "x" } })), ["-", "-", "-", "-"]);
        let tolerating = |it: Value| json!({ "tolerations": [it], "nodeSelector": { "disk": "c" } });
        for (toleration, expected) in [
            (json!({ "key": "only", "operator": "Equal", "value": "gpu", "effect": "NoSchedule" }), "c"),
            (json!({ "key": "only", "operator": "Exists" }), "c"),
            (json!({ "operator": "Exists" }), "c"),
            (json!({ "key": "only", "value": "cpu" }), "-"),
            (json!({ "key": "only", "operator": "Exists", "effect": "NoExecute" }), "-"),
        ] {
            assert_eq!(chosen(tolerating(toleration.clone()))[0], expected, "{toleration}");
        }
    }

    #[test]
    fn a_pod_may_require_nodes_by_name_and_by_label() {
        let nodes = [node("a", json!({})), node("b", json!({}))];
        let chosen = |alternatives: Value| {
            let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": alternatives } });
            let pod = json!({ "spec": { "affinity": { "nodeAffinity": required } } });
            choose(&pod, &nodes, 0).map(|it| text(it, "/metadata/name").to_owned())
        };
        let term = |key: &str, operator: &str| json!({ "key": key, "operator": operator, "values": ["b"] });
        for (alternatives, expected) in [
            (json!([{ "matchFields": [term("metadata.name", "In")] }]), Some("b")),
            (json!([{ "matchExpressions": [term("disk", "NotIn")] }]), Some("a")),
            (json!([{ "matchExpressions": [term("disk", "In"), term("none", "Exists")] }]), None),
            (
                json!([{ "matchExpressions": [term("none", "Exists")] }, { "matchExpressions": [term("disk", "In")] }]),
                Some("b"),
            ),
            (json!([{ "matchExpressions": [term("disk", "Gt")] }]), None),
            (json!([{}]), None),
        ] {
            assert_eq!(chosen(alternatives.clone()).as_deref(), expected, "{alternatives}");
        }
    }

    #[test]
    fn only_pods_that_wait_for_this_scheduler_are_assigned() {
        for (pod, expected) in [
            (json!({ "spec": {} }), true),
            (json!({ "spec": { "nodeName": "a" } }), false),
            (json!({ "spec": { "schedulerName": "other" } }), false),
            (json!({ "spec": { "schedulerName": "default-scheduler" } }), true),
            (json!({ "spec": { "schedulingGates": [{ "name": "g" }] } }), false),
            (json!({ "metadata": { "deletionTimestamp": "t" }, "spec": {} }), false),
            (json!({ "spec": {}, "status": { "phase": "Failed" } }), false),
        ] {
            assert_eq!(is_waiting(&pod), expected, "{pod}");
        }
        let mut pod = json!({ "spec": {} });
        assert!(unschedulable(&mut pod, "0/3 nodes are available", "t1"));
        assert!(!unschedulable(&mut pod, "0/3 nodes are available", "t2"), "reported already");
    }
}
