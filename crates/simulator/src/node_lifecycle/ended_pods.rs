//! Pods that have ended: the oldest are deleted when there are very many, as k8s.io/kubernetes
//! v1.36.4 pkg/controller/podgc/gc_controller.go does. Pods of nodes that do not exist are deleted
//! by the simulated kubelet.

use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{DeleteParams, Object, ObjectKey, Preconditions};
use dogwatch_informer::Change;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::MANAGER;
use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer, code};
use crate::component::Component;
use crate::index::ENDED;
use crate::json_access::text;
use crate::object::Pod;

/// The shortest time between two counts: `gcCheckPeriod` in that file.
const INTERVAL: Duration = Duration::from_secs(20);

/// Deletes the oldest pods that have ended.
#[derive(Debug)]
pub(crate) struct EndedPods {
    pods: Collection<Pod>,
    /// The number of pods that are kept.
    kept: usize,
    /// The time of the last count.
    counted: Mutex<Option<Instant>>,
}

impl EndedPods {
    pub(crate) fn new(caches: &Caches, kept: usize) -> Self {
        Self { pods: caches.pods.get(), kept, counted: Mutex::default() }
    }
}

impl Component for EndedPods {
    const NAME: &'static str = "pod-garbage-collector-controller";

    /// Returns the controller, which has one key for all pods.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let ended = Predicate::new(|change: &Change<Pod>| match change {
            Change::Added { object, .. } => object.has_ended,
            Change::Updated { old, new } => new.has_ended && !old.has_ended,
            _ => false,
        });
        Controller::with_keys(Self::NAME)
            .watches(Watched::new(&self.pods.informer).when(ended), |_: &Pod| [ObjectKey::cluster("ended")])
    }
}

impl Reconciler for EndedPods {
    type Error = Error;

    async fn reconcile(&self, _: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let last = self.counted.lock().map(|it| it.elapsed());
        if let Some(elapsed) = last.filter(|it| *it < INTERVAL) {
            return Ok(Action::RequeueAfter(INTERVAL.saturating_sub(elapsed)));
        }
        *self.counted.lock() = Some(Instant::now());
        let mut ended = self.pods.found(ENDED, "");
        ended.retain(|it| !it.is_deleting);
        let surplus = ended.len().saturating_sub(self.kept);
        if surplus == 0 {
            return Ok(Action::Done);
        }
        // Evicted pods are deleted before all others.
        ended.sort_by_cached_key(|it| {
            let is_evicted = text(it, "/status/reason") == "Evicted";
            let created = text(it, "/metadata/creationTimestamp").to_owned();
            (!is_evicted, created, text(it, "/metadata/name").to_owned())
        });
        let (writer, mut failed) = (Writer { manager: MANAGER, context }, FirstError::default());
        for pod in ended.iter().take(surplus) {
            let Some(key) = pod.key() else { continue };
            let uid = Some(text(pod, "/metadata/uid").to_owned());
            let this_pod = Preconditions { uid, ..Preconditions::default() };
            let params = DeleteParams::default().grace_period(Duration::ZERO).preconditions(this_pod);
            match self.pods.delete(&key, &params, writer).await {
                // Another pod has its name now.
                Err(error) if code(&error) == 409 => {}
                deleted => drop(failed.keep(deleted)),
            }
        }
        failed.into_result()?;
        Ok(Action::Done)
    }
}
