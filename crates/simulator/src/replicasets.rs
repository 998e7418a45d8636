//! Objects that keep a number of equal pods: creates and deletes pods to reach the desired number.
//! ReplicaSets and ReplicationControllers differ only in their [`ReplicatedKind`].

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, LabelSelector, Object, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::collection::{Collection, CollectionSlot, FirstError, Writer};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::index::{CONTROLLER, ORPHAN, anchor};
use crate::json_access::{entries, items, number, text};
use crate::object::{JsonObject, Pod};
use crate::owner::{adopt, is_deleting, key_of, release};
use crate::ownership::workloads_selected_by;
use crate::pod_template::new_pod;
use crate::recorder::{Event, Recorder};
use crate::selector::{of_labels, of_replication_controller, of_workload};

const MANAGER: &str = "kube-controller-manager";

/// The largest number of pods that are created at once: `BurstReplicas` in k8s.io/kubernetes
/// v1.36.4 pkg/controller/replicaset/replica_set.go.
const BURST: usize = 500;

/// A kind whose objects keep a number of equal pods.
pub(crate) trait ReplicatedKind: Send + Sync + 'static {
    /// The name of the kind.
    const KIND: &'static str;
    /// The name of the component.
    const COMPONENT: &'static str;
    /// The source of its events.
    const EVENT_SOURCE: &'static str;
    /// True if the status has the number of pods that are being deleted.
    const COUNTS_TERMINATING: bool;

    /// Returns the cache of the kind.
    fn cache(caches: &Caches) -> &CollectionSlot<JsonObject>;

    /// Returns the selector of an object, if it is valid and not empty.
    fn selector(object: &Value) -> Option<LabelSelector>;
}

/// The kind ReplicaSet.
pub(crate) struct ReplicaSet;

impl ReplicatedKind for ReplicaSet {
    const KIND: &'static str = "ReplicaSet";
    const COMPONENT: &'static str = "replicaset-controller";
    const EVENT_SOURCE: &'static str = "replicaset-controller";
    const COUNTS_TERMINATING: bool = true;

    fn cache(caches: &Caches) -> &CollectionSlot<JsonObject> {
        &caches.replica_sets
    }

    fn selector(object: &Value) -> Option<LabelSelector> {
        of_workload(object)
    }
}

/// The kind ReplicationController, which kube-controller-manager also treats as another form of
/// ReplicaSet: k8s.io/kubernetes v1.36.4 pkg/controller/replication/conversion.go.
pub(crate) struct ReplicationController;

impl ReplicatedKind for ReplicationController {
    const KIND: &'static str = "ReplicationController";
    const COMPONENT: &'static str = "replicationcontroller-controller";
    const EVENT_SOURCE: &'static str = "replication-controller";
    const COUNTS_TERMINATING: bool = false;

    fn cache(caches: &Caches) -> &CollectionSlot<JsonObject> {
        &caches.replication_controllers
    }

    fn selector(object: &Value) -> Option<LabelSelector> {
        of_replication_controller(object)
    }
}

/// Keeps the objects of a kind at their size.
pub(crate) struct Replicas<K> {
    sets: Collection<JsonObject>,
    pods: Collection<Pod>,
    recorder: Recorder,
    environment: Arc<Environment>,
    kind: PhantomData<K>,
}

/// The actions for a ReplicaSet.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    adopt: Vec<ObjectKey>,
    release: Vec<ObjectKey>,
    /// The number of missing pods.
    create: usize,
    delete: Vec<ObjectKey>,
    status: Value,
    /// The time until the next pod has been ready for long enough.
    again: Option<Duration>,
}

