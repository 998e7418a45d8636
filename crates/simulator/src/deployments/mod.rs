//! Deployments: a ReplicaSet for each template, and rollouts from the old ones to the new, one step
//! at a time.
//!
//! The `mod` lines below are in layer order.

mod model;
mod rollout;
mod history;
mod status;

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{DeleteParams, Object, ObjectKey};
use dogwatch_informer::Change;
use serde_json::Value;

use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::index::{CONTROLLER, ORPHAN, SELECTOR, anchor, labels};
use crate::json_access::{number, text};
use crate::object::{JsonObject, Payload, Pod};
use crate::owner::{adopt, controller, controller_key, controls, is_deleting, key_of, release};
use crate::recorder::{Event, Recorder};
use crate::selector::{of_workload, selects};
use model::{Desired, REVISION, ReplicaSetState, annotation};
use rollout::RolloutStep;
use status::Observed;

/// The name of the component.
const NAME: &str = "deployment-controller";

/// Rolls Deployments out.
#[derive(Debug)]
pub(crate) struct Deployments {
    deployments: Collection<JsonObject>,
    sets: Collection<JsonObject>,
    pods: Collection<Pod>,
    recorder: Recorder,
    environment: Arc<Environment>,
}

/// One Deployment while it is processed.
struct Rollout<'a> {
    of: &'a Deployments,
    writer: Writer<'a>,
    deployment: Arc<Value>,
    wanted: Desired,
    /// The ReplicaSet of the current template, if there is one.
    new: Option<Arc<Value>>,
    /// All others.
    olds: Vec<Arc<Value>>,
}

impl Component for Deployments {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes the Deployment of a ReplicaSet, before and after a
    /// change; for a ReplicaSet without one, the Deployments whose selector matches. Of pods only
    /// the end counts: some Deployments wait for it.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let (deployments, sets) = (self.deployments.clone(), self.sets.clone());
        let owners = move |set: &JsonObject| -> Vec<ObjectKey> {
            if controller(set).is_some() {
                return controller_key(set, "Deployment").into_iter().collect();
            }
            let candidates =
                labels(&set.header()).into_iter().flat_map(|it| deployments.found(SELECTOR, &it));
            let wants = |it: &Arc<JsonObject>| of_workload(it).is_some_and(|it| selects(&it, set));
            candidates.filter(wants).filter_map(|it| it.key()).collect()
        };
        let ended = Predicate::new(|change: &Change<Pod>| match change {
            Change::Deleted(_) => true,
            // Finalizers may keep the pod.
            Change::Updated { old, new } => new.has_ended && !old.has_ended,
            _ => false,
        });
        let waiting = move |pod: &Pod| {
            let set = sets.get(&controller_key(pod, "ReplicaSet")?)?;
            controller_key(&set, "Deployment")
        };
        Controller::of(&self.deployments.informer)
            .watches(&self.sets.informer, owners)
            .watches(Watched::new(&self.pods.informer).when(ended), waiting)
    }
}

impl Reconciler for Deployments {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Action::Done) };
        let mut rollout = Rollout {
            of: self,
            writer: Writer { manager: "kube-controller-manager", context },
            wanted: Desired::read(&deployment),
            deployment: Arc::clone(deployment.json()),
            new: None,
            olds: Vec::new(),
        };
        if !rollout.claim(key).await? {
            // The key comes back when the cache shows what has become of the Deployment.
            return Ok(Action::Done);
        }
        let again = rollout.advance(key).await?;
        let again = again.map(|it| Action::RequeueAfter(Duration::from_secs(it.unsigned_abs())));
        Ok(again.unwrap_or(Action::Done))
    }
}

impl Deployments {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            deployments: caches.deployments.get(),
            sets: caches.replica_sets.get(),
            pods: caches.pods.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
        }
    }
}

