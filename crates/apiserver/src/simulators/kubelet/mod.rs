//! The kubelets of all nodes: pods start, become ready, complete if they belong to a Job, and end
//! at their deadline or when they are deleted. Pods whose node does not exist are deleted, as
//! kube-controller-manager does.

mod addresses;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::condition;
use super::owner::{controller_key, is_deleting};
use super::settings::Simulators;
use crate::ApiError;
use crate::cluster::{Cluster, DeleteOptions, ObjectRef, Writer};
use crate::controllers::reconcile::{Next, Reconciler};
use crate::controllers::recorder::{Event, record};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{at, flag, items, number, text};
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};
use crate::time;
use addresses::Addresses;
use status::Facts;

/// The time for which the node of a pod is missing before the pod is deleted (`quarantineTime` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/podgc/gc_controller.go).
const QUARANTINE: Duration = Duration::from_secs(40);

/// Reports pods as if they ran.
#[derive(Debug)]
pub(super) struct Kubelet {
    settings: Simulators,
    /// The next stage of each pod, its start and its duration.
    stages: HashMap<ObjectKey, StageTimer>,
    /// The addresses of pods.
    addresses: Addresses,
}

#[derive(Debug)]
struct StageTimer {
    uid: String,
    stage: Stage,
    since: Instant,
    takes: Duration,
}

/// The next stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The kubelet accepts it.
    Accept,
    /// It becomes ready.
    Start,
    /// It completes.
    Complete,
    /// Its status is updated for changes by other clients.
    Refresh,
    /// It stops because it is deleted.
    Stop,
    /// It is deleted because its node does not exist.
    Collect,
}

impl Kubelet {
    pub(super) fn new(settings: &Simulators) -> Self {
        Self { settings: settings.clone(), stages: HashMap::new(), addresses: Addresses::default() }
    }

    /// Returns the time until the next stage of a pod.
    fn rest(&mut self, cluster: &Cluster, key: &ObjectKey, pod: &Value, stage: Stage) -> Duration {
        let uid = text(pod, "/metadata/uid");
        if !self.stages.get(key).is_some_and(|it| it.uid == uid && it.stage == stage) {
            let takes = match stage {
                Stage::Accept | Stage::Refresh => Duration::ZERO,
                Stage::Start => {
                    let jitter = time::scaled(self.settings.jitter, cluster.source().fraction());
                    self.settings.ready_after.saturating_add(jitter)
                }
                Stage::Complete => self.settings.complete_after,
                Stage::Stop => {
                    let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
                    self.settings.stop_after.min(Duration::from_secs(grace.unsigned_abs()))
                }
                Stage::Collect => QUARANTINE,
            };
            let begun = StageTimer { uid: uid.to_owned(), stage, since: Instant::now(), takes };
            self.stages.insert(key.clone(), begun);
        }
        self.stages.get(key).map_or(Duration::ZERO, |it| it.takes.saturating_sub(it.since.elapsed()))
    }

    /// Allocates an address for a pod, in the network of its node if that has a free one.
    fn take_address(&mut self, key: &ObjectKey, node: &Value) -> String {
        let network = text(node, "/spec/podCIDR").rsplit_once('.').map_or("", |(it, _)| it);
        self.addresses.take(key, network)
    }
}

