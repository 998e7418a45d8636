//! ReplicaSets: creates and deletes pods to reach the desired number.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decoded_cache::{DecodedCache, FromStored};
use super::owner::{adopt, controller, controller_key, is_deleting, key_of, reference, release};
use super::selector::{of_labels, of_workload};
use super::{condition, owner};
use crate::ApiError;
use crate::cluster::{Cluster, DeleteOptions, ObjectRef, Writer};
use crate::controllers::reconcile::{Next, Reconciler};
use crate::controllers::recorder::{Event, record};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{entries, number, text};
use crate::store::{CollectionName, Encoded};

/// The largest number of pods that are created at once: `BurstReplicas` in k8s.io/kubernetes
/// v1.36.4 pkg/controller/replicaset/replica_set.go.
const BURST: usize = 500;

/// Keeps ReplicaSets at their size.
#[derive(Debug, Default)]
pub(super) struct ReplicaSets {
    pods: DecodedCache<Pod>,
}

/// The relevant facts of a pod. A set of 10,000 pods is counted whenever some of them have changed,
/// so their JSON is decoded only once per version.
#[derive(Debug)]
struct Pod {
    object: Encoded,
    /// Its set, if a ReplicaSet is its controller.
    set: Option<ObjectKey>,
    /// The uid of its controller, of any kind.
    controller: Option<String>,
    is_deleting: bool,
    has_ended: bool,
    /// The time since when it is ready, as far as it is known; `None` if it is not ready.
    ready: Option<Option<Timestamp>>,
}

impl FromStored for Pod {
    fn read(object: &Encoded) -> Self {
        let pod = object.to_value();
        let ready = condition::find(&pod, "Ready").filter(|it| text(it, "/status") == "True");
        Self {
            set: controller_key(&pod, "ReplicaSet"),
            controller: controller(&pod).map(|it| text(it, "/uid").to_owned()),
            is_deleting: is_deleting(&pod),
            has_ended: matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed"),
            ready: ready.map(|it| text(it, "/lastTransitionTime").parse().ok()),
            object: object.clone(),
        }
    }
}

impl Pod {
    fn is_active(&self) -> bool {
        !self.has_ended && !self.is_deleting
    }
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

impl Reconciler for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        let pods = builtin(cluster, "", "v1", "pods");
        vec![builtin(cluster, "apps", "v1", "replicasets").collection.clone(), pods.collection.clone()]
    }

    /// Returns the set of a pod, before and after a change; for a pod without one, the sets whose
    /// selector matches.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        if &**collection != "/pods" {
            return after.map(|it| it.key().clone()).into_iter().collect();
        }
        let sides = [before, after].into_iter().flatten().map(|it| self.pods.value(it)).collect::<Vec<_>>();
        if let (Some(before), None) = (before, after) {
            self.pods.forget(before.key());
        }
        let mut touched: Vec<ObjectKey> = sides.iter().filter_map(|it| it.set.clone()).collect();
        if let Some(orphan) = sides.last().filter(|it| after.is_some() && it.controller.is_none()) {
            let kind = builtin(cluster, "apps", "v1", "replicasets");
            let sets = cluster.list(&kind, orphan.object.key().namespace());
            let wants = |set: &Value| of_workload(set).is_some_and(|it| it.matches(orphan.object.labels()));
            touched.extend(sets.iter().map(|it| it.to_value()).filter(wants).filter_map(|it| key_of(&it)));
        }
        touched
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let kind = builtin(cluster, "apps", "v1", "replicasets");
        let Some(set) = cluster.get(&kind, key).map(|it| it.to_value()) else { return Ok(Next::touch()) };
        let pods = self.pods.all(cluster, &builtin(cluster, "", "v1", "pods"), key.namespace());
        let plan = decide(&set, &pods, cluster.source().now());
        let writer = writer("replicaset-controller", "kube-controller-manager");
        let failed = execute(cluster, &set, &plan, &writer).await.err();
        let now = cluster.source().stamp();
        let report = |it: &mut Value| {
            let same = text(it, "/metadata/uid") == text(&set, "/metadata/uid");
            let status = with_failure(&plan.status, failed.as_ref(), plan.create > 0, &now);
            let changed = same && it["status"] != status;
            it["status"] = status;
            changed
        };
        cluster.change(&ObjectRef::of(&kind, key).part("status"), &writer, report).await?;
        match failed {
            Some(refusal) => Err(refusal),
            None => Ok(plan.again.map_or_else(Next::touch, Next::after)),
        }
    }
}

