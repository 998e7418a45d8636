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
use crate::json_access::{flag, items, text};
use crate::node_fit::{matches_selection, untolerated};
use crate::object::{JsonObject, Pod, has_ended};
use crate::owner::is_deleting;
use crate::recorder::{Event, Recorder};

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
    let fits = |node: &&Value| {
        condition::is_true(node, "Ready")
            && !flag(node, "/spec/unschedulable")
            && !is_deleting(node)
            && matches_selection(pod, node)
            && untolerated(pod, node, &["NoSchedule", "NoExecute"]).is_none()
    };
    let fitting: Vec<_> = nodes.into_iter().filter(fits).collect();
    fitting.get(round.checked_rem(fitting.len())?).copied()
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