impl Reconciler for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        ["pods", "nodes"].map(|it| builtin(cluster, "", "v1", it).collection.clone()).to_vec()
    }

    /// Returns a pod on a node, or the pods of a node that was created or removed after them.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        if &**collection == "/nodes" {
            let ((Some(node), None) | (None, Some(node))) = (before, after) else { return Vec::new() };
            let pods = cluster.list(&builtin(cluster, "", "v1", "pods"), None);
            let of_node = |pod: &&Arc<Encoded>| pod.field("spec.nodeName") == Some(node.key().name());
            return pods.iter().filter(of_node).map(|it| it.key().clone()).collect();
        }
        let address = |it: &Encoded| it.field("status.podIP").filter(|it| !it.is_empty()).map(str::to_owned);
        if let Some(after) = after {
            if let Some(address) = address(after) {
                self.addresses.hold(address, after.key());
            }
            let assigned = after.field("spec.nodeName").is_some_and(|it| !it.is_empty());
            return if assigned { vec![after.key().clone()] } else { Vec::new() };
        }
        if let Some(before) = before {
            self.stages.remove(before.key());
            if let Some(address) = address(before) {
                self.addresses.give_back(&address, before.key());
            }
        }
        Vec::new()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let kind = builtin(cluster, "", "v1", "pods");
        let Some(pod) = cluster.get(&kind, key).map(|it| it.to_value()) else { return Ok(Next::touch()) };
        let node = node_of(cluster, &pod);
        let Some(stage) = stage(&pod, node.is_some()) else {
            self.stages.remove(key);
            return Ok(Next::touch());
        };
        let rest = self.rest(cluster, key, &pod, stage);
        if !rest.is_zero() {
            return Ok(Next::after(rest));
        }
        let Some(node) = node else { return collect(cluster, &kind, key, &pod).await };
        let writer = writer("kubelet", "kubelet");
        if stage == Stage::Stop {
            return stop(cluster, &kind, key, &pod, &writer).await;
        }
        let host = items(&node, "/status/addresses").iter().find(|it| text(it, "/type") == "InternalIP");
        let host = host.map_or("", |it| text(it, "/address"));
        let address = match (stage, text(&pod, "/status/podIP")) {
            (Stage::Start, "") if flag(&pod, "/spec/hostNetwork") => host.to_owned(),
            (Stage::Start, "") => self.take_address(key, &node),
            (_, known) => known.to_owned(),
        };
        let (now, uid) = (cluster.source().stamp(), text(&pod, "/metadata/uid"));
        let left = time_left(&pod, cluster.source().now());
        let over = left.is_some_and(|it| it.is_zero());
        let facts = Facts { now: &now, host, address: &address, uid, over };
        let report = |it: &mut Value| {
            let status = if text(it, "/metadata/uid") == uid { report(stage, it, facts) } else { None };
            status.map(|status| it["status"] = status).is_some()
        };
        cluster.change(&ObjectRef::of(&kind, key).part("status"), &writer, report).await?;
        if stage == Stage::Start {
            record_each(cluster, &pod, &writer, |it| {
                Event::normal("Started", format!("Started container {it}"))
            })
            .await;
        }
        Ok(left.filter(|_| stage == Stage::Refresh && !over).map_or_else(Next::touch, Next::after))
    }
}

