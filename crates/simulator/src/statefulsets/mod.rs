//! StatefulSets: pods with stable names and claims, started in order, updated and deleted in
//! reverse order.
//!
//! The `mod` lines below are in layer order.

mod identity;
mod claims;
mod plan;
mod status;

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, LabelSelector, Object, ObjectKey};
use serde_json::Value;

use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::json_access::{items, text};
use crate::object::{JsonObject, Pod};
use crate::owner::is_deleting;
use crate::ownership::{Claimant, workloads_of};
use crate::recorder::{Event, Recorder};
use crate::revisions::{self, CurrentRevision};
use crate::selector::of_workload;
use plan::{Observed, Plan, Step};
use status::Revisions;

/// The name of the component.
const NAME: &str = "statefulset-controller";
const MANAGER: &str = "kube-controller-manager";

/// The label for the hash of a revision: `ControllerRevisionHashLabel` in k8s.io/kubernetes v1.36.4
/// pkg/controller/history/controller_history.go.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The time after which a pod is tried again whose claims are still being deleted.
const CLAIM_RETRY: Duration = Duration::from_secs(1);

/// Keeps StatefulSets at their size and revision.
#[derive(Debug)]
pub(crate) struct StatefulSets {
    sets: Collection<JsonObject>,
    pods: Collection<Pod>,
    claims: Collection<JsonObject>,
    revisions: Collection<JsonObject>,
    recorder: Recorder,
    environment: Arc<Environment>,
}

/// One StatefulSet while it is processed.
#[derive(Clone, Copy)]
struct Rollout<'a> {
    of: &'a StatefulSets,
    set: &'a Value,
    writer: Writer<'a>,
    /// The revision that the set had before, and that of the current template.
    current: &'a JsonObject,
    update: &'a JsonObject,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// A claim has to be gone before the pod can be created.
    Blocked,
}

impl StatefulSets {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            sets: caches.stateful_sets.get(),
            pods: caches.pods.get(),
            claims: caches.claims.get(),
            revisions: caches.revisions.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
        }
    }

    /// Writes the status of a set.
    async fn report(
        &self,
        key: &ObjectKey,
        set: &Value,
        status: Value,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        let report = |it: &mut Value| {
            let same = text(it, "/metadata/uid") == text(set, "/metadata/uid");
            let changed = same && it["status"] != status;
            it["status"] = status.clone();
            changed
        };
        self.sets.change(key, "status", writer, report).await?;
        Ok(())
    }

    /// Processes a set that is not being deleted.
    async fn roll_out(
        &self,
        key: &ObjectKey,
        set: &Value,
        selector: &LabelSelector,
        writer: Writer<'_>,
    ) -> Result<Action, Error> {
        let claimant = Claimant { key, workload: set, selector, workloads: &self.sets, writer };
        let is_member =
            |it: &Pod| identity::parent_and_ordinal(it.header().name).is_some_and(|(it, _)| it == key.name());
        let Some(known) = claimant.claim(&self.revisions, |_| true).await? else { return Ok(Action::Done) };
        let Some(pods) = claimant.claim(&self.pods, is_member).await? else { return Ok(Action::Done) };
        let CurrentRevision { revision: update, collisions } =
            revisions::current(&self.revisions, set, &known, HASH_LABEL, writer).await?;
        let current_name = text(set, "/status/currentRevision");
        let current = known.iter().find(|it| it.header().name == current_name).unwrap_or(&update);
        let update_revision = update.header().name;
        let observed = Observed { set, pods: &pods, update_revision, now: self.environment.now() };
        let plan = plan::plan(observed);
        let rollout = Rollout { of: self, set, writer, current, update: &update };
        let executed = rollout.execute(&plan).await;
        let revisions = Revisions { current: current.header().name, update: update_revision, collisions };
        let replaced = plan.replaces && matches!(executed, Ok(Outcome::Done));
        self.report(key, set, status::status(observed, revisions, replaced), writer).await?;
        let outcome = executed?;
        let is_live = |it: &JsonObject| {
            let name = it.header().name;
            name == revisions.current
                || name == update_revision
                || pods.iter().any(|it| plan::revision(it) == name)
        };
        revisions::truncate(&self.revisions, set, &known, is_live, writer).await?;
        let blocked = (outcome == Outcome::Blocked).then_some(CLAIM_RETRY);
        let again = blocked.into_iter().chain(plan::next_available(observed)).min();
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}