async fn execute(cluster: &Cluster, set: &Value, plan: &Plan, writer: &Writer) -> Result<(), ApiError> {
    let kind = builtin(cluster, "", "v1", "pods");
    for key in &plan.adopt {
        cluster.change(&ObjectRef::of(&kind, key), writer, |it| adopt(set, it)).await?;
    }
    for key in &plan.release {
        cluster.change(&ObjectRef::of(&kind, key), writer, |it| release(set, it)).await?;
    }
    for _ in 0..plan.create.min(BURST) {
        let created = cluster.add(pod(set), writer).await?;
        let name = text(&created.object.to_value(&kind), "/metadata/name").to_owned();
        let event = Event::normal("SuccessfulCreate", format!("Created pod: {name}"));
        record(cluster, writer, set, &event).await;
    }
    for key in &plan.delete {
        match cluster.delete(&ObjectRef::of(&kind, key), &DeleteOptions::default(), writer).await {
            Err(refusal) if refusal.0.code != 404 => return Err(refusal),
            _ => {
                let event = Event::normal("SuccessfulDelete", format!("Deleted pod: {}", key.name()));
                record(cluster, writer, set, &event).await;
            }
        }
    }
    Ok(())
}

/// Returns a new pod of a set.
fn pod(set: &Value) -> Value {
    let template = &set["spec"]["template"];
    let mut metadata = json!({ "generateName": format!("{}-", text(set, "/metadata/name")),
        "namespace": set["metadata"]["namespace"], "ownerReferences": [reference(set)] });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field).filter(|it| !it.is_null()) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

