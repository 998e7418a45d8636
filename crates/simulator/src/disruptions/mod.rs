//! PodDisruptionBudgets: how many of their pods may be evicted. The server spends the allowance
//! when it evicts a pod.
//!
//! The `mod` lines below are in layer order.

mod status;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{LabelSelector, Object, ObjectKey};
use dogwatch_informer::Change;
use serde_json::Value;

use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::index::{LABEL, SELECTOR, anchor, labels};
use crate::int_or_percent::scaled;
use crate::json_access::{at, number, text};
use crate::object::{JsonObject, Pod};
use crate::owner::{controller, is_deleting};
use crate::selector::{of_budget, of_replication_controller, of_workload};
use status::Expected;

/// Keeps the status of PodDisruptionBudgets.
#[derive(Debug)]
pub(crate) struct Disruptions {
    budgets: Collection<JsonObject>,
    pods: Collection<Pod>,
    sets: Collection<JsonObject>,
    replication_controllers: Collection<JsonObject>,
    deployments: Collection<JsonObject>,
    stateful_sets: Collection<JsonObject>,
    environment: Arc<Environment>,
}

impl Disruptions {
    pub(crate) fn new(caches: &Caches, environment: &Arc<Environment>) -> Self {
        Self {
            budgets: caches.budgets.get(),
            pods: caches.pods.get(),
            sets: caches.replica_sets.get(),
            replication_controllers: caches.replication_controllers.get(),
            deployments: caches.deployments.get(),
            stateful_sets: caches.stateful_sets.get(),
            environment: Arc::clone(environment),
        }
    }

    /// Returns the pods of a budget.
    fn pods_of(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.found(LABEL, &anchor(namespace, selector));
        pods.retain(|it| selector.matches(it.header().labels));
        pods
    }

    /// Returns the numbers of pods that should exist and that should be healthy, or the reason why
    /// they are not known.
    fn expected(&self, budget: &Value, pods: &[Arc<Pod>]) -> Result<Expected, String> {
        let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        if let Some(unavailable) = at(budget, "/spec/maxUnavailable") {
            let expected = self.scale_of(pods)?;
            let healthy = expected.saturating_sub(scaled(Some(unavailable), expected, true)).max(0);
            return Ok(Expected { pods: expected, healthy });
        }
        match at(budget, "/spec/minAvailable") {
            Some(Value::String(_)) => {
                let expected = self.scale_of(pods)?;
                Ok(Expected {
                    pods: expected,
                    healthy: scaled(at(budget, "/spec/minAvailable"), expected, true),
                })
            }
            minimum => Ok(Expected { pods: count, healthy: scaled(minimum, count, true) }),
        }
    }

    /// Returns the number of pods that the controllers of these pods should have.
    fn scale_of(&self, pods: &[Arc<Pod>]) -> Result<i64, String> {
        let mut scales: HashMap<String, i64> = HashMap::new();
        let mut known: HashSet<&str> = HashSet::new();
        for pod in pods {
            // A pod without a controller is not expected to come back.
            let Some(owner) = controller(pod) else { continue };
            if !known.insert(text(owner, "/uid")) {
                continue;
            }
            let namespace = pod.header().namespace;
            let missing = || format!("found no controllers for pod {:?}", pod.header().name);
            let (uid, replicas) = self.controller_scale(owner, namespace).ok_or_else(missing)?;
            scales.insert(uid, replicas);
        }
        Ok(scales.values().fold(0, |sum, it| sum.saturating_add(*it)))
    }

