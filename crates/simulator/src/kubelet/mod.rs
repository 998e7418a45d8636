//! The kubelets of all nodes: pods start, become ready, complete or crash and restart as their
//! restart policy and their annotations say, and end at their deadline or when they are deleted.
//! Pods whose node does not exist are deleted, as kube-controller-manager does.

mod addresses;
mod behavior;
mod status;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{
    Action, BoxError, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched,
};
use dogwatch_core::{DeleteParams, Object, ObjectKey, Preconditions};
use dogwatch_informer::{Change, EventHandler, ScopedRegistration};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::caches::Caches;
use crate::collection::{Collection, Writer, code};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::index::NODE;
use crate::json_access::{at, flag, items, number, text};
use crate::object::{JsonObject, Pod, has_ended};
use crate::owner::is_deleting;
use crate::recorder::{Event, Recorder};
use crate::settings::Settings;
use addresses::Addresses;
use behavior::Behavior;
use status::Facts;

/// The name of the component.
const NAME: &str = "kubelet";

/// The time for which the node of a pod is missing before the pod is deleted (`quarantineTime` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/podgc/gc_controller.go).
const QUARANTINE: Duration = Duration::from_secs(40);

/// The time for which the failure of a pull is reported, before it is the wait for the next one.
const PULL_REPORTED: Duration = Duration::from_secs(1);

/// Reports pods as if they ran.
#[derive(Debug)]
pub(crate) struct Kubelet {
    settings: Settings,
    pods: Collection<Pod>,
    nodes: Collection<JsonObject>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The next stage of each pod, its start and its duration.
    stages: Mutex<HashMap<ObjectKey, StageTimer>>,
    /// The failed attempts to pull the images of pods.
    pulls: Mutex<HashMap<ObjectKey, Pulls>>,
    /// The addresses of pods.
    addresses: Arc<Mutex<Addresses>>,
}

#[derive(Debug)]
struct StageTimer {
    uid: String,
    stage: Stage,
    since: Instant,
    takes: Duration,
}

#[derive(Debug)]
struct Pulls {
    uid: String,
    failures: u64,
    last: Instant,
}

/// The next stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The kubelet accepts it.
    Accept,
    /// It becomes ready.
    Start,
    /// Its containers end.
    Complete,
    /// Its containers are restarted after a back-off.
    Restart,
    /// Its status is updated for changes by other clients.
    Refresh,
    /// It stops because it is deleted, and is removed unless finalizers keep it.
    Stop,
    /// It is deleted because its node does not exist.
    Collect,
}

impl Kubelet {
    pub(crate) fn new(
        caches: &Caches,
        recorder: &Recorder,
        environment: &Arc<Environment>,
        settings: &Settings,
    ) -> Self {
        Self {
            settings: settings.clone(),
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            stages: Mutex::default(),
            pulls: Mutex::default(),
            addresses: Arc::default(),
        }
    }

    /// Returns the time until the next stage of a pod.
    fn rest(&self, key: &ObjectKey, pod: &Value, stage: Stage, behavior: &Behavior) -> Duration {
        let uid = text(pod, "/metadata/uid");
        let grace = || {
            let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
            Duration::from_secs(grace.unsigned_abs())
        };
        let mut stages = self.stages.lock();
        if let Some(known) = stages.get(key).filter(|it| it.uid == uid && it.stage == stage) {
            // A second deletion may have shortened the grace period.
            let takes = if stage == Stage::Stop { known.takes.min(grace()) } else { known.takes };
            return takes.saturating_sub(known.since.elapsed());
        }
        let takes = match stage {
            Stage::Accept | Stage::Refresh => Duration::ZERO,
            Stage::Start => {
                let jitter = self.environment.up_to(self.settings.jitter);
                behavior.start_after().unwrap_or(self.settings.ready_after).saturating_add(jitter)
            }
            Stage::Complete => behavior.complete_after(&self.settings),
            Stage::Restart => behavior.restart_after(None, self.environment.now()),
            Stage::Stop => self.settings.stop_after.min(grace()),
            Stage::Collect => QUARANTINE,
        };
        let begun = StageTimer { uid: uid.to_owned(), stage, since: Instant::now(), takes };
        stages.insert(key.clone(), begun);
        takes
    }

