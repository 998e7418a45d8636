//! The scheduler: assigns pods to nodes that have room for them and meet their constraints.
//!
//! It filters by requests, node selector and required node affinity, taints, host ports, volumes,
//! topology spread, and required affinity and anti-affinity between pods. Of the nodes that are
//! left, the next one of the round robin gets the pod: preferences are not weighed. If no node has
//! room, pods of lower priority are preempted.
//!
//! The `mod` lines below are in layer order.

mod resources;
mod affinity;
mod volume_fit;
mod preemption;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{
    Action, BoxError, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched,
};
use dogwatch_core::{Object, ObjectKey};
use dogwatch_informer::{Change, ScopedRegistration};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer, code};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::index::{NODE, WAITING_CLAIM};
use crate::json_access::{flag, items, text};
use crate::node_fit::{matches_selection, named_nodes, untolerated};
use crate::object::{JsonObject, Pod, has_ended};
use crate::owner::is_deleting;
use crate::pod_disruption::{Cause, disrupt};
use crate::pod_terms::{CONSTRAINED, is_constrained};
use crate::recorder::{Event, Recorder};
use affinity::Constraints;
use preemption::{Nominated, Preemption, may_preempt};
use resources::{Amounts, Usage, UsageTracker, priority, requests};
use volume_fit::{Volumes, VolumesOfPod};

/// The name of the component.
const NAME: &str = "scheduler";
const MANAGER: &str = "kube-scheduler";

/// The reason that is reported of pods that are deleted for others.
const PREEMPTED: Cause =
    ("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod");

/// The time after which a pod with constraints on others is tried again if the cache does not show
/// all assigned pods yet.
const ASSUMED_RETRY: Duration = Duration::from_millis(2);

/// Assigns pods to nodes.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pods: Collection<Pod>,
    nodes: Collection<JsonObject>,
    /// The volumes of pods, if their claims are bound by the simulator.
    volumes: Option<Volumes>,
    /// PodDisruptionBudgets, if the simulator keeps their status.
    budgets: Option<Collection<JsonObject>>,
    usage: Arc<Mutex<Usage>>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The position of the round robin among all nodes.
    next: AtomicUsize,
}

/// The needs of a pod.
struct Needs<'a> {
    pod: &'a Pod,
    requests: Amounts,
    constraints: Constraints,
    volumes: VolumesOfPod,
    /// The pods whose room it may not have.
    nominated: Nominated,
}

/// The change of the node that a pod waits for.
#[derive(Debug)]
enum Nomination {
    Keep,
    Clear,
    /// Pods are deleted on this node.
    Set(Preemption),
}