fn decide(set: &Value, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let Some(selector) = of_workload(set) else {
        return Plan { status: set["status"].clone(), ..Plan::default() };
    };
    let (deleting, uid) = (is_deleting(set), text(set, "/metadata/uid"));
    let (mut claimed, mut plan) = (Vec::new(), Plan::default());
    for pod in pods {
        let owned = pod.controller.as_deref() == Some(uid);
        // Pods of other controllers are not touched.
        if !owned && pod.controller.is_some() {
            continue;
        }
        match (owned, selector.matches(pod.object.labels())) {
            (true, false) if !deleting => plan.release.push(pod.object.key().clone()),
            (true, _) => claimed.push(&**pod),
            (false, true) if pod.is_active() && !deleting => {
                plan.adopt.push(pod.object.key().clone());
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
    let pods: Vec<Value> = pods.iter().map(|it| it.object.to_value()).collect();
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in &pods {
        *on_node.entry(text(pod, "/spec/nodeName")).or_default() += 1;
    }
    let cost = |pod: &Value| -> i64 {
        let pointer = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";
        text(pod, pointer).parse().unwrap_or(0)
    };
    let mut ranked: Vec<&Value> = pods.iter().collect();
    ranked.sort_by_cached_key(|pod| {
        let node = text(pod, "/spec/nodeName");
        let phase = match text(pod, "/status/phase") {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let ready = condition::find(pod, "Ready").filter(|it| text(it, "/status") == "True");
        let since = ready.map(|it| text(it, "/lastTransitionTime").to_owned());
        let restarts = crate::kinds::json_access::items(pod, "/status/containerStatuses");
        let restarts = restarts.iter().filter_map(|it| number(it, "/restartCount")).max();
        (
            (!node.is_empty(), phase, ready.is_some(), cost(pod)),
            Reverse(on_node.get(node).copied()),
            (Reverse(since), Reverse(restarts)),
            Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
            text(pod, "/metadata/name").to_owned(),
        )
    });
    ranked.into_iter().filter_map(owner::key_of).collect()
}

/// Returns the status of a set, and the time until the next pod counts as available.
fn status(set: &Value, active: &[&Pod], terminating: usize, now: Timestamp) -> (Value, Option<Duration>) {
    let needed = number(set, "/spec/minReadySeconds").unwrap_or(0);
    let mut again = None;
    let (mut ready, mut available, mut labeled) = (0, 0, 0);
    let template = of_labels(set, "/spec/template/metadata/labels");
    for pod in active {
        labeled += usize::from(template.as_ref().is_some_and(|it| it.matches(pod.object.labels())));
        let Some(since) = pod.ready else { continue };
        ready += 1;
        let rest =
            since.map_or(0, |it| it.as_second().saturating_add(needed).saturating_sub(now.as_second()));
        if needed == 0 || rest <= 0 {
            available += 1;
        } else {
            let rest = Duration::from_secs(rest.unsigned_abs());
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
fn with_failure(status: &Value, failed: Option<&ApiError>, creating: bool, now: &str) -> Value {
    let mut status = status.clone();
    let mut conditions = crate::kinds::json_access::items(&status, "/conditions").to_vec();
    let known = conditions.iter().any(|it| text(it, "/type") == "ReplicaFailure");
    match failed {
        Some(refusal) if !known => {
            let reason = if creating { "FailedCreate" } else { "FailedDelete" };
            let message = refusal.to_string();
            condition::set(&mut conditions, "ReplicaFailure", "True", reason, &message, now);
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
    use crate::store::Draft;

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
        Arc::new(Pod::read(&Draft::new(&pod, Vec::new()).unwrap().at(1)))
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
        let plan = decide(&set(3), &pods, now());
        assert_eq!((plan.create, plan.delete.len()), (2, 0));
        assert_eq!(
            plan.status,
            json!({ "replicas": 1, "terminatingReplicas": 1, "fullyLabeledReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 3 })
        );
        let made = pod(&set(3));
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
        let plan = decide(&set(0), &pods, now());
        assert_eq!(
            names(&plan.delete),
            ["nowhere", "pending", "unready", "cheap", "fresh", "new", "old", "elsewhere"]
        );
        assert_eq!(names(&decide(&set(6), &pods, now()).delete), ["nowhere", "pending"]);
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
        let plan = decide(&set(2), &pods, now());
        assert_eq!((names(&plan.adopt), names(&plan.release)), (vec!["orphan"], vec!["renamed"]));
        assert_eq!(plan.create, 1);
        let mut going = set(2);
        going["metadata"]["deletionTimestamp"] = "t".into();
        let plan = decide(&going, &pods, now());
        assert_eq!((plan.adopt.len(), plan.release.len(), plan.create, plan.delete.len()), (0, 0, 0, 0));
    }

    #[test]
    fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
        let mut set = set(1);
        set["spec"]["minReadySeconds"] = 60.into();
        let pods = [a_pod("a", |_| ())];
        let plan = decide(&set, &pods, now());
        assert_eq!(plan.status.get("availableReplicas"), None);
        assert_eq!(plan.again, Some(Duration::from_secs(10)));
        let plan = decide(&set, &pods, "2026-01-01T00:01:10Z".parse().unwrap());
        assert_eq!((&plan.status["availableReplicas"], plan.again), (&json!(1), None));
    }

    #[test]
    fn a_failure_is_reported_until_it_is_over() {
        let status = json!({ "replicas": 0 });
        let refusal = ApiError::forbidden("", "pods", "", "no");
        let failing = with_failure(&status, Some(&refusal), true, "t1");
        assert_eq!(failing["conditions"][0]["reason"], "FailedCreate");
        assert_eq!(with_failure(&failing, Some(&refusal), true, "t2"), failing, "reported once");
        assert_eq!(with_failure(&failing, None, false, "t3"), status);
    }
}