impl Component for StatefulSets {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes the set of a pod or a revision, before and after a
    /// change, and the set of a claim that it or its pod owns.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let of_claim = |claim: &JsonObject| -> Vec<ObjectKey> {
            let owners = items(claim, "/metadata/ownerReferences").iter();
            let set = |it: &Value| {
                let name = match text(it, "/kind") {
                    "StatefulSet" => text(it, "/name"),
                    "Pod" => identity::parent_and_ordinal(text(it, "/name"))?.0,
                    _ => return None,
                };
                ObjectKey::from_parts(claim.header().namespace, name).ok()
            };
            owners.filter_map(set).collect()
        };
        Controller::of(&self.sets.informer)
            .watches(&self.pods.informer, workloads_of::<Pod>(&self.sets, "StatefulSet"))
            .watches(&self.revisions.informer, workloads_of::<JsonObject>(&self.sets, "StatefulSet"))
            .watches(&self.claims.informer, of_claim)
    }
}

impl Reconciler for StatefulSets {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::Done) };
        let Some(selector) = of_workload(&set) else { return Ok(Action::Done) };
        let writer = Writer { manager: MANAGER, context };
        if !is_deleting(&set) {
            return self.roll_out(key, &set, &selector, writer).await;
        }
        // Its revisions may be gone already, so the status keeps their names.
        let claimant = Claimant { key, workload: &set, selector: &selector, workloads: &self.sets, writer };
        let Some(pods) = claimant.claim(&self.pods, |_| true).await? else { return Ok(Action::Done) };
        let known = |pointer: &str| text(&set, pointer);
        let revisions = Revisions {
            current: known("/status/currentRevision"),
            update: known("/status/updateRevision"),
            collisions: crate::json_access::number(&set, "/status/collisionCount").unwrap_or(0),
        };
        let now = self.environment.now();
        let observed = Observed { set: &set, pods: &pods, update_revision: revisions.update, now };
        self.report(key, &set, status::status(observed, revisions, false), writer).await?;
        Ok(Action::Done)
    }
}