impl Scheduler {
    pub(crate) fn new(
        caches: &Caches,
        recorder: &Recorder,
        environment: &Arc<Environment>,
        has_workloads: bool,
    ) -> Self {
        Self {
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            volumes: has_workloads.then(|| Volumes::new(caches)),
            budgets: has_workloads.then(|| caches.budgets.get()),
            usage: Arc::default(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            next: AtomicUsize::new(0),
        }
    }

    /// Reports that there is no node for a pod, and the node that it waits for.
    async fn report(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        message: String,
        nomination: &Nomination,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        let now = self.environment.stamp();
        let mut reported = false;
        let report = |it: &mut Value| {
            if !is_waiting(it) {
                return false;
            }
            reported = unschedulable(it, &message, &now);
            let nominated = nominate(it, nomination);
            reported || nominated
        };
        self.pods.change(key, "status", writer, report).await?;
        if reported {
            self.recorder.record(MANAGER, pod, Event::warning("FailedScheduling", message)).await;
        }
        Ok(())
    }

    /// Decides whether other pods are deleted for one that no node has room for.
    fn preempt(&self, needs: &Needs<'_>) -> Nomination {
        if !may_preempt(needs.pod, &self.pods) {
            return Nomination::Keep;
        }
        let snapshot = self.nodes.store.snapshot();
        let possible =
            |it: &&Arc<JsonObject>| excluded(needs, it).is_none() && needs.constraints.violated(it).is_none();
        let nodes = snapshot.iter().filter(possible).map(|it| -> &Value { it });
        let objects = (&self.pods, self.budgets.as_ref());
        let usage = self.usage.lock();
        let chosen = preemption::choose(needs.pod, &needs.requests, nodes, &usage, &needs.nominated, objects);
        chosen.map_or(Nomination::Clear, Nomination::Set)
    }

    /// Deletes the victims of a pod.
    async fn disrupt(&self, pod: &Pod, preemption: &Preemption, writer: Writer<'_>) -> Result<(), Error> {
        let (now, mut failed) = (self.environment.stamp(), FirstError::default());
        for victim in preemption.victims.iter().filter(|it| !it.is_deleting) {
            let Some(key) = victim.key() else { continue };
            let disrupted = disrupt(&self.pods, &key, victim, PREEMPTED, &now, writer).await;
            if failed.keep(disrupted).is_some() {
                let (uid, node) = (text(pod, "/metadata/uid"), &preemption.node);
                let event = Event::normal("Preempted", format!("Preempted by pod {uid} on node {node}"));
                self.recorder.record(MANAGER, victim, event).await;
            }
        }
        failed.into_result()
    }

    /// Returns the name of the node for a pod, or the reasons why there is none.
    fn choose(&self, needs: &Needs<'_>) -> Result<String, String> {
        let nodes = self.nodes.store.snapshot();
        let (count, start) = (nodes.len(), self.next.load(Ordering::Relaxed));
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let usage = self.usage.lock();
        if let Some(names) = named_nodes(needs.pod) {
            let named: Vec<_> = names.iter().filter_map(|it| self.nodes.store.get_named(None, it)).collect();
            for node in &named {
                match misfit(needs, node, &usage) {
                    None => return Ok(node.header().name.to_owned()),
                    Some(reason) => *reasons.entry(reason).or_default() += 1,
                }
            }
            let others = count.saturating_sub(named.len());
            *reasons.entry(NOT_SELECTED.to_owned()).or_default() += others;
            return Err(unavailable(count, &reasons));
        }
        let all: Vec<&Arc<JsonObject>> = nodes.iter().collect();
        let first = start.checked_rem(count).unwrap_or(0);
        for position in (first..count).chain(0..first) {
            match misfit(needs, all[position], &usage) {
                None => {
                    self.next.store(position.wrapping_add(1), Ordering::Relaxed);
                    return Ok(all[position].header().name.to_owned());
                }
                Some(reason) => *reasons.entry(reason).or_default() += 1,
            }
        }
        Err(unavailable(count, &reasons))
    }

    async fn bind(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        node: &str,
        writer: Writer<'_>,
    ) -> Result<Action, Error> {
        // The uid keeps a decision about a former pod of this name from binding the present one.
        let metadata = json!({ "name": key.name(), "uid": pod["metadata"]["uid"] });
        let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": { "apiVersion": "v1", "kind": "Node", "name": node } });
        match self.pods.post(key, "binding", &binding, writer).await {
            Ok(_) => {
                let event = Event::normal("Scheduled", format!("Successfully assigned {key} to {node}"));
                self.recorder.record(MANAGER, pod, event).await;
                Ok(Action::Done)
            }
            Err(error) => {
                self.usage.lock().remove(text(pod, "/metadata/uid"));
                if !matches!(code(&error), 404 | 409) {
                    return Err(error);
                }
                // It has a node already, or is gone; otherwise another attempt may succeed.
                let same = |it: &Arc<Pod>| it["metadata"]["uid"] == pod["metadata"]["uid"] && is_waiting(it);
                let live = self.pods.live(key).await?;
                if live.as_ref().is_some_and(same) {
                    return Err(error);
                }
                if let Some(live) = live.filter(|it| !it.node().is_empty() && !it.has_ended) {
                    self.usage.lock().assign(
                        text(&live, "/metadata/uid"),
                        live.node(),
                        requests(&live),
                        priority(&live),
                        false,
                    );
                }
                Ok(Action::Done)
            }
        }
    }
}

impl Component for Scheduler {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes pods without a node: one that has changed; all of
    /// them after a change of a node, or when a pod leaves one; those with constraints on other
    /// pods when one gets a node; and those that use a claim that has changed.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let waits = |change: &Change<Pod>| match change {
            Change::Deleted(_) => false,
            change => change.object().node().is_empty(),
        };
        let left = |change: &Change<Pod>| match change {
            Change::Deleted(_) => !change.object().node().is_empty(),
            Change::Updated { old, new } => new.has_ended && !old.has_ended,
            _ => false,
        };
        let came = |change: &Change<Pod>| match change {
            Change::Updated { old, new } => old.node().is_empty() && !new.node().is_empty(),
            _ => false,
        };
        let indexed = |pods: &Collection<Pod>, index: &'static str, value: &str| {
            pods.store.index_keys(index, value).expect("indexes are added with the informer")
        };
        let [by_node, by_end, by_start, by_claim] = [(); 4].map(|()| self.pods.clone());
        let builder = Controller::of(Watched::new(&self.pods.informer).when(Predicate::new(waits)))
            .watches(&self.nodes.informer, move |_: &JsonObject| indexed(&by_node, NODE, ""))
            .watches(Watched::new(&self.pods.informer).when(Predicate::new(left)), move |_: &Pod| {
                indexed(&by_end, NODE, "")
            })
            .watches(Watched::new(&self.pods.informer).when(Predicate::new(came)), move |_: &Pod| {
                indexed(&by_start, CONSTRAINED, "")
            });
        let builder = match &self.budgets {
            None => builder,
            Some(budgets) => builder.needs(&budgets.informer),
        };
        match &self.volumes {
            None => builder,
            Some(volumes) => volumes.watch(builder, move |claim: &JsonObject| {
                let key = claim.key().map(|it| it.to_string()).unwrap_or_default();
                indexed(&by_claim, WAITING_CLAIM, &key)
            }),
        }
    }

    /// Tracks the requests of the pods on each node. No pod may be assigned before all are known.
    fn prepare(&self) -> BoxFuture<'static, Result<Option<ScopedRegistration>, BoxError>> {
        let (pods, usage) = (self.pods.informer.clone(), Arc::clone(&self.usage));
        let tracking = async move {
            let handler = pods.add_handler(UsageTracker(usage))?.scoped();
            pods.start();
            handler.synced().await?;
            Ok(Some(handler))
        };
        tracking.boxed()
    }
}