/// Returns the time that a pod may still be active, if it has a deadline.
fn time_left(pod: &Value, now: Timestamp) -> Option<Duration> {
    let allowed = number(pod, "/spec/activeDeadlineSeconds")?;
    let begun: Timestamp = text(pod, "/status/startTime").parse().ok()?;
    let end = begun.checked_add(SignedDuration::from_secs(allowed)).ok()?;
    Some(Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Returns the next stage of a pod, if there is one.
fn stage(pod: &Value, has_node: bool) -> Option<Stage> {
    // A pod that is deleted before it has a node ends at once, without a grace period.
    if text(pod, "/spec/nodeName").is_empty() {
        return None;
    }
    // Without a grace period left, only finalizers keep it.
    if is_deleting(pod) && number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0 {
        return None;
    }
    if !has_node {
        return Some(Stage::Collect);
    }
    if is_deleting(pod) {
        return Some(Stage::Stop);
    }
    match text(pod, "/status/phase") {
        "Succeeded" | "Failed" => None,
        "Running" if controller_key(pod, "Job").is_some() => Some(Stage::Complete),
        "Running" => Some(Stage::Refresh),
        _ if at(pod, "/status/startTime").is_none() => Some(Stage::Accept),
        _ => Some(Stage::Start),
    }
}

/// Returns the status of a pod after a stage; `None` if the pod has changed and is at another
/// stage.
fn report(expected: Stage, pod: &Value, facts: Facts<'_>) -> Option<Value> {
    if stage(pod, true) != Some(expected) {
        return None;
    }
    match expected {
        Stage::Accept => Some(status::starting(pod, facts)),
        Stage::Start => Some(status::running(pod, facts)),
        Stage::Complete => Some(status::completed(pod, facts)),
        Stage::Refresh if facts.over => Some(status::expired(pod, facts)),
        Stage::Refresh => status::refreshed(pod, facts),
        Stage::Stop | Stage::Collect => None,
    }
}

async fn stop(
    cluster: &Cluster,
    kind: &Kind,
    key: &ObjectKey,
    pod: &Value,
    writer: &Writer,
) -> Result<Next, ApiError> {
    record_each(cluster, pod, writer, |it| Event::normal("Killing", format!("Stopping container {it}")))
        .await;
    remove(cluster, kind, key, pod, writer).await
}

/// Deletes a pod whose node does not exist. A pod that has not ended fails first, as in
/// `markFailedAndDeletePodWithCondition` (k8s.io/kubernetes v1.36.4
/// pkg/controller/podgc/gc_controller.go).
async fn collect(cluster: &Cluster, kind: &Kind, key: &ObjectKey, pod: &Value) -> Result<Next, ApiError> {
    let writer = writer("pod-garbage-collector", "kube-controller-manager");
    let now = cluster.source().stamp();
    let fail = |it: &mut Value| {
        let ended = matches!(text(it, "/status/phase"), "Succeeded" | "Failed");
        if ended || text(it, "/metadata/uid") != text(pod, "/metadata/uid") {
            return false;
        }
        let mut conditions = items(it, "/status/conditions").to_vec();
        let message = "PodGC: node no longer exists";
        condition::set(&mut conditions, "DisruptionTarget", "True", "DeletionByPodGC", message, &now);
        it["status"]["conditions"] = conditions.into();
        it["status"]["phase"] = "Failed".into();
        true
    };
    cluster.change(&ObjectRef::of(kind, key).part("status"), &writer, fail).await?;
    remove(cluster, kind, key, pod, &writer).await
}

/// Deletes a pod at once, unless another pod has its name now.
async fn remove(
    cluster: &Cluster,
    kind: &Kind,
    key: &ObjectKey,
    pod: &Value,
    writer: &Writer,
) -> Result<Next, ApiError> {
    let uid = Some(text(pod, "/metadata/uid").to_owned());
    let options = DeleteOptions { grace: Some(0), uid, ..DeleteOptions::default() };
    match cluster.delete(&ObjectRef::of(kind, key), &options, writer).await {
        Err(refusal) if !matches!(refusal.0.code, 404 | 409) => Err(refusal),
        _ => Ok(Next::touch()),
    }
}

/// Records an event for each container.
async fn record_each(cluster: &Cluster, pod: &Value, writer: &Writer, event: impl Fn(&str) -> Event) {
    for container in items(pod, "/spec/containers") {
        record(cluster, writer, pod, &event(text(container, "/name"))).await;
    }
}

fn node_of(cluster: &Cluster, pod: &Value) -> Option<Value> {
    let key = ObjectKey::from_parts(None, text(pod, "/spec/nodeName")).ok()?;
    cluster.get(&builtin(cluster, "", "v1", "nodes"), &key).map(|it| it.to_value())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_stage_of_a_pod_follows_from_its_state() {
        let job = json!([{ "kind": "Job", "name": "j", "uid": "u", "controller": true }]);
        for (metadata, status, expected) in [
            (json!({}), json!({ "phase": "Pending" }), Some(Stage::Accept)),
            (json!({}), json!({ "phase": "Pending", "startTime": "t" }), Some(Stage::Start)),
            (json!({}), json!({ "phase": "Running" }), Some(Stage::Refresh)),
            (
                json!({ "namespace": "n", "ownerReferences": job }),
                json!({ "phase": "Running" }),
                Some(Stage::Complete),
            ),
            (json!({}), json!({ "phase": "Succeeded" }), None),
            (
                json!({ "deletionTimestamp": "t", "deletionGracePeriodSeconds": 30 }),
                json!({ "phase": "Running" }),
                Some(Stage::Stop),
            ),
            (
                json!({ "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0 }),
                json!({ "phase": "Running" }),
                None,
            ),
        ] {
            let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n" }, "status": status });
            assert_eq!(stage(&pod, true), expected, "{pod}");
            let held = metadata["deletionGracePeriodSeconds"] == 0;
            assert_eq!(stage(&pod, false), (!held).then_some(Stage::Collect), "{pod}");
        }
        assert_eq!(stage(&json!({ "status": { "phase": "Pending" } }), false), None, "not assigned yet");
    }

    #[test]
    fn pods_have_unique_addresses_even_beyond_the_network_of_a_node() {
        let mut kubelet = Kubelet::new(&Simulators::default());
        let node = json!({ "spec": { "podCIDR": "10.244.1.0/24" } });
        let all: Vec<_> =
            (0..300).map(|it| kubelet.take_address(&ObjectKey::cluster(&it.to_string()), &node)).collect();
        assert_eq!((all[0].as_str(), all[252].as_str()), ("10.244.1.2", "10.244.1.254"));
        assert_eq!(all[253], "10.245.0.2");
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }
}