impl Rollout<'_> {
    /// Takes the steps of a plan. The pods of an ordered set wait for each other, so the first step
    /// that fails is the last one.
    async fn execute(self, plan: &Plan) -> Result<Outcome, Error> {
        let mut blocked = Outcome::Done;
        for step in &plan.steps {
            match step {
                Step::Create { ordinal, updated } => {
                    if self.create(*ordinal, *updated).await? == Outcome::Blocked {
                        blocked = Outcome::Blocked;
                    }
                }
                Step::Claim { ordinal, pod } => {
                    if self.claim(*ordinal, pod).await? == Outcome::Blocked {
                        blocked = Outcome::Blocked;
                    }
                    self.own(*ordinal, pod).await?;
                }
                Step::Restore { ordinal, pod } => self.restore(*ordinal, pod).await?,
                Step::Release { ordinal, pod } => self.own(*ordinal, pod).await?,
                Step::Delete(pod) => self.delete(pod).await?,
            }
        }
        Ok(blocked)
    }

    async fn create(self, ordinal: i64, updated: bool) -> Result<Outcome, Error> {
        let revision = if updated { self.update } else { self.current };
        let template = revisions::template(revision);
        let pod = identity::new_replica(self.set, &template, revision.header().name, ordinal);
        let name = text(&pod, "/metadata/name").to_owned();
        let is_stale = |it: &Value| {
            let claim = self.cached_claim(&identity::claim_name(self.set, it, ordinal));
            claim.is_some_and(|it| claims::is_stale(self.set, &it, &name))
        };
        if self.claim_templates().iter().any(is_stale) {
            return Ok(Outcome::Blocked);
        }
        if self.claim(ordinal, &pod).await? == Outcome::Blocked {
            return Ok(Outcome::Blocked);
        }
        match self.of.pods.create(pod, self.writer).await {
            Ok(created) => {
                self.record_pod("Create", &name, None).await;
                self.own(ordinal, &created).await?;
                Ok(Outcome::Done)
            }
            Err(error) => {
                if !error.is_already_exists() {
                    self.record_pod("Create", &name, Some(&error)).await;
                }
                Err(error)
            }
        }
    }

    /// Creates the missing claims of a pod.
    async fn claim(self, ordinal: i64, pod: &Value) -> Result<Outcome, Error> {
        let mut outcome = Outcome::Done;
        for template in self.claim_templates() {
            let name = identity::claim_name(self.set, template, ordinal);
            match self.cached_claim(&name) {
                Some(claim) if is_deleting(&claim) => outcome = Outcome::Blocked,
                Some(_) => {}
                None => {
                    let claim = claims::new_claim(self.set, template, ordinal);
                    match self.of.claims.create(claim, self.writer).await {
                        Ok(_) => self.record_claim(&name, text(pod, "/metadata/name"), None).await,
                        // The claims of former pods are kept, and the cache may be behind.
                        Err(error) if error.is_already_exists() => {}
                        Err(error) => {
                            self.record_claim(&name, text(pod, "/metadata/name"), Some(&error)).await;
                            return Err(error);
                        }
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// Updates the owners of the claims of a pod.
    async fn own(self, ordinal: i64, pod: &Value) -> Result<(), Error> {
        for template in self.claim_templates() {
            let name = identity::claim_name(self.set, template, ordinal);
            let Some(claim) = self.cached_claim(&name) else { continue };
            let Some(key) = claim.key().filter(|_| claims::owners(self.set, &claim, pod).is_some()) else {
                continue;
            };
            let own = |it: &mut Value| {
                let owners = claims::owners(self.set, it, pod);
                owners.map(|owners| it["metadata"]["ownerReferences"] = owners.into()).is_some()
            };
            self.of.claims.change(&key, "", self.writer, own).await?;
        }
        Ok(())
    }

    async fn restore(self, ordinal: i64, pod: &Pod) -> Result<(), Error> {
        self.own(ordinal, pod).await?;
        let Some(key) = pod.key().filter(|_| !identity::is_as_identified(self.set, pod, ordinal)) else {
            return Ok(());
        };
        let restore = |it: &mut Value| identity::restore(self.set, it, ordinal);
        let restored = self.of.pods.change(&key, "", self.writer, restore).await;
        self.record_pod("Update", key.name(), restored.as_ref().err()).await;
        restored.map(drop)
    }

    async fn delete(self, pod: &Pod) -> Result<(), Error> {
        let Some(key) = pod.key() else { return Ok(()) };
        let deleted = self.of.pods.delete(&key, &DeleteParams::default(), self.writer).await;
        self.record_pod("Delete", key.name(), deleted.as_ref().err()).await;
        deleted.map(drop)
    }

    fn claim_templates(&self) -> &[Value] {
        items(self.set, "/spec/volumeClaimTemplates")
    }

    fn cached_claim(&self, name: &str) -> Option<Arc<JsonObject>> {
        let key = ObjectKey::from_parts(Some(text(self.set, "/metadata/namespace")), name).ok()?;
        self.of.claims.get(&key)
    }

    async fn record_pod(self, verb: &str, pod: &str, failed: Option<&Error>) {
        let subject = format!("{verb} Pod {pod} in StatefulSet {}", text(self.set, "/metadata/name"));
        self.record(verb, failed, &subject, "successful").await;
    }

    async fn record_claim(self, claim: &str, pod: &str, failed: Option<&Error>) {
        let set = text(self.set, "/metadata/name");
        let link = if failed.is_some() { "for Pod" } else { "Pod" };
        let subject = format!("Create Claim {claim} {link} {pod} in StatefulSet {set}");
        self.record("Create", failed, &subject, "success").await;
    }

    async fn record(self, verb: &str, failed: Option<&Error>, subject: &str, success: &str) {
        let event = match (verb, failed) {
            ("Create", None) => Event::normal("SuccessfulCreate", format!("{subject} {success}")),
            ("Update", None) => Event::normal("SuccessfulUpdate", format!("{subject} {success}")),
            (_, None) => Event::normal("SuccessfulDelete", format!("{subject} {success}")),
            ("Create", Some(it)) => Event::warning("FailedCreate", format!("{subject} failed error: {it}")),
            ("Update", Some(it)) => Event::warning("FailedUpdate", format!("{subject} failed error: {it}")),
            (_, Some(it)) => Event::warning("FailedDelete", format!("{subject} failed error: {it}")),
        };
        self.of.recorder.record(NAME, self.set, event).await;
    }
}
