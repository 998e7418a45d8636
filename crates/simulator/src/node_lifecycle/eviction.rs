//! Eviction by taints: pods are deleted that do not tolerate a `NoExecute` taint of their node, or
//! when the time is over for which they do, as k8s.io/kubernetes v1.36.4
//! pkg/controller/tainteviction/taint_eviction.go does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{Object, ObjectKey};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::MANAGER;
use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::index::NODE;
use crate::json_access::{items, number, text};
use crate::node_fit::tolerates;
use crate::object::{JsonObject, Pod};
use crate::pod_disruption::{Cause, disrupt};
use crate::recorder::{Event, Recorder};

const NAME: &str = "taint-eviction-controller";
const CAUSE: Cause = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");

/// Deletes pods that do not tolerate the taints of their node.
#[derive(Debug)]
pub(crate) struct TaintEviction {
    pods: Collection<Pod>,
    nodes: Collection<JsonObject>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The pods that tolerate the taints of their node for some time, with their uids, and the
    /// begin of that time.
    waiting: Mutex<HashMap<ObjectKey, (String, Instant)>>,
}

/// The time for which a pod tolerates the taints of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerated {
    Forever,
    For(Duration),
}

impl TaintEviction {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            waiting: Mutex::default(),
        }
    }

    /// Returns the time that is left for a pod.
    fn left(&self, key: &ObjectKey, pod: &Pod, tolerated: Duration) -> Duration {
        let (mut waiting, uid) = (self.waiting.lock(), text(pod, "/metadata/uid"));
        let known = waiting.get(key).filter(|it| it.0 == uid).map(|it| it.1);
        let since = known.unwrap_or_else(|| {
            let now = Instant::now();
            waiting.insert(key.clone(), (uid.to_owned(), now));
            now
        });
        tolerated.saturating_sub(since.elapsed())
    }

    async fn evict(&self, key: &ObjectKey, pod: &Pod, writer: Writer<'_>) -> Result<(), Error> {
        let event = Event::normal("TaintManagerEviction", format!("Marking for deletion Pod {key}"));
        self.recorder.record(NAME, pod, event).await;
        disrupt(&self.pods, key, pod, CAUSE, &self.environment.stamp(), writer).await
    }
}

impl Component for TaintEviction {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes pods: one that gets a node or other tolerations, and
    /// those of a node that gets other taints.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let moved = Predicate::updated(|old: &Pod, new: &Pod| {
            old.node() != new.node() || old["spec"]["tolerations"] != new["spec"]["tolerations"]
        });
        let tainted =
            Predicate::updated(|old: &JsonObject, new: &JsonObject| !evicting(old).eq(evicting(new)));
        let pods = self.pods.clone();
        let of_node = move |node: &JsonObject| {
            pods.store.index_keys(NODE, node.header().name).expect("indexes are added with the informer")
        };
        Controller::of(Watched::new(&self.pods.informer).when(moved))
            .watches(Watched::new(&self.nodes.informer).when(tainted), of_node)
    }
}

impl Reconciler for TaintEviction {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let pod = self.pods.get(key).filter(|it| !it.node().is_empty() && !it.is_deleting);
        let Some(pod) = pod else {
            self.waiting.lock().remove(key);
            return Ok(Action::Done);
        };
        let node = self.nodes.store.get_named(None, pod.node());
        let taints: Vec<&Value> = node.iter().flat_map(|it| evicting(it)).collect();
        match tolerated(&pod, &taints) {
            Tolerated::Forever => {
                let cancelled = self.waiting.lock().remove(key);
                if cancelled.is_some_and(|it| it.0 == text(&pod, "/metadata/uid")) {
                    let message = format!("Cancelling deletion of Pod {key}");
                    let event = Event::normal("TaintManagerEviction", message);
                    self.recorder.record(NAME, &pod, event).await;
                }
                Ok(Action::Done)
            }
            Tolerated::For(time) => {
                let left = self.left(key, &pod, time);
                if !left.is_zero() {
                    return Ok(Action::RequeueAfter(left));
                }
                self.evict(key, &pod, Writer { manager: MANAGER, context }).await?;
                self.waiting.lock().remove(key);
                Ok(Action::Done)
            }
        }
    }
}

/// Returns the taints of a node that evict pods.
fn evicting(node: &Value) -> impl Iterator<Item = &Value> {
    items(node, "/spec/taints").iter().filter(|it| text(it, "/effect") == "NoExecute")
}

/// Returns the time for which a pod tolerates all of these taints: the shortest of the tolerations
/// that are used, which is the first for each taint.
fn tolerated(pod: &Value, taints: &[&Value]) -> Tolerated {
    let mut shortest = Tolerated::Forever;
    for taint in taints {
        let used = items(pod, "/spec/tolerations").iter().find(|it| tolerates(it, taint));
        let Some(used) = used else { return Tolerated::For(Duration::ZERO) };
        let Some(seconds) = number(used, "/tolerationSeconds") else { continue };
        let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        shortest = match shortest {
            Tolerated::Forever => Tolerated::For(time),
            Tolerated::For(other) => Tolerated::For(other.min(time)),
        };
    }
    shortest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_tolerates_its_taints_for_the_shortest_time() {
        let taint = |key: &str| json!({ "key": key, "effect": "NoExecute" });
        let toleration = |key: &str, seconds: Option<i64>| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
        let seconds = |it: u64| Tolerated::For(Duration::from_secs(it));
        let pod = json!({ "spec": { "tolerations":
            [toleration("a", Some(300)), toleration("b", None), toleration("c", Some(20)), toleration("a", Some(1)),
                toleration("d", Some(-5))] } });
        for (taints, expected) in [
            (&[][..], Tolerated::Forever),
            (&["b"], Tolerated::Forever),
            (&["a"], seconds(300)),
            (&["a", "b", "c"], seconds(20)),
            (&["a", "x"], seconds(0)),
            (&["d"], seconds(0)),
        ] {
            let all: Vec<Value> = taints.iter().map(|it| taint(it)).collect();
            let all: Vec<&Value> = all.iter().collect();
            assert_eq!(tolerated(&pod, &all), expected, "{taints:?}");
        }
    }
}