    /// Fails to pull the images of a pod, as often as it asks for. Returns the time until the next
    /// step, or `None` if the images can be pulled.
    async fn pull(
        &self,
        key: &ObjectKey,
        pod: &Value,
        behavior: &Behavior,
        writer: Writer<'_>,
    ) -> Result<Option<Duration>, Error> {
        let uid = text(pod, "/metadata/uid");
        let known =
            self.pulls.lock().get(key).filter(|it| it.uid == uid).map(|it| (it.failures, it.last.elapsed()));
        let (failures, since) = known.unwrap_or((0, Duration::MAX));
        let delay = behavior::backoff(failures);
        let (reason, rest) = if since < PULL_REPORTED {
            return Ok(Some(PULL_REPORTED.saturating_sub(since)));
        } else if failures > 0 && since < delay {
            ("ImagePullBackOff", delay.saturating_sub(since))
        } else if failures >= behavior.pull_failures {
            return Ok(None);
        } else {
            let failed =
                Pulls { uid: uid.to_owned(), failures: failures.saturating_add(1), last: Instant::now() };
            self.pulls.lock().insert(key.clone(), failed);
            ("ErrImagePull", PULL_REPORTED)
        };
        let now = self.environment.stamp();
        let mut changed = false;
        let report = |it: &mut Value| {
            let waits = text(it, "/metadata/uid") == uid && stage(it, true) == Some(Stage::Start);
            let status = if waits { status::unpulled(it, reason, &now) } else { None };
            changed = status.is_some();
            status.map(|status| it["status"] = status).is_some()
        };
        self.pods.change(key, "status", writer, report).await?;
        if changed {
            for container in items(pod, "/spec/containers") {
                let message = status::pull_message(container, reason);
                let event = if reason == "ErrImagePull" {
                    Event::warning("Failed", message)
                } else {
                    Event::normal("BackOff", message)
                };
                self.recorder.record(NAME, pod, event).await;
            }
        }
        Ok(Some(rest))
    }

    /// Reports the annotations of an accepted pod that cannot be read.
    async fn report_invalid(&self, pod: &Value, behavior: &Behavior) {
        for name in &behavior.invalid {
            let message = format!("The annotation {name} has no effect: its value cannot be read");
            self.recorder.record(NAME, pod, Event::warning("InvalidAnnotation", message)).await;
        }
    }

    /// Removes what is known about a pod apart from its address.
    fn forget(&self, key: &ObjectKey) {
        self.stages.lock().remove(key);
        self.pulls.lock().remove(key);
    }

    /// Ends a pod that is being deleted, and removes it. Its phase becomes terminal first, as the
    /// kubelet requires in `canBeDeleted` (k8s.io/kubernetes v1.36.4
    /// pkg/kubelet/status/status_manager.go): finalizers may keep the pod, and others wait for its
    /// end.
    async fn stop(&self, key: &ObjectKey, pod: &Pod, writer: Writer<'_>) -> Result<Action, Error> {
        if !pod.has_ended {
            self.record_each(pod, |it| Event::normal("Killing", format!("Stopping container {it}"))).await;
        }
        let (now, uid) = (self.environment.stamp(), text(pod, "/metadata/uid"));
        let facts = Facts { now: &now, hosts: &[], addresses: &[], uid, over: false };
        self.report(key, Stage::Stop, Stage::Stop, facts, writer).await?;
        self.remove(key, pod, writer).await
    }

    /// Writes the status of a pod at a stage after an act. Returns the pod, or `None` if there is
    /// none of this name.
    async fn report(
        &self,
        key: &ObjectKey,
        stage: Stage,
        act: Stage,
        facts: Facts<'_>,
        writer: Writer<'_>,
    ) -> Result<Option<Arc<Pod>>, Error> {
        let report = |it: &mut Value| {
            let status =
                if text(it, "/metadata/uid") == facts.uid { report(stage, act, it, facts) } else { None };
            status.map(|status| it["status"] = status).is_some()
        };
        self.pods.change(key, "status", writer, report).await
    }

    /// Deletes a pod whose node does not exist. A pod that has not ended fails first, as in
    /// `markFailedAndDeletePodWithCondition` (k8s.io/kubernetes v1.36.4
    /// pkg/controller/podgc/gc_controller.go).
    async fn collect(&self, key: &ObjectKey, pod: &Value, context: &Context) -> Result<Action, Error> {
        // The cache may be behind (`checkIfNodeExists` in the same file of
        // kube-controller-manager).
        if self.nodes.live(&ObjectKey::cluster(text(pod, "/spec/nodeName"))).await?.is_some() {
            return Ok(Action::RequeueAfter(QUARANTINE));
        }
        let writer = Writer { manager: "kube-controller-manager", context };
        let now = self.environment.stamp();
        let fail = |it: &mut Value| {
            if has_ended(it) || text(it, "/metadata/uid") != text(pod, "/metadata/uid") {
                return false;
            }
            let mut conditions = items(it, "/status/conditions").to_vec();
            let message = "PodGC: node no longer exists";
            condition::set(&mut conditions, "DisruptionTarget", "True", "DeletionByPodGC", message, &now);
            it["status"]["conditions"] = conditions.into();
            it["status"]["phase"] = "Failed".into();
            true
        };
        self.pods.change(key, "status", writer, fail).await?;
        self.remove(key, pod, writer).await
    }