    /// Returns the uid and the replicas of a controller, or of its own controller.
    fn controller_scale(&self, owner: &Value, namespace: Option<&str>) -> Option<(String, i64)> {
        let find = |of: &Collection<JsonObject>, owner: &Value| {
            let key = ObjectKey::from_parts(namespace, text(owner, "/name")).ok()?;
            of.get(&key).filter(|it| text(it, "/metadata/uid") == text(owner, "/uid"))
        };
        let scale = |it: &Value| {
            let replicas = number(it, "/spec/replicas").unwrap_or(1);
            Some((text(it, "/metadata/uid").to_owned(), replicas))
        };
        match text(owner, "/kind") {
            "ReplicaSet" => {
                let set = find(&self.sets, owner)?;
                match controller(&set).filter(|it| text(it, "/kind") == "Deployment") {
                    Some(deployment) => find(&self.deployments, deployment).and_then(|it| scale(&it)),
                    None => scale(&set),
                }
            }
            "StatefulSet" => find(&self.stateful_sets, owner).and_then(|it| scale(&it)),
            "ReplicationController" => find(&self.replication_controllers, owner).and_then(|it| scale(&it)),
            _ => None,
        }
    }

    /// Returns the budgets that cover a pod.
    fn of_pod(budgets: &Collection<JsonObject>, pod: &Pod) -> Vec<ObjectKey> {
        let header = pod.header();
        let candidates = labels(&header).into_iter().flat_map(|it| budgets.found(SELECTOR, &it));
        let selects = |it: &Arc<JsonObject>| of_budget(it).is_some_and(|it| it.matches(header.labels));
        candidates.filter(selects).filter_map(|it| it.key()).collect()
    }
}

impl Component for Disruptions {
    const NAME: &'static str = "disruption-controller";

    /// Returns the controller, which processes the budgets of a pod, before and after a change, and
    /// those of the pods of a workload whose size has changed.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let budgets = self.budgets.clone();
        let covering = move |pod: &Pod| Self::of_pod(&budgets, pod);
        let resized = || {
            Predicate::new(|change: &Change<JsonObject>| match change {
                Change::Updated { old, new } => {
                    number(old, "/spec/replicas") != number(new, "/spec/replicas")
                }
                _ => false,
            })
        };
        let (budgets, pods) = (self.budgets.clone(), self.pods.clone());
        let of_resized = move |workload: &JsonObject| -> Vec<ObjectKey> {
            let namespace = workload.header().namespace.unwrap_or_default();
            let selector = match text(workload, "/kind") {
                "ReplicationController" => of_replication_controller(workload),
                _ => of_workload(workload),
            };
            let Some(selector) = selector else { return Vec::new() };
            // The pods of a workload have the same labels, so one is enough.
            let one = pods.found(LABEL, &anchor(namespace, &selector)).into_iter();
            let one = one.filter(|it| selector.matches(it.header().labels)).take(1);
            one.flat_map(|it| Self::of_pod(&budgets, &it)).collect()
        };
        Controller::of(&self.budgets.informer)
            .watches(&self.pods.informer, covering)
            .watches(Watched::new(&self.deployments.informer).when(resized()), of_resized.clone())
            .watches(Watched::new(&self.stateful_sets.informer).when(resized()), of_resized.clone())
            .watches(Watched::new(&self.replication_controllers.informer).when(resized()), of_resized.clone())
            .watches(Watched::new(&self.sets.informer).when(resized()), of_resized)
    }
}

impl Reconciler for Disruptions {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(budget) = self.budgets.get(key).filter(|it| !is_deleting(it)) else {
            return Ok(Action::Done);
        };
        let Some(selector) = of_budget(&budget) else { return Ok(Action::Done) };
        let writer = Writer { manager: "kube-controller-manager", context };
        let pods = self.pods_of(key.namespace().unwrap_or_default(), &selector);
        let expected = self.expected(&budget, &pods);
        let now = self.environment.now();
        let mut again = None;
        let report = |it: &mut Value| {
            if text(it, "/metadata/uid") != text(&budget, "/metadata/uid") {
                return false;
            }
            // An eviction may have spent from the budget since.
            let mut seen = it.clone();
            seen["metadata"]["generation"] = budget["metadata"]["generation"].clone();
            let (status, rest) = match &expected {
                Ok(expected) => status::status(&seen, *expected, &pods, now),
                Err(message) => (status::unknown(&seen, message, now), None),
            };
            again = rest;
            let changed = it["status"] != status;
            it["status"] = status;
            changed
        };
        self.budgets.change(key, "status", writer, report).await?;
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}