impl<K: ReplicatedKind> Replicas<K> {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            sets: K::cache(caches).get(),
            pods: caches.pods.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            kind: PhantomData,
        }
    }

    /// Returns the pods that a set has or may adopt.
    fn candidates(&self, key: &ObjectKey, set: &Value, selector: &LabelSelector) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.found(CONTROLLER, text(set, "/metadata/uid"));
        // A reference to an owner in another namespace is invalid.
        pods.retain(|it| it.header().namespace == key.namespace());
        pods.extend(self.pods.found(ORPHAN, &anchor(key.namespace().unwrap_or_default(), selector)));
        pods
    }

    async fn execute(&self, set: &Value, plan: &Plan, writer: Writer<'_>) -> Result<(), Error> {
        let mut claims = FirstError::default();
        for pod in &plan.adopt {
            claims.keep(self.pods.change(pod, "", writer, |it| adopt(set, it)).await);
        }
        for pod in &plan.release {
            claims.keep(self.pods.change(pod, "", writer, |it| release(set, it)).await);
        }
        // The number of missing pods is right only with all claims.
        claims.into_result()?;
        // One pod is like the next, so after one that is refused the others are not tried
        // (`slowStartBatch` in k8s.io/kubernetes v1.36.4 pkg/controller/replicaset/replica_set.go).
        for _ in 0..plan.create.min(BURST) {
            let created = self.pods.create(new_pod(set, &set["spec"]["template"]), writer).await?;
            let event = Event::normal("SuccessfulCreate", format!("Created pod: {}", created.header().name));
            self.recorder.record(K::EVENT_SOURCE, set, event).await;
        }
        let mut deletions = FirstError::default();
        for pod in &plan.delete {
            let deleted = self.pods.delete(pod, &DeleteParams::default(), writer).await;
            if deletions.keep(deleted) == Some(true) {
                let event = Event::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
                self.recorder.record(K::EVENT_SOURCE, set, event).await;
            }
        }
        deletions.into_result()
    }
}

impl<K: ReplicatedKind> Component for Replicas<K> {
    const NAME: &'static str = K::COMPONENT;

    /// Returns the controller, which processes the set of a pod, before and after a change; for a
    /// pod without one, the sets whose selector matches.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let owners = workloads_selected_by::<Pod>(&self.sets, K::KIND, K::selector);
        Controller::of(&self.sets.informer).watches(&self.pods.informer, owners)
    }
}

impl<K: ReplicatedKind> Reconciler for Replicas<K> {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::Done) };
        let Some(selector) = K::selector(&set) else { return Ok(Action::Done) };
        let writer = Writer { manager: MANAGER, context };
        let candidates = self.candidates(key, &set, &selector);
        let mut plan = decide(&set, &selector, &candidates, self.environment.now());
        if let (false, Some(status)) = (K::COUNTS_TERMINATING, plan.status.as_object_mut()) {
            status.remove("terminatingReplicas");
        }
        if !plan.adopt.is_empty() && !self.sets.may_adopt(key, &set).await? {
            // The key comes back when the cache shows what has become of the set.
            return Ok(Action::Done);
        }
        let failed = self.execute(&set, &plan, writer).await.err();
        let failure =
            failed.as_ref().map(|it| it.status().map_or_else(|| it.to_string(), |it| it.message.clone()));
        let now = self.environment.stamp();
        let report = |it: &mut Value| {
            let same = text(it, "/metadata/uid") == text(&set, "/metadata/uid");
            let status = with_failure(&plan.status, failure.as_deref(), plan.create > 0, &now);
            let changed = same && it["status"] != status;
            it["status"] = status;
            changed
        };
        self.sets.change(key, "status", writer, report).await?;
        match failed {
            Some(error) => Err(error),
            None => Ok(plan.again.map_or(Action::Done, Action::RequeueAfter)),
        }
    }
}

impl<K: ReplicatedKind> fmt::Debug for Replicas<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("kind", &K::KIND).finish_non_exhaustive()
    }
}

fn decide(set: &Value, selector: &LabelSelector, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let (deleting, uid) = (is_deleting(set), text(set, "/metadata/uid"));
    let (mut claimed, mut plan) = (Vec::new(), Plan::default());
    for pod in pods {
        let owned = pod.controller.as_deref() == Some(uid);
        // Pods of other controllers are not touched.
        if !owned && pod.controller.is_some() {
            continue;
        }
        match (owned, selector.matches(pod.header().labels)) {
            (true, false) if !deleting => plan.release.extend(pod.key()),
            (true, _) => claimed.push(&**pod),
            (false, true) if pod.is_active() && !deleting => {
                plan.adopt.extend(pod.key());
                claimed.push(&**pod);
            }
            _ => {}
        }
    }
    let terminating = claimed.iter().filter(|it| it.is_deleting && !it.has_ended).count();
    let active: Vec<&Pod> = claimed.into_iter().filter(|it| it.is_active()).collect();
    let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
    if !deleting {
        plan.create = wanted.saturating_sub(active.len());
        if active.len() > wanted {
            plan.delete = deletion_order(&active).into_iter().take(active.len() - wanted).collect();
        }
    }
    (plan.status, plan.again) = status(set, &active, terminating, now);
    plan
}