    /// Deletes a pod at once, unless another pod has its name now.
    async fn remove(&self, key: &ObjectKey, pod: &Value, writer: Writer<'_>) -> Result<Action, Error> {
        let uid = Some(text(pod, "/metadata/uid").to_owned());
        let this_pod = Preconditions { uid, ..Preconditions::default() };
        let params = DeleteParams::default().grace_period(Duration::ZERO).preconditions(this_pod);
        match self.pods.delete(key, &params, writer).await {
            Ok(_) => Ok(Action::Done),
            Err(error) if code(&error) == 409 => {
                // The uid is not the only reason for a conflict; then another attempt may succeed.
                let same = |it: Arc<Pod>| it["metadata"]["uid"] == pod["metadata"]["uid"];
                let exists = self.pods.live(key).await?.is_some_and(same);
                if exists { Err(error) } else { Ok(Action::Done) }
            }
            Err(error) => Err(error),
        }
    }

    /// Records an event for each container.
    async fn record_each(&self, pod: &Value, event: impl Fn(&str) -> Event) {
        for container in items(pod, "/spec/containers") {
            self.recorder.record(NAME, pod, event(text(container, "/name"))).await;
        }
    }
}

impl Component for Kubelet {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes pods on nodes: one that has changed, and those of a
    /// node that was created or removed after them, or that becomes ready.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let assigned = Predicate::matching(|pod: &Pod| !pod.node().is_empty());
        let came_or_went = Predicate::updated(|old: &JsonObject, new: &JsonObject| {
            condition::status(old, "Ready") != condition::status(new, "Ready")
        });
        let pods = self.pods.clone();
        let of_node = move |node: &JsonObject| {
            pods.store.index_keys(NODE, node.header().name).expect("indexes are added with the informer")
        };
        Controller::of(Watched::new(&self.pods.informer).when(assigned))
            .watches(Watched::new(&self.nodes.informer).when(came_or_went), of_node)
    }

    /// Tracks the addresses of pods. None may be allocated before all existing ones are known.
    fn prepare(&self) -> BoxFuture<'static, Result<Option<ScopedRegistration>, BoxError>> {
        let (pods, addresses) = (self.pods.informer.clone(), Arc::clone(&self.addresses));
        let tracking = async move {
            let handler = pods.add_handler(AddressTracker(addresses))?.scoped();
            pods.start();
            handler.synced().await?;
            Ok(Some(handler))
        };
        tracking.boxed()
    }
}

impl Reconciler for Kubelet {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(pod) = self.pods.get(key) else {
            self.forget(key);
            return Ok(Action::Done);
        };
        let node = self.nodes.store.get_named(None, pod.node());
        let Some(stage) = stage(&pod, node.is_some()) else {
            self.forget(key);
            return Ok(Action::Done);
        };
        // The kubelet of a node that is lost does nothing, and one that is not ready reports no pod
        // as ready. The pods come back when the node is ready again.
        match node.as_ref().map_or("", |it| condition::status(it, "Ready")) {
            "Unknown" => return Ok(Action::Done),
            "False" if stage == Stage::Refresh => return Ok(Action::Done),
            _ => {}
        }
        let (behavior, writer) = (Behavior::read(&pod), Writer { manager: NAME, context });
        if stage == Stage::Start
            && behavior.pull_failures > 0
            && let Some(rest) = self.pull(key, &pod, &behavior, writer).await?
        {
            return Ok(Action::RequeueAfter(rest));
        }
        let left = time_left(&pod, self.environment.now());
        let over = left.is_some_and(|it| it.is_zero()) && stage.has_deadline();
        let rest = self.rest(key, &pod, stage, &behavior);
        if !rest.is_zero() && !over && stage != Stage::Complete {
            return Ok(Action::RequeueAfter(left.map_or(rest, |it| it.min(rest))));
        }
        let Some(node) = node else { return self.collect(key, &pod, context).await };
        if stage == Stage::Stop {
            return self.stop(key, &pod, writer).await;
        }
        // Gates may open while the containers run.
        let act = if stage == Stage::Complete && !rest.is_zero() { Stage::Refresh } else { stage };
        let (now, uid) = (self.environment.stamp(), text(&pod, "/metadata/uid"));
        let hosts = hosts(&node);
        let gets_address = act == Stage::Start && !over && text(&pod, "/status/podIP").is_empty();
        let own = match (gets_address, flag(&pod, "/spec/hostNetwork")) {
            (true, false) => Some(take_address(&mut self.addresses.lock(), key, uid, &node)),
            _ => None,
        };
        let addresses = match &own {
            Some(own) => vec![own.as_str()],
            None if gets_address => hosts.clone(),
            None => Vec::new(),
        };
        let facts = Facts { now: &now, hosts: &hosts, addresses: &addresses, uid, over };
        let reported = self.report(key, stage, act, facts, writer).await?;
        if reported.is_none_or(|it| text(&it, "/metadata/uid") != uid) {
            // The handler may have processed the deletion before the address was taken.
            self.addresses.lock().give_back_unreported(key, uid);
            return Ok(Action::Done);
        }
        self.record_stage(&pod, act, &behavior).await;
        if act == Stage::Complete {
            // After a restart, the same stage begins again.
            self.stages.lock().remove(key);
        }
        let rests = [left, Some(rest)].into_iter().flatten().filter(|it| !it.is_zero());
        let again = rests.min().filter(|_| act == Stage::Refresh && !over);
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}

