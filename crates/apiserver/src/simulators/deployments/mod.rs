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

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::decoded_cache::DecodedCache;
use super::owner::{adopt, controller, controller_key, controls, is_deleting, key_of, release};
use super::selector::{of_workload, selects};
use crate::ApiError;
use crate::cluster::{Cluster, DeleteOptions, ObjectRef, Writer};
use crate::controllers::reconcile::{Next, Reconciler};
use crate::controllers::recorder::{Event, record};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{number, text};
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};
use model::{Desired, REVISION, ReplicaSetState, annotation};
use rollout::RolloutStep;
use status::Observed;

/// Rolls Deployments out.
#[derive(Debug, Default)]
pub(super) struct Deployments {
    sets: DecodedCache,
}

/// One Deployment while it is processed.
struct Rollout<'a> {
    cluster: &'a Cluster,
    writer: Writer,
    deployments: Arc<Kind>,
    sets: Arc<Kind>,
    deployment: Value,
    wanted: Desired,
    /// The ReplicaSet of the current template, if there is one.
    new: Option<Arc<Value>>,
    /// All others.
    olds: Vec<Arc<Value>>,
}

impl Reconciler for Deployments {
    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        let of = |group, plural| builtin(cluster, group, "v1", plural).collection.clone();
        vec![of("apps", "deployments"), of("apps", "replicasets"), of("", "pods")]
    }

    /// Returns the Deployment of a ReplicaSet, before and after a change; for a ReplicaSet without
    /// one, the Deployments whose selector matches. Of pods only the deletion counts: some
    /// Deployments wait for it.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        match (&**collection, before, after) {
            ("/pods", Some(pod), None) => self.waiting_for(cluster, &pod.to_value()).into_iter().collect(),
            ("/pods", ..) => Vec::new(),
            ("apps/replicasets", ..) => self.owners(cluster, before, after),
            _ => after.map(|it| it.key().clone()).into_iter().collect(),
        }
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let deployments = builtin(cluster, "apps", "v1", "deployments");
        let Some(deployment) = cluster.get(&deployments, key).map(|it| it.to_value()) else {
            return Ok(Next::touch());
        };
        let mut rollout = Rollout {
            cluster,
            writer: writer("deployment-controller", "kube-controller-manager"),
            wanted: Desired::read(&deployment),
            sets: builtin(cluster, "apps", "v1", "replicasets"),
            deployments,
            deployment,
            new: None,
            olds: Vec::new(),
        };
        rollout.claim(&mut self.sets, key).await?;
        let again = rollout.advance(key).await?;
        Ok(again.map_or_else(Next::touch, |it| Next::after(Duration::from_secs(it.unsigned_abs()))))
    }
}

impl Deployments {
    /// Returns the Deployment that may wait for a pod of its old ReplicaSets to be gone.
    fn waiting_for(&mut self, cluster: &Cluster, pod: &Value) -> Option<ObjectKey> {
        let kind = builtin(cluster, "apps", "v1", "replicasets");
        let set = cluster.get(&kind, &controller_key(pod, "ReplicaSet")?)?;
        controller_key(&self.sets.value(&set), "Deployment")
    }

    fn owners(
        &mut self,
        cluster: &Cluster,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let sides: Vec<_> = [before, after].into_iter().flatten().map(|it| self.sets.value(it)).collect();
        if let (Some(before), None) = (before, after) {
            self.sets.forget(before.key());
        }
        let mut owners: Vec<_> = sides.iter().filter_map(|it| controller_key(it, "Deployment")).collect();
        if let Some(orphan) = sides.last().filter(|it| after.is_some() && controller(it).is_none()) {
            let kind = builtin(cluster, "apps", "v1", "deployments");
            let all = cluster.list(&kind, Some(text(orphan, "/metadata/namespace")));
            let wants = |it: &Value| of_workload(it).is_some_and(|it| selects(&it, orphan));
            owners.extend(all.iter().map(|it| it.to_value()).filter(wants).filter_map(|it| key_of(&it)));
        }
        owners
    }
}