/// Returns the pods of a set in the order in which they are deleted, as `ActivePodsWithRanks` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/controller_utils.go sorts them.
fn deletion_order(pods: &[&Pod]) -> Vec<ObjectKey> {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in pods {
        *on_node.entry(pod.node()).or_default() += 1;
    }
    let cost = |pod: &Value| -> i64 {
        let pointer = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";
        text(pod, pointer).parse().unwrap_or(0)
    };
    let mut ranked: Vec<&Value> = pods.iter().map(|it| &***it).collect();
    ranked.sort_by_cached_key(|pod| {
        let node = text(pod, "/spec/nodeName");
        let phase = match text(pod, "/status/phase") {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let ready = condition::find(pod, "Ready").filter(|it| text(it, "/status") == "True");
        let since = ready.map(|it| text(it, "/lastTransitionTime").to_owned());
        let restarts = items(pod, "/status/containerStatuses");
        let restarts = restarts.iter().filter_map(|it| number(it, "/restartCount")).max();
        (
            (!node.is_empty(), phase, ready.is_some(), cost(pod)),
            Reverse(on_node.get(node).copied()),
            (Reverse(since), Reverse(restarts)),
            Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
            text(pod, "/metadata/name").to_owned(),
        )
    });
    ranked.into_iter().filter_map(key_of).collect()
}

/// Returns the status of a set, and the time until the next pod counts as available.
fn status(set: &Value, active: &[&Pod], terminating: usize, now: Timestamp) -> (Value, Option<Duration>) {
    let needed = number(set, "/spec/minReadySeconds").unwrap_or(0);
    let mut again = None;
    let (mut ready, mut available, mut labeled) = (0, 0, 0);
    let template = of_labels(set, "/spec/template/metadata/labels");
    for pod in active {
        labeled += usize::from(template.as_ref().is_some_and(|it| it.matches(pod.header().labels)));
        let Some(rest) = pod.available_after(needed, now) else { continue };
        ready += 1;
        if rest.is_zero() {
            available += 1;
        } else {
            again = Some(again.map_or(rest, |it: Duration| it.min(rest)));
        }
    }
    let mut status = json!({ "replicas": active.len(), "terminatingReplicas": terminating });
    let generation = usize::try_from(number(set, "/metadata/generation").unwrap_or(0)).unwrap_or(0);
    for (field, count) in [
        ("fullyLabeledReplicas", labeled),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("observedGeneration", generation),
    ] {
        if count > 0 {
            status[field] = count.into();
        }
    }
    if entries(set, "/status").any(|(field, _)| field == "conditions") {
        status["conditions"] = set["status"]["conditions"].clone();
    }
    (status, again)
}

/// Returns the status with, or without, the condition that reports why the size cannot be reached.
fn with_failure(status: &Value, failed: Option<&str>, creating: bool, now: &str) -> Value {
    let mut status = status.clone();
    let mut conditions = items(&status, "/conditions").to_vec();
    let known = conditions.iter().any(|it| text(it, "/type") == "ReplicaFailure");
    match failed {
        Some(message) if !known => {
            let reason = if creating { "FailedCreate" } else { "FailedDelete" };
            condition::set(&mut conditions, "ReplicaFailure", "True", reason, message, now);
        }
        None => conditions.retain(|it| text(it, "/type") != "ReplicaFailure"),
        Some(_) => {}
    }
    match (conditions.is_empty(), status.as_object_mut()) {
        (true, Some(status)) => drop(status.remove("conditions")),
        (_, Some(status)) => drop(status.insert("conditions".to_owned(), conditions.into())),
        (_, None) => {}
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: u32) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "name": "web", "namespace": "n", "uid": "set", "generation": 3 },
            "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } } } })
    }

    fn a_pod(name: &str, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
        let mut pod = json!({ "metadata": { "name": name, "namespace": "n", "labels": { "app": "web" },
                "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{ "uid": "set", "controller": true }] },
            "spec": { "nodeName": "node-1" },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z" }] } });
        change(&mut pod);
        Arc::new(Pod::from(pod))
    }

    fn decided(set: &Value, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
        decide(set, &of_workload(set).unwrap(), pods, now)
    }

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    fn names(keys: &[ObjectKey]) -> Vec<&str> {
        keys.iter().map(ObjectKey::name).collect()
    }

    #[test]
    fn missing_pods_are_created_and_ended_ones_do_not_count() {
        let pods = [
            a_pod("a", |_| ()),
            a_pod("b", |it| it["status"]["phase"] = "Failed".into()),
            a_pod("c", |it| {
                it["metadata"]["deletionTimestamp"] = "t".into();
            }),
        ];
        let plan = decided(&set(3), &pods, now());
        assert_eq!((plan.create, plan.delete.len()), (2, 0));
        assert_eq!(
            plan.status,
            json!({ "replicas": 1, "terminatingReplicas": 1, "fullyLabeledReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 3 })
        );
        let made = new_pod(&set(3), &set(3)["spec"]["template"]);
        assert_eq!(made["metadata"]["generateName"], "web-");
        assert_eq!(made["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
    }

    #[test]
    fn pods_of_the_least_value_are_deleted_first() {
        let pods = [
            a_pod("new", |it| it["metadata"]["creationTimestamp"] = "2026-01-01T00:00:09Z".into()),
            a_pod("old", |_| ()),
            a_pod("elsewhere", |it| it["spec"]["nodeName"] = "node-2".into()),
            a_pod("cheap", |it| {
                it["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = "-5".into();
            }),
            a_pod("unready", |it| it["status"]["conditions"] = json!([])),
            a_pod("pending", |it| it["status"] = json!({ "phase": "Pending" })),
            a_pod("nowhere", |it| {
                it["spec"] = json!({});
                it["status"] = json!({ "phase": "Pending" });
            }),
            a_pod("fresh", |it| {
                it["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:50Z".into()
            }),
        ];
        let plan = decided(&set(0), &pods, now());
        assert_eq!(
            names(&plan.delete),
            ["nowhere", "pending", "unready", "cheap", "fresh", "new", "old", "elsewhere"]
        );
        assert_eq!(names(&decided(&set(6), &pods, now()).delete), ["nowhere", "pending"]);
    }

    #[test]
    fn pods_are_adopted_and_released_by_their_labels() {
        let pods = [
            a_pod("orphan", |it| it["metadata"]["ownerReferences"] = json!([])),
            a_pod("foreign", |it| it["metadata"]["ownerReferences"][0]["uid"] = "other".into()),
            a_pod("renamed", |it| it["metadata"]["labels"]["app"] = "db".into()),
            a_pod("leaving", |it| {
                it["metadata"]["ownerReferences"] = json!([]);
                it["metadata"]["deletionTimestamp"] = "t".into();
            }),
        ];
        let plan = decided(&set(2), &pods, now());
        assert_eq!((names(&plan.adopt), names(&plan.release)), (vec!["orphan"], vec!["renamed"]));
        assert_eq!(plan.create, 1);
        let mut going = set(2);
        going["metadata"]["deletionTimestamp"] = "t".into();
        let plan = decided(&going, &pods, now());
        assert_eq!((plan.adopt.len(), plan.release.len(), plan.create, plan.delete.len()), (0, 0, 0, 0));
    }

    #[test]
    fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
        let mut set = set(1);
        set["spec"]["minReadySeconds"] = 60.into();
        let pods = [a_pod("a", |_| ())];
        let plan = decided(&set, &pods, now());
        assert_eq!(plan.status.get("availableReplicas"), None);
        assert_eq!(plan.again, Some(Duration::from_secs(10)));
        let plan = decided(&set, &pods, "2026-01-01T00:01:10Z".parse().unwrap());
        assert_eq!((&plan.status["availableReplicas"], plan.again), (&json!(1), None));
    }

    #[test]
    fn a_failure_is_reported_until_it_is_over() {
        let status = json!({ "replicas": 0 });
        let failing = with_failure(&status, Some("no"), true, "t1");
        assert_eq!(failing["conditions"][0]["reason"], "FailedCreate");
        assert_eq!(with_failure(&failing, Some("no"), true, "t2"), failing, "reported once");
        assert_eq!(with_failure(&failing, None, false, "t3"), status);
    }
}
