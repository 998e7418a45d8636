//! The scheduler: assigns pods to nodes, round robin.
//!
//! It checks only hard constraints on nodes: `nodeSelector`, required node affinity, taints and
//! unschedulable nodes. It does not count resources, and ignores pod affinity.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::ObjectKey;
use dogwatch_informer::Change;
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::collection::{Collection, Writer, code};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::index::NODE;
use crate::json_access::{at, flag, items, text};
use crate::object::{JsonObject, Pod, has_ended};
use crate::owner::is_deleting;
use crate::recorder::{Event, Recorder};
use crate::selector::{of_labels, selects};

/// The name of the component.
const NAME: &str = "scheduler";
const MANAGER: &str = "kube-scheduler";

/// Assigns pods to nodes.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pods: Collection<Pod>,
    nodes: Collection<JsonObject>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The number of assigned pods, which is the position of the round robin.
    round: AtomicUsize,
}

impl Scheduler {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            round: AtomicUsize::new(0),
        }
    }

    /// Reports that there is no node for a pod.
    async fn report(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        nodes: usize,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        let now = self.environment.stamp();
        let message = format!("0/{nodes} nodes are available");
        let mut reported = false;
        let report = |it: &mut Value| {
            reported = is_waiting(it) && unschedulable(it, &message, &now);
            reported
        };
        self.pods.change(key, "status", writer, report).await?;
        if reported {
            self.recorder.record(MANAGER, pod, Event::warning("FailedScheduling", message)).await;
        }
        Ok(())
    }
}

impl Component for Scheduler {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes pods without a node: one that has changed, and all
    /// of them after a change of a node.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let waits = |change: &Change<Pod>| match change {
            Change::Deleted(_) => false,
            change => change.object().node().is_empty(),
        };
        let waiting = self.pods.clone();
        let unassigned = move |_: &JsonObject| {
            waiting.store.index_keys(NODE, "").expect("indexes are added with the informer")
        };
        Controller::of(Watched::new(&self.pods.informer).when(Predicate::new(waits)))
            .watches(&self.nodes.informer, unassigned)
    }
}

impl Reconciler for Scheduler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(pod) = self.pods.get(key).filter(|it| is_waiting(it)) else { return Ok(Action::Done) };
        let writer = Writer { manager: MANAGER, context };
        let nodes = self.nodes.store.snapshot();
        let round = self.round.load(Ordering::Relaxed);
        let Some(node) = choose(&pod, nodes.iter().map(|it| &***it), round) else {
            self.report(key, &pod, nodes.len(), writer).await?;
            return Ok(Action::Done);
        };
        let name = text(node, "/metadata/name");
        // The uid keeps a decision about a former pod of this name from binding the present one.
        let metadata = json!({ "name": key.name(), "uid": pod["metadata"]["uid"] });
        let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": { "apiVersion": "v1", "kind": "Node", "name": name } });
        match self.pods.post(key, "binding", &binding, writer).await {
            Ok(_) => {
                self.round.fetch_add(1, Ordering::Relaxed);
                let event = Event::normal("Scheduled", format!("Successfully assigned {key} to {name}"));
                self.recorder.record(MANAGER, &pod, event).await;
                Ok(Action::Done)
            }
            Err(error) if matches!(code(&error), 404 | 409) => {
                // It has a node already, or is gone; otherwise another attempt may succeed.
                let same = |it: &Arc<Pod>| it["metadata"]["uid"] == pod["metadata"]["uid"] && is_waiting(it);
                let waits = self.pods.live(key).await?.is_some_and(|it| same(&it));
                if waits { Err(error) } else { Ok(Action::Done) }
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns true if a pod waits for this scheduler.
fn is_waiting(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && !is_deleting(pod)
        && matches!(text(pod, "/spec/schedulerName"), "" | "default-scheduler")
        && items(pod, "/spec/schedulingGates").is_empty()
        && !has_ended(pod)
}

/// Returns the node for a pod: the next one of the round robin that fits.
fn choose<'a>(pod: &Value, nodes: impl IntoIterator<Item = &'a Value>, round: usize) -> Option<&'a Value> {
    let wanted = of_labels(pod, "/spec/nodeSelector")?;
    let fits = |node: &&Value| {
        condition::is_true(node, "Ready")
            && !flag(node, "/spec/unschedulable")
            && !is_deleting(node)
            && selects(&wanted, node)
            && matches_node_affinity(pod, node)
            && items(node, "/spec/taints").iter().all(|it| tolerates(pod, it))
    };
    let fitting: Vec<_> = nodes.into_iter().filter(fits).collect();
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
