//! DaemonSets: a pod for each node that they select.
//!
//! The `mod` lines below are in layer order.

mod placement;
mod plan;
mod status;

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{DeleteParams, Object, ObjectKey};
use dogwatch_informer::Change;
use serde_json::Value;

use crate::backoff::Backoffs;
use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::json_access::{items, number, text};
use crate::object::{JsonObject, Pod};
use crate::owner::is_deleting;
use crate::ownership::{Claimant, workloads_of};
use crate::recorder::{Event, Recorder};
use crate::revisions::{self, CurrentRevision, REVISION_LABEL};
use crate::selector::of_workload;
use placement::Placement;
use plan::{ByNode, Observed, Plan};

/// The name of the component.
const NAME: &str = "daemonset-controller";
const MANAGER: &str = "kube-controller-manager";

/// The largest number of pods that are created or deleted at once, and the delays before a failed
/// pod of a node is replaced: `BurstReplicas` and `failedPodsBackoff` in k8s.io/kubernetes v1.36.4
/// pkg/controller/daemon/daemon_controller.go and cmd/kube-controller-manager/app/apps.go.
const BURST: usize = 250;
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(15 * 60);

/// Keeps a pod of each DaemonSet on each of its nodes.
#[derive(Debug)]
pub(crate) struct DaemonSets {
    sets: Collection<JsonObject>,
    pods: Collection<Pod>,
    nodes: Collection<JsonObject>,
    revisions: Collection<JsonObject>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The failures of pods, by DaemonSet and node.
    failures: Backoffs<(ObjectKey, String)>,
}

impl DaemonSets {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            sets: caches.daemon_sets.get(),
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            revisions: caches.revisions.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            failures: Backoffs::new(FIRST_BACKOFF, LONGEST_BACKOFF),
        }
    }

    /// Takes the steps of a plan. Returns the time after which a failed pod may be replaced.
    async fn execute(
        &self,
        key: &ObjectKey,
        set: &Value,
        placement: &Placement,
        plan: Plan,
        writer: Writer<'_>,
    ) -> Result<Option<Duration>, Error> {
        for node in plan.create.iter().take(BURST) {
            let created = self.pods.create(placement.pod_for(node), writer).await;
            let event = match &created {
                Ok(pod) => Event::normal("SuccessfulCreate", format!("Created pod: {}", pod.header().name)),
                Err(error) => Event::warning("FailedCreate", format!("Error creating: {error}")),
            };
            self.recorder.record(NAME, set, event).await;
            created?;
        }
        let (mut again, mut delete) = (None, plan.delete);
        for (node, pod) in plan.ended {
            let (name, failed) = (pod.header().name, text(&pod, "/status/phase") == "Failed");
            let event = if failed {
                let place = (key.clone(), node.clone());
                if let Some(left) = self.failures.left(&place) {
                    again = again.into_iter().chain([left]).min();
                    continue;
                }
                self.failures.failed(&place);
                let message = format!(
                    "Found failed daemon pod {}/{name} on node {node}, will try to kill it",
                    key.namespace().unwrap_or_default()
                );
                Event::warning("FailedDaemonPod", message)
            } else {
                let message = format!(
                    "Found succeeded daemon pod {}/{name} on node {node}, will try to delete it",
                    key.namespace().unwrap_or_default()
                );
                Event::normal("SucceededDaemonPod", message)
            };
            self.recorder.record(NAME, set, event).await;
            delete.push(pod);
        }
        let mut deletions = FirstError::default();
        for pod in delete.iter().take(BURST) {
            let Some(pod_key) = pod.key() else { continue };
            let deleted = self.pods.delete(&pod_key, &DeleteParams::default(), writer).await;
            if deletions.keep(deleted) == Some(true) {
                let event = Event::normal("SuccessfulDelete", format!("Deleted pod: {}", pod_key.name()));
                self.recorder.record(NAME, set, event).await;
            }
        }
        deletions.into_result()?;
        Ok(again)
    }
}

impl Component for DaemonSets {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes the DaemonSet of a pod or a revision, before and
    /// after a change; and all of them after a change of the labels or the taints of a node.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let matters = Predicate::new(|change: &Change<JsonObject>| match change {
            Change::Updated { old, new } => {
                old["metadata"].get("labels") != new["metadata"].get("labels")
                    || items(old, "/spec/taints") != items(new, "/spec/taints")
            }
            _ => true,
        });
        let sets = self.sets.clone();
        let all = move |_: &JsonObject| -> Vec<ObjectKey> {
            sets.store.snapshot().iter().filter_map(|it| it.key()).collect()
        };
        Controller::of(&self.sets.informer)
            .watches(&self.pods.informer, workloads_of::<Pod>(&self.sets, "DaemonSet"))
            .watches(&self.revisions.informer, workloads_of::<JsonObject>(&self.sets, "DaemonSet"))
            .watches(Watched::new(&self.nodes.informer).when(matters), all)
    }
}

impl Reconciler for DaemonSets {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else {
            self.failures.retain(|(of, _)| of != key);
            return Ok(Action::Done);
        };
        // The revisions of one that is being deleted may be gone already.
        let Some(selector) = of_workload(&set).filter(|_| !is_deleting(&set)) else {
            return Ok(Action::Done);
        };
        let writer = Writer { manager: MANAGER, context };
        let claimant = Claimant { key, workload: &set, selector: &selector, workloads: &self.sets, writer };
        let Some(known) = claimant.claim(&self.revisions, |_| true).await? else { return Ok(Action::Done) };
        let Some(pods) = claimant.claim(&self.pods, |_| true).await? else { return Ok(Action::Done) };
        let CurrentRevision { revision, collisions } =
            revisions::current(&self.revisions, &set, &known, REVISION_LABEL, writer).await?;
        let hash = revision["metadata"]["labels"][REVISION_LABEL].as_str().unwrap_or_default();
        let (placement, nodes) = (Placement::new(&set, hash), self.nodes.store.snapshot());
        let observed = Observed { set: &set, hash, placement: &placement, now: self.environment.now() };
        let by_node = ByNode::new(observed, nodes.iter().map(|it| &***it), &pods);
        let status = status::status(&set, &by_node, collisions);
        let executed = self.execute(key, &set, &placement, by_node.plan(), writer).await;
        let report = |it: &mut Value| {
            let same = text(it, "/metadata/uid") == text(&set, "/metadata/uid");
            let changed = same && it["status"] != status;
            it["status"] = status.clone();
            changed
        };
        self.sets.change(key, "status", writer, report).await?;
        let retry = executed?;
        let is_live = |it: &JsonObject| {
            let label = |of: &Value| of["metadata"]["labels"][REVISION_LABEL].clone();
            it.header().name == revision.header().name || pods.iter().any(|pod| label(pod) == label(it))
        };
        revisions::truncate(&self.revisions, &set, &known, is_live, writer).await?;
        let seconds = number(&set, "/spec/minReadySeconds").unwrap_or(0);
        let rest = pods.iter().filter_map(|it| it.available_after(seconds, observed.now));
        let again = rest.filter(|it| !it.is_zero()).chain(retry).min();
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}