impl Rollout<'_> {
    /// Finds the ReplicaSets of the Deployment. Adopts those without a controller, and releases
    /// those that it no longer selects. Returns false if the cached Deployment is out of date.
    async fn claim(&mut self, key: &ObjectKey) -> Result<bool, Error> {
        let Some(selector) = of_workload(&self.deployment) else { return Ok(true) };
        let alive = !is_deleting(&self.deployment);
        let (mut claimed, mut failed): (Vec<Arc<Value>>, _) = (Vec::new(), FirstError::default());
        let mut owned = self.of.sets.found(CONTROLLER, text(&self.deployment, "/metadata/uid"));
        // A reference to an owner in another namespace is invalid.
        owned.retain(|it| it.header().namespace == key.namespace());
        for set in owned {
            if selects(&selector, &set) || !alive {
                claimed.push(Arc::clone(set.json()));
            } else if let Some(set_key) = set.key() {
                let release = |it: &mut Value| release(&self.deployment, it);
                failed.keep(self.of.sets.change(&set_key, "", self.writer, release).await);
            }
        }
        let mut orphans = self.of.sets.found(ORPHAN, &anchor(key.namespace().unwrap_or_default(), &selector));
        orphans.retain(|it| alive && !is_deleting(it) && selects(&selector, it));
        if !orphans.is_empty() && !self.of.deployments.may_adopt(key, &self.deployment).await? {
            return Ok(false);
        }
        for set in orphans {
            let Some(set_key) = set.key() else { continue };
            let adopt = |it: &mut Value| adopt(&self.deployment, it);
            let adopted = self.of.sets.change(&set_key, "", self.writer, adopt).await;
            // Another client may have been faster.
            let ours = failed.keep(adopted).flatten().filter(|it| controls(&self.deployment, it));
            claimed.extend(ours.map(|it| Arc::clone(it.json())));
        }
        failed.into_result()?;
        claimed.sort_by(|left, right| {
            ReplicaSetState::read(left).age().cmp(&ReplicaSetState::read(right).age())
        });
        let current = claimed.iter().position(|it| history::is_current(&self.deployment, it));
        self.new = current.map(|at| claimed.remove(at));
        self.olds = claimed;
        Ok(true)
    }

    /// Takes the next step and writes the status. Returns the seconds after which to process the
    /// Deployment again.
    async fn advance(&mut self, key: &ObjectKey) -> Result<Option<i64>, Error> {
        if is_deleting(&self.deployment) || of_workload(&self.deployment).is_none() {
            return self.report(key, false).await;
        }
        let olds = self.old_sets();
        self.annotate(&olds).await?;
        let new = self.new.as_deref().map(ReplicaSetState::read);
        let old_pods = self.wanted.recreate && self.has_old_pods();
        let (mut created, mut failed) = (false, FirstError::default());
        match rollout::step(&self.wanted, new.as_ref(), &olds, old_pods) {
            RolloutStep::Rest => {}
            RolloutStep::Create(size) => {
                created = self.create(key, size, history::next_revision(&olds)).await?
            }
            RolloutStep::Resize(sizes) => {
                for (name, size) in sizes {
                    failed.keep(self.resize(key, &name, size).await);
                }
            }
        }
        let status = &self.deployment["status"];
        if self.wanted.paused || status::is_complete(&self.deployment, &self.wanted, status) {
            for name in
                rollout::expired_revisions(number(&self.deployment, "/spec/revisionHistoryLimit"), &olds)
            {
                failed.keep(self.forget(key, &name).await);
            }
        }
        let reported = self.report(key, created).await;
        failed.into_result()?;
        reported
    }

    fn old_sets(&self) -> Vec<ReplicaSetState> {
        self.olds.iter().map(|it| ReplicaSetState::read(it)).collect()
    }

    /// Returns true if pods of old ReplicaSets still exist.
    fn has_old_pods(&self) -> bool {
        let mut pods =
            self.olds.iter().flat_map(|it| self.of.pods.found(CONTROLLER, text(it, "/metadata/uid")));
        let namespace = text(&self.deployment, "/metadata/namespace");
        pods.any(|it| !it.has_ended && it.header().namespace == Some(namespace))
    }

    /// Updates the annotations of the current ReplicaSet.
    async fn annotate(&mut self, olds: &[ReplicaSetState]) -> Result<(), Error> {
        let Some(new) = self.new.clone() else { return Ok(()) };
        let Some(key) = key_of(&new) else { return Ok(()) };
        let revision = history::next_revision(olds);
        let seconds = number(&self.deployment, "/spec/minReadySeconds").unwrap_or(0);
        let bring = |it: &mut Value| {
            let stale = number(it, "/spec/minReadySeconds").unwrap_or(0) != seconds;
            if stale {
                it["spec"]["minReadySeconds"] = seconds.into();
            }
            history::annotate(&self.deployment, it, revision) || stale
        };
        let changed = self.of.sets.change(&key, "", self.writer, bring).await?;
        self.new = changed.map(|it| Arc::clone(it.json()));
        Ok(())
    }

    /// Creates the ReplicaSet of the current template. Returns true if it did.
    async fn create(&mut self, key: &ObjectKey, size: i64, revision: i64) -> Result<bool, Error> {
        let set = history::new_set(&self.deployment, size, revision);
        let name = text(&set, "/metadata/name").to_owned();
        match self.of.sets.create(set, self.writer).await {
            Ok(created) => {
                self.new = Some(Arc::clone(created.json()));
                if size > 0 {
                    self.record_event(format!("Scaled up replica set {name} from 0 to {size}")).await;
                }
                Ok(true)
            }
            // It is the set of this template, which the cache does not show yet, or another
            // template has the same hash: then the next attempt uses another one
            // (`getNewReplicaSet` in k8s.io/kubernetes v1.36.4 pkg/controller/deployment/sync.go).
            Err(error) if error.is_already_exists() => {
                let Ok(set_key) = ObjectKey::from_parts(key.namespace(), &name) else { return Err(error) };
                let Some(existing) = self.of.sets.live(&set_key).await? else { return Err(error) };
                if controls(&self.deployment, &existing) && history::is_current(&self.deployment, &existing) {
                    return Err(error);
                }
                let collided = |it: &mut Value| {
                    let count = number(it, "/status/collisionCount").unwrap_or(0);
                    it["status"]["collisionCount"] = count.saturating_add(1).into();
                    true
                };
                self.of.deployments.change(key, "status", self.writer, collided).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn resize(&mut self, key: &ObjectKey, name: &str, size: i64) -> Result<(), Error> {
        let Ok(set_key) = ObjectKey::from_parts(key.namespace(), name) else { return Ok(()) };
        let mut before = size;
        let resize = |it: &mut Value| {
            before = number(it, "/spec/replicas").unwrap_or(1);
            history::set_size(it, size, &self.wanted)
        };
        let Some(changed) = self.of.sets.change(&set_key, "", self.writer, resize).await? else {
            return Ok(());
        };
        for set in self.new.iter_mut().chain(&mut self.olds) {
            if text(set, "/metadata/name") == name {
                *set = Arc::clone(changed.json());
            }
        }
        if before != size {
            let way = if before < size { "up" } else { "down" };
            self.record_event(format!("Scaled {way} replica set {name} from {before} to {size}")).await;
        }
        Ok(())
    }

    async fn record_event(&self, message: String) {
        let event = Event::normal("ScalingReplicaSet", message);
        self.of.recorder.record(NAME, &self.deployment, event).await;
    }

    async fn forget(&self, key: &ObjectKey, name: &str) -> Result<(), Error> {
        let Ok(set_key) = ObjectKey::from_parts(key.namespace(), name) else { return Ok(()) };
        self.of.sets.delete(&set_key, &DeleteParams::default(), self.writer).await?;
        Ok(())
    }

    /// Writes the status and the revision.
    async fn report(&self, key: &ObjectKey, created: bool) -> Result<Option<i64>, Error> {
        let (new, olds) = (self.new.as_deref().map(ReplicaSetState::read), self.old_sets());
        let revision = self.new.as_deref().map_or("", |it| annotation(it, REVISION));
        let mut again = None;
        let report = |it: &mut Value| {
            if text(it, "/metadata/uid") != text(&self.deployment, "/metadata/uid") {
                return false;
            }
            // The observed generation is that of the state on which the decision was based, not of
            // a newer one.
            let mut seen = it.clone();
            seen["metadata"]["generation"] = self.deployment["metadata"]["generation"].clone();
            let observed = Observed {
                deployment: &seen,
                wanted: &self.wanted,
                new: new.as_ref(),
                olds: &olds,
                created,
                now: self.of.environment.now(),
            };
            let (status, rest) = status::status(observed);
            again = rest;
            let renumbered = !revision.is_empty() && annotation(it, REVISION) != revision;
            if renumbered {
                it["metadata"]["annotations"][REVISION] = revision.into();
            }
            let changed = it["status"] != status;
            it["status"] = status;
            changed || renumbered
        };
        self.of.deployments.change(key, "status", self.writer, report).await?;
        Ok(again)
    }
}