impl Kubelet {
    /// Records the events of a stage.
    async fn record_stage(&self, pod: &Value, stage: Stage, behavior: &Behavior) {
        match stage {
            Stage::Accept => self.report_invalid(pod, behavior).await,
            Stage::Start | Stage::Restart => {
                self.record_each(pod, |it| Event::normal("Started", format!("Started container {it}"))).await;
            }
            Stage::Complete if behavior.restarts() => {
                let name = status::full_name(pod);
                let message = |it: &str| format!("Back-off restarting failed container {it} in pod {name}");
                self.record_each(pod, |it| Event::warning("BackOff", message(it))).await;
            }
            _ => {}
        }
    }
}

impl Stage {
    /// Returns true if a pod at this stage ends when its deadline has passed.
    fn has_deadline(self) -> bool {
        matches!(self, Self::Start | Self::Complete | Self::Restart | Self::Refresh)
    }
}

/// Tracks which pods have which addresses.
struct AddressTracker(Arc<Mutex<Addresses>>);

impl EventHandler<Pod> for AddressTracker {
    fn on_change(&mut self, change: &Change<Pod>) {
        let pod = change.object();
        let (address, Some(key)) = (text(pod, "/status/podIP"), pod.key()) else { return };
        let (mut addresses, uid) = (self.0.lock(), text(pod, "/metadata/uid"));
        match change {
            Change::Deleted(_) => {
                addresses.give_back(address, &key);
                addresses.give_back_unreported(&key, uid);
            }
            _ if address.is_empty() => {}
            _ => addresses.hold(address.to_owned(), &key, uid),
        }
    }
}

/// Allocates an address for a pod, in the network of its node if that has a free one.
fn take_address(addresses: &mut Addresses, key: &ObjectKey, uid: &str, node: &Value) -> String {
    let network = text(node, "/spec/podCIDR").rsplit_once('.').map_or("", |(it, _)| it);
    addresses.take(key, uid, network)
}

/// Returns the addresses of a node: the first one, and the first of the other family
/// (`GetNodeHostIPs` in k8s.io/kubernetes v1.36.4 pkg/util/node/node.go). There may be none.
fn hosts(node: &Value) -> Vec<&str> {
    let of_type = |kind: &'static str| {
        let all = items(node, "/status/addresses").iter().filter(move |it| text(it, "/type") == kind);
        all.filter_map(|it| Some((text(it, "/address"), text(it, "/address").parse::<IpAddr>().ok()?)))
    };
    let mut all = of_type("InternalIP").chain(of_type("ExternalIP"));
    let Some(first) = all.next() else { return Vec::new() };
    let other = all.find(|(_, it)| it.is_ipv4() != first.1.is_ipv4());
    [Some(first), other].into_iter().flatten().map(|(it, _)| it).collect()
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
    // Without a grace period left, only finalizers keep it, but its end may not be reported yet.
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    if is_deleting(pod) && grace == 0 && has_ended(pod) {
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
        "Running" if status::waits_for_restart(pod) => Some(Stage::Restart),
        "Running" if Behavior::read(pod).ends() => Some(Stage::Complete),
        "Running" => Some(Stage::Refresh),
        _ if at(pod, "/status/startTime").is_none() => Some(Stage::Accept),
        _ => Some(Stage::Start),
    }
}