impl Reconciler for Scheduler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(pod) = self.pods.get(key).filter(|it| is_waiting(it)) else { return Ok(Action::Done) };
        if is_constrained(&pod) && !self.usage.lock().is_shown() {
            return Ok(Action::RequeueAfter(ASSUMED_RETRY));
        }
        let writer = Writer { manager: MANAGER, context };
        let volumes = self.volumes.as_ref().map_or_else(|| Ok(VolumesOfPod::default()), |it| it.of(&pod));
        let volumes = match volumes {
            Ok(volumes) => volumes,
            Err(reason) => {
                let message = format!("0/{} nodes are available: {reason}.", self.nodes.store.len());
                self.report(key, &pod, message, &Nomination::Keep, writer).await?;
                return Ok(Action::Done);
            }
        };
        let constraints = Constraints::of(&pod, &self.pods, &self.nodes);
        let nominated = Nominated::before(&pod, &self.pods);
        let needs = Needs { pod: &pod, requests: requests(&pod), constraints, volumes, nominated };
        let node = match self.choose(&needs) {
            Ok(node) => node,
            Err(message) => {
                let nomination = self.preempt(&needs);
                self.report(key, &pod, message, &nomination, writer).await?;
                if let Nomination::Set(preemption) = &nomination {
                    // The pod comes back when its victims have left.
                    self.disrupt(&pod, preemption, writer).await?;
                }
                return Ok(Action::Done);
            }
        };
        if let (Some(volumes), false) = (&self.volumes, needs.volumes.waiting.is_empty()) {
            // The pod comes back when its claims are bound.
            volumes.select_node(&needs.volumes, &node, writer).await?;
            return Ok(Action::Done);
        }
        self.usage.lock().assign(text(&pod, "/metadata/uid"), &node, needs.requests, priority(&pod), true);
        self.bind(key, &pod, &node, writer).await
    }
}

const NOT_SELECTED: &str = "node(s) didn't match Pod's node affinity/selector";

/// Returns the reason why a pod cannot run on a node, if it cannot.
fn misfit(needs: &Needs<'_>, node: &Value, usage: &Usage) -> Option<String> {
    let name = text(node, "/metadata/name");
    let lack = || match needs.nominated.on(name) {
        [] => usage.lack(node, &needs.requests),
        before => {
            let mut usage = usage.without(name, std::iter::empty());
            usage.assign_all(name, before);
            usage.lack(node, &needs.requests)
        }
    };
    excluded(needs, node).or_else(lack).or_else(|| needs.constraints.violated(node).map(str::to_owned))
}

