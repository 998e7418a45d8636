//! The life of nodes: the taints that follow from their conditions, the eviction of pods by taints,
//! and the deletion of pods that have ended.
//!
//! ```text
//! Lease ─► conditions of the node ─► taints ─► (time that pods tolerate them) ─► deletion of pods
//! ```
//!
//! kube-controller-manager limits the rate at which lost nodes are tainted, and taints none if all
//! of them are lost. Here each node is tainted at once.
//!
//! The `mod` lines below are in layer order.

mod taints;
mod health;
mod eviction;
mod ended_pods;

use std::collections::HashMap;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{Object, ObjectKey};
use dogwatch_informer::Change;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::index::NODE;
use crate::json_access::{items, text};
use crate::object::{JsonObject, Pod};
use crate::recorder::{Event, Recorder};
use health::{Health, health, lose};

pub(crate) use ended_pods::EndedPods;
pub(crate) use eviction::TaintEviction;

const MANAGER: &str = "kube-controller-manager";
/// The source of events about nodes.
const EVENT_SOURCE: &str = "node-controller";
/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// Reports nodes as lost whose lease is not renewed, and taints nodes by their conditions.
#[derive(Debug)]
pub(crate) struct NodeLifecycle {
    nodes: Collection<JsonObject>,
    leases: Collection<JsonObject>,
    pods: Collection<Pod>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The nodes by name, until they are deleted.
    known: Mutex<HashMap<String, Known>>,
}

/// The past of a node.
#[derive(Debug)]
struct Known {
    since: Instant,
    /// True if it was ready when it was processed last.
    was_ready: bool,
}

impl NodeLifecycle {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            nodes: caches.nodes.get(),
            leases: caches.leases.get(),
            pods: caches.pods.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            known: Mutex::default(),
        }
    }

    /// Returns the time for which a node has been known.
    fn known_for(&self, node: &str) -> Duration {
        let new = || Known { since: Instant::now(), was_ready: false };
        self.known.lock().entry(node.to_owned()).or_insert_with(new).since.elapsed()
    }

    /// Records that a node is not ready any more, once.
    async fn record(&self, node: &Value) {
        let (name, is_ready) = (text(node, "/metadata/name"), condition::is_true(node, "Ready"));
        let known = self.known.lock().get_mut(name).map(|it| replace(&mut it.was_ready, is_ready));
        if known == Some(true) && !is_ready {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.recorder.record(EVENT_SOURCE, node, Event::normal("NodeNotReady", message)).await;
        }
    }

    /// Reports the pods of a node that is not ready as not ready, so that services send them no
    /// requests: `MarkPodsNotReady` in k8s.io/kubernetes v1.36.4
    /// pkg/controller/util/node/controller_utils.go.
    async fn mark_pods(&self, node: &str, writer: Writer<'_>) -> Result<(), Error> {
        let (now, mut failed) = (self.environment.stamp(), FirstError::default());
        for pod in self.pods.found(NODE, node) {
            let Some(key) = pod.key().filter(|_| pod.ready.is_some()) else { continue };
            let mut marked = false;
            let mark = |it: &mut Value| {
                marked = condition::is_true(it, "Ready") && text(it, "/spec/nodeName") == node;
                let mut conditions = items(it, "/status/conditions").to_vec();
                if let Some(ready) = conditions.iter_mut().find(|it| text(it, "/type") == "Ready") {
                    ready["status"] = "False".into();
                    ready["lastTransitionTime"] = now.as_str().into();
                }
                it["status"]["conditions"] = conditions.into();
                marked
            };
            let changed = self.pods.change(&key, "status", writer, mark).await;
            if failed.keep(changed).is_some() && marked {
                let event = Event::warning("NodeNotReady", "Node is not ready".to_owned());
                self.recorder.record(EVENT_SOURCE, &pod, event).await;
            }
        }
        failed.into_result()
    }
}

impl Component for NodeLifecycle {
    const NAME: &'static str = "node-lifecycle-controller";

    /// Returns the controller, which processes nodes: one that has changed, one that has got a
    /// lease or lost it, and that of a pod that is assigned to it or becomes ready.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let came_or_went = Predicate::updated(|_: &JsonObject, _: &JsonObject| false);
        let of_lease = |lease: &JsonObject| {
            let header = lease.header();
            (header.namespace == Some(LEASES)).then(|| ObjectKey::cluster(header.name))
        };
        let came = Predicate::new(|change: &Change<Pod>| match change {
            Change::Updated { old, new } => {
                new.node() != old.node() || (new.ready.is_some() && old.ready.is_none())
            }
            Change::Added { object, .. } => !object.node().is_empty(),
            _ => false,
        });
        let of_pod = |pod: &Pod| Some(pod.node()).filter(|it| !it.is_empty()).map(ObjectKey::cluster);
        Controller::of(&self.nodes.informer)
            .watches(Watched::new(&self.leases.informer).when(came_or_went), of_lease)
            .watches(Watched::new(&self.pods.informer).when(came), of_pod)
    }
}

impl Reconciler for NodeLifecycle {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(node) = self.nodes.get(key) else {
            self.known.lock().remove(key.name());
            return Ok(Action::Done);
        };
        let writer = Writer { manager: MANAGER, context };
        let lease = self.leases.store.get_named(Some(LEASES), key.name());
        let health =
            health(lease.as_deref().map(|it| &**it), self.known_for(key.name()), self.environment.now());
        let (now, uid) = (self.environment.stamp(), text(&node, "/metadata/uid"));
        let same = |it: &Value| text(it, "/metadata/uid") == uid;
        if health == Health::Lost && lose(&mut Value::clone(&node), &now) {
            // The node comes back when the cache shows its new conditions.
            self.nodes.change(key, "status", writer, |it| same(it) && lose(it, &now)).await?;
            return Ok(Action::Done);
        }
        self.record(&node).await;
        self.nodes.change(key, "", writer, |it| same(it) && taints::update(it, &now)).await?;
        if condition::find(&node, "Ready").is_some_and(|it| text(it, "/status") != "True") {
            self.mark_pods(key.name(), writer).await?;
        }
        Ok(match health {
            Health::Renewed(rest) => Action::RequeueAfter(rest),
            Health::Lost | Health::NotKnown => Action::Done,
        })
    }
}