impl Rollout<'_> {
    /// Finds the ReplicaSets of the Deployment. Adopts those without a controller, and releases
    /// those that it no longer selects.
    async fn claim(&mut self, view: &mut DecodedCache, key: &ObjectKey) -> Result<(), ApiError> {
        let Some(selector) = of_workload(&self.deployment) else { return Ok(()) };
        let alive = !is_deleting(&self.deployment);
        let mut claimed = Vec::new();
        for set in view.all(self.cluster, &self.sets, key.namespace()) {
            let (ours, matches) = (controls(&self.deployment, &set), selects(&selector, &set));
            let Some(set_key) = key_of(&set) else { continue };
            let place = ObjectRef::of(&self.sets, &set_key);
            if ours && !matches && alive {
                let release = |it: &mut Value| release(&self.deployment, it);
                self.cluster.change(&place, &self.writer, release).await?;
            } else if ours {
                claimed.push(set);
            } else if matches && alive && controller(&set).is_none() && !is_deleting(&set) {
                let adopt = |it: &mut Value| adopt(&self.deployment, it);
                self.cluster.change(&place, &self.writer, adopt).await?;
                claimed.push(set);
            }
        }
        claimed.sort_by(|left, right| {
            ReplicaSetState::read(left).age().cmp(&ReplicaSetState::read(right).age())
        });
        let current = claimed.iter().position(|it| history::is_current(&self.deployment, it));
        self.new = current.map(|at| claimed.remove(at));
        self.olds = claimed;
        Ok(())
    }

    /// Takes the next step and writes the status. Returns the seconds after which to process the
    /// Deployment again.
    async fn advance(&mut self, key: &ObjectKey) -> Result<Option<i64>, ApiError> {
        if is_deleting(&self.deployment) || of_workload(&self.deployment).is_none() {
            return self.report(key, false).await;
        }
        let olds = self.old_sets();
        self.annotate(&olds).await?;
        let new = self.new.as_deref().map(ReplicaSetState::read);
        let old_pods = self.wanted.recreate && self.has_old_pods();
        let mut created = false;
        match rollout::step(&self.wanted, new.as_ref(), &olds, old_pods) {
            RolloutStep::Rest => {}
            RolloutStep::Create(size) => {
                created = self.create(key, size, history::next_revision(&olds)).await?
            }
            RolloutStep::Resize(sizes) => {
                for (name, size) in sizes {
                    self.resize(key, &name, size).await?;
                }
            }
        }
        let status = &self.deployment["status"];
        if self.wanted.paused || status::is_complete(&self.deployment, &self.wanted, status) {
            for name in
                rollout::expired_revisions(number(&self.deployment, "/spec/revisionHistoryLimit"), &olds)
            {
                self.forget(key, &name).await?;
            }
        }
        self.report(key, created).await
    }

    fn old_sets(&self) -> Vec<ReplicaSetState> {
        self.olds.iter().map(|it| ReplicaSetState::read(it)).collect()
    }

    /// Returns true if pods of old ReplicaSets still exist.
    fn has_old_pods(&self) -> bool {
        let pods = builtin(self.cluster, "", "v1", "pods");
        let namespace = text(&self.deployment, "/metadata/namespace");
        let ended = |it: &Value| matches!(text(it, "/status/phase"), "Succeeded" | "Failed");
        let mut pods = self.cluster.list(&pods, Some(namespace)).into_iter().map(|it| it.to_value());
        pods.any(|pod| !ended(&pod) && self.olds.iter().any(|it| controls(it, &pod)))
    }

    /// Updates the annotations of the current ReplicaSet.
    async fn annotate(&mut self, olds: &[ReplicaSetState]) -> Result<(), ApiError> {
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
        let changed = self.cluster.change(&ObjectRef::of(&self.sets, &key), &self.writer, bring).await?;
        self.new = changed.map(|it| Arc::new(it.to_value(&self.sets)));
        Ok(())
    }

    /// Creates the ReplicaSet of the current template. Returns true if it did.
    async fn create(&mut self, key: &ObjectKey, size: i64, revision: i64) -> Result<bool, ApiError> {
        let set = history::new_set(&self.deployment, size, revision);
        let name = text(&set, "/metadata/name").to_owned();
        match self.cluster.add(set, &self.writer).await {
            Ok(written) => {
                self.new = Some(Arc::new(written.object.to_value(&self.sets)));
                if size > 0 {
                    self.record_event(format!("Scaled up replica set {name} from 0 to {size}")).await;
                }
                Ok(true)
            }
            // Another template has the same hash: the next attempt uses another one.
            Err(refusal) if refusal.0.is_already_exists() => {
                let collided = |it: &mut Value| {
                    let count = number(it, "/status/collisionCount").unwrap_or(0);
                    it["status"]["collisionCount"] = (count + 1).into();
                    true
                };
                let place = ObjectRef::of(&self.deployments, key).part("status");
                self.cluster.change(&place, &self.writer, collided).await?;
                Err(refusal)
            }
            Err(refusal) => Err(refusal),
        }
    }

    async fn resize(&mut self, key: &ObjectKey, name: &str, size: i64) -> Result<(), ApiError> {
        let Ok(set_key) = ObjectKey::from_parts(key.namespace(), name) else { return Ok(()) };
        let mut before = size;
        let resize = |it: &mut Value| {
            before = number(it, "/spec/replicas").unwrap_or(1);
            history::set_size(it, size, &self.wanted)
        };
        let changed = self.cluster.change(&ObjectRef::of(&self.sets, &set_key), &self.writer, resize).await?;
        let Some(changed) = changed.map(|it| Arc::new(it.to_value(&self.sets))) else { return Ok(()) };
        for set in self.new.iter_mut().chain(&mut self.olds) {
            if text(set, "/metadata/name") == name {
                *set = Arc::clone(&changed);
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
        record(self.cluster, &self.writer, &self.deployment, &event).await;
    }

    async fn forget(&self, key: &ObjectKey, name: &str) -> Result<(), ApiError> {
        let Ok(set_key) = ObjectKey::from_parts(key.namespace(), name) else { return Ok(()) };
        let place = ObjectRef::of(&self.sets, &set_key);
        match self.cluster.delete(&place, &DeleteOptions::default(), &self.writer).await {
            Err(refusal) if refusal.0.code != 404 => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Writes the status and the revision.
    async fn report(&self, key: &ObjectKey, created: bool) -> Result<Option<i64>, ApiError> {
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
                now: self.cluster.source().now(),
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
        let place = ObjectRef::of(&self.deployments, key).part("status");
        self.cluster.change(&place, &self.writer, report).await?;
        Ok(again)
    }
}