/// Returns the status of a pod after an act; `None` if the pod has changed and is at another stage.
fn report(expected: Stage, act: Stage, pod: &Value, facts: Facts<'_>) -> Option<Value> {
    if stage(pod, true) != Some(expected) {
        return None;
    }
    if facts.over {
        return Some(status::expired(pod, facts));
    }
    match act {
        Stage::Accept => Some(status::starting(pod, facts)),
        Stage::Start => Some(status::running(pod, facts)),
        Stage::Complete => Some(complete(pod, facts)),
        Stage::Restart => Some(status::restarted(pod, facts)),
        Stage::Refresh => status::refreshed(pod, facts),
        Stage::Stop if has_ended(pod) => None,
        Stage::Stop => Some(status::stopped(pod, facts)),
        Stage::Collect => None,
    }
}

/// Returns the status of a pod whose containers have ended by themselves.
fn complete(pod: &Value, facts: Facts<'_>) -> Value {
    let behavior = Behavior::read(pod);
    if !behavior.restarts() {
        return status::completed(pod, facts, behavior.exit_code());
    }
    let begun = text(pod, "/status/containerStatuses/0/state/running/startedAt").parse().ok();
    let delay = facts.now.parse().map_or(Duration::ZERO, |now| behavior.restart_after(begun, now));
    let crashed = status::crashed(pod, facts, behavior.exit_code(), &behavior::written(delay));
    if !delay.is_zero() {
        return crashed;
    }
    let mut pod = pod.clone();
    pod["status"] = crashed;
    status::restarted(&pod, facts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_stage_of_a_pod_follows_from_its_state() {
        let ends = json!({ "simulator.dogwatch.dev/complete-after": "1s" });
        let waiting = json!([{ "state": { "waiting": { "reason": "CrashLoopBackOff" } } }]);
        for (metadata, status, expected) in [
            (json!({}), json!({ "phase": "Pending" }), Some(Stage::Accept)),
            (json!({}), json!({ "phase": "Pending", "startTime": "t" }), Some(Stage::Start)),
            (json!({}), json!({ "phase": "Running" }), Some(Stage::Refresh)),
            (json!({ "annotations": ends }), json!({ "phase": "Running" }), Some(Stage::Complete)),
            (
                json!({ "annotations": ends }),
                json!({ "phase": "Running", "containerStatuses": waiting }),
                Some(Stage::Restart),
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
                Some(Stage::Stop),
            ),
            (
                json!({ "deletionTimestamp": "t", "deletionGracePeriodSeconds": 30 }),
                json!({ "phase": "Failed" }),
                Some(Stage::Stop),
            ),
            (
                json!({ "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0 }),
                json!({ "phase": "Failed" }),
                None,
            ),
        ] {
            let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n" }, "status": status });
            assert_eq!(stage(&pod, true), expected, "{pod}");
            let held = metadata["deletionGracePeriodSeconds"] == 0 && has_ended(&pod);
            assert_eq!(stage(&pod, false), (!held).then_some(Stage::Collect), "{pod}");
        }
        assert_eq!(stage(&json!({ "status": { "phase": "Pending" } }), false), None, "not assigned yet");
    }

    #[test]
    fn a_node_has_an_address_of_each_family() {
        let node = |addresses: &[(&str, &str)]| {
            let all: Vec<_> =
                addresses.iter().map(|(kind, it)| json!({ "type": kind, "address": it })).collect();
            let node = json!({ "status": { "addresses": all } });
            hosts(&node).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(node(&[("Hostname", "n"), ("InternalIP", ""), ("InternalIP", "n")]).is_empty());
        assert_eq!(node(&[("ExternalIP", "192.0.2.1"), ("InternalIP", "10.0.0.1")]), ["10.0.0.1"]);
        assert_eq!(
            node(&[("InternalIP", "2001:db8::1"), ("InternalIP", "2001:db8::2"), ("InternalIP", "10.0.0.1")]),
            ["2001:db8::1", "10.0.0.1"]
        );
    }

    #[test]
    fn pods_have_unique_addresses_even_beyond_the_network_of_a_node() {
        let mut addresses = Addresses::default();
        let node = json!({ "spec": { "podCIDR": "10.244.1.0/24" } });
        let all: Vec<_> = (0..300)
            .map(|it: u32| it.to_string())
            .map(|it| take_address(&mut addresses, &ObjectKey::cluster(&it), &it, &node))
            .collect();
        assert_eq!((all[0].as_str(), all[252].as_str()), ("10.244.1.2", "10.244.1.254"));
        assert_eq!(all[253], "10.245.0.2");
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }
}