/// Returns the reason why a pod cannot run on a node even if it were empty, apart from constraints
/// on other pods.
fn excluded(needs: &Needs<'_>, node: &Value) -> Option<String> {
    let pod = needs.pod;
    if flag(node, "/spec/unschedulable") && untolerated_unschedulable(pod) {
        return Some("node(s) were unschedulable".to_owned());
    }
    if untolerated(pod, node, &["NoSchedule", "NoExecute"]).is_some() {
        return Some("node(s) had untolerated taint(s)".to_owned());
    }
    if !matches_selection(pod, node) {
        return Some(NOT_SELECTED.to_owned());
    }
    if !condition::is_true(node, "Ready") || is_deleting(node) {
        return Some("node(s) were not ready".to_owned());
    }
    let conflicts = needs.volumes.conflict_with(node);
    conflicts.then(|| "node(s) didn't match PersistentVolume's node affinity".to_owned())
}

/// Returns true if a pod keeps off nodes that are marked as unschedulable.
fn untolerated_unschedulable(pod: &Value) -> bool {
    let taint = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    !items(pod, "/spec/tolerations").iter().any(|it| crate::node_fit::tolerates(it, &taint))
}

/// Returns the message that there is no node, with the reasons and the number of nodes for each, as
/// `FitError` in k8s.io/kubernetes v1.36.4 pkg/scheduler/framework/types.go sorts them.
fn unavailable(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut reasons: Vec<String> =
        reasons.iter().filter(|(_, count)| **count > 0).map(|(it, count)| format!("{count} {it}")).collect();
    reasons.sort();
    match reasons.is_empty() {
        true => format!("0/{nodes} nodes are available"),
        false => format!("0/{nodes} nodes are available: {}.", reasons.join(", ")),
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

/// Sets the node that a pod waits for. Returns true if that changed anything.
fn nominate(pod: &mut Value, nomination: &Nomination) -> bool {
    let node = match nomination {
        Nomination::Keep => return false,
        Nomination::Clear => "",
        Nomination::Set(preemption) => &preemption.node,
    };
    if text(pod, "/status/nominatedNodeName") == node {
        return false;
    }
    if !node.is_empty() {
        pod["status"]["nominatedNodeName"] = node.into();
    } else if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    true
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
            "status": { "conditions": [{ "type": "Ready", "status": "True" }],
                "allocatable": { "cpu": "2", "pods": "110" } } });
        node["spec"] = more;
        node
    }

    fn misfit_of(pod: Value, node: &Value) -> Option<String> {
        let pod = Pod::from(pod);
        let needs = Needs {
            pod: &pod,
            requests: requests(&pod),
            constraints: Constraints::default(),
            volumes: VolumesOfPod::default(),
            nominated: Nominated::default(),
        };
        misfit(&needs, node, &Usage::default())
    }

    #[test]
    fn the_first_reason_why_a_node_does_not_fit_is_named() {
        let taint = json!({ "taints": [{ "key": "only", "value": "gpu", "effect": "NoSchedule" }] });
        let cordoned = json!({ "unschedulable": true });
        let tolerant = json!({ "tolerations": [{ "operator": "Exists" }] });
        let large = json!({ "containers": [{ "resources": { "requests": { "cpu": "3" } } }] });
        for (spec, node_spec, expected) in [
            (json!({}), json!({}), None),
            (json!({}), cordoned.clone(), Some("node(s) were unschedulable")),
            (tolerant.clone(), cordoned, None),
            (json!({}), taint.clone(), Some("node(s) had untolerated taint(s)")),
            (tolerant, taint, None),
            (json!({ "nodeSelector": { "disk": "b" } }), json!({}), Some(NOT_SELECTED)),
            (large, json!({}), Some("Insufficient cpu")),
        ] {
            let found = misfit_of(json!({ "spec": spec }), &node("a", node_spec));
            assert_eq!(found.as_deref(), expected, "{spec}");
        }
        let reasons = BTreeMap::from([("Insufficient cpu".to_owned(), 2), ("Too many pods".to_owned(), 1)]);
        assert_eq!(unavailable(3, &reasons), "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.");
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
