//! An observer of a controller, which does not keep it alive: its counters, its queue, and the
//! causes of the reconciles that are running.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dogwatch_core::ObjectKey;
use dogwatch_informer::InformerMonitor;
use dogwatch_workqueue::{KeyStage, QueueSnapshot};
use parking_lot::Mutex;

use crate::causes::Causes;
use crate::reconciler::Key;

/// The number of bytes of the text of a key that is kept.
const KEY_LIMIT: usize = 300;

/// A controller at one moment.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Action, BoxError, Context, Controller};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let reconcile = |_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) };
/// let controller = Controller::of(&maps).workers(2).build(reconcile);
/// let monitor = controller.monitor();
/// let stats = monitor.stats(50).expect("the controller exists");
/// assert_eq!((stats.workers, stats.started, stats.reconciles), (2, false, 0));
/// assert_eq!(stats.informers, ["configmaps"]);
/// assert_eq!(stats.sources, [maps.monitor()]);
/// assert!(stats.handlers.is_empty(), "it does not watch yet");
/// drop(controller);
/// assert!(monitor.stats(50).is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerStats {
    /// The name in logs, metrics and errors.
    pub name: String,
    /// The number of workers.
    pub workers: usize,
    /// Set if its manager runs it only while it leads, should it take part in an election.
    pub needs_leader_election: bool,
    /// Set once it is synced and reconciles.
    pub started: bool,
    /// The names of the informers whose changes it reconciles.
    pub informers: Vec<String>,
    /// The informers whose changes it reconciles, in the order in which they were added. Names may
    /// be equal; observers are equal only if the informers are the same.
    pub sources: Vec<InformerMonitor>,
    /// The numbers of its handlers at these informers, in their order: see
    /// [`Registration::id`](dogwatch_informer::Registration::id). Empty until it watches, which a
    /// controller that waits to lead does not.
    pub handlers: Vec<u64>,
    /// The number of reconciles that have ended.
    pub reconciles: u64,
    /// The number of reconciles that failed, panicked or timed out.
    pub failures: u64,
    /// The total time of the reconciles that have ended.
    pub busy: Duration,
    /// The queue, with the texts of some keys and their causes. Those of a reconcile that runs are
    /// known if it began after the first call of [`ControllerMonitor::stats`].
    pub queue: QueueSnapshot<String, Causes>,
}

/// Reads the numbers of a controller without keeping it alive.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Action, BoxError, Context, Controller, ControllerMonitor};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// /// Returns the failures of those that still run.
/// fn failures(monitors: &[ControllerMonitor]) -> Vec<u64> {
///     // Without keys, whose texts a total does not need.
///     monitors.iter().filter_map(|it| it.stats(0)).map(|it| it.failures).collect()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let reconcile = |_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) };
/// let controller = Controller::of(&maps).build(reconcile);
/// let monitors = [controller.monitor()];
/// assert_eq!(failures(&monitors), [0]);
/// drop(controller);
/// assert!(failures(&monitors).is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ControllerMonitor(Arc<dyn Observed>);

/// A controller of any key type, behind a weak reference.
pub(super) trait Observed: Send + Sync {
    /// Returns the numbers, with at most `keys` keys; `None` if the controller is gone.
    fn stats(&self, keys: usize) -> Option<ControllerStats>;
}

impl ControllerMonitor {
    pub(super) fn new(observed: impl Observed + 'static) -> Self {
        Self(Arc::new(observed))
    }

    /// Returns the numbers of the controller, with at most `keys` keys that are reconciled now or
    /// wait for a delay. Returns `None` if the controller has ended or was dropped.
    pub fn stats(&self, keys: usize) -> Option<ControllerStats> {
        self.0.stats(keys)
    }
}

impl PartialEq for ControllerMonitor {
    /// True for clones of one monitor.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ControllerMonitor {}

impl fmt::Debug for ControllerMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerMonitor").finish_non_exhaustive()
    }
}

/// The reconciles of a controller: how many, and the causes of those that run.
#[derive(Debug)]
pub(super) struct Reconciles<K> {
    ended: AtomicU64,
    failed: AtomicU64,
    /// Nanoseconds.
    busy: AtomicU64,
    /// Set by the first reader. Until then no reconcile pays for `running`.
    is_observed: AtomicBool,
    /// The causes of the reconciles that run; at most one for each worker.
    running: Mutex<HashMap<K, Causes>>,
}

/// A reconcile that runs; dropping it ends the record.
pub(super) struct RunningReconcile<'a, K: Key>(&'a Reconciles<K>, &'a K);

impl<K: Key> Reconciles<K> {
    /// Records the causes of a reconcile while it runs, if there is a reader.
    pub(super) fn begin<'a>(&'a self, key: &'a K, causes: &Causes) -> Option<RunningReconcile<'a, K>> {
        if !self.is_observed.load(Ordering::Relaxed) {
            return None;
        }
        self.running.lock().insert(key.clone(), causes.clone());
        Some(RunningReconcile(self, key))
    }

    /// Counts a reconcile that took this long.
    pub(super) fn ended(&self, took: Duration) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts a reconcile that failed.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of reconciles, the number of failures, and the total time.
    pub(super) fn counts(&self) -> (u64, u64, Duration) {
        let busy = Duration::from_nanos(self.busy.load(Ordering::Relaxed));
        (self.ended.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed), busy)
    }

    /// Adds the causes of running reconciles to a snapshot of their queue, and replaces keys by
    /// their texts.
    pub(super) fn describe(&self, mut queue: QueueSnapshot<K, Causes>) -> QueueSnapshot<String, Causes> {
        self.is_observed.store(true, Ordering::Relaxed);
        let running = self.running.lock();
        for key in &mut queue.keys {
            if matches!(key.stage, KeyStage::Held { .. }) {
                key.note = running.get(&key.key).cloned();
            }
        }
        drop(running);
        queue.map_keys(|it| text_of_key(&it))
    }
}

impl<K> Default for Reconciles<K> {
    fn default() -> Self {
        Self {
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            is_observed: AtomicBool::new(false),
            running: Mutex::new(HashMap::new()),
        }
    }
}

impl<K: Key> Drop for RunningReconcile<'_, K> {
    fn drop(&mut self) {
        self.0.running.lock().remove(self.1);
    }
}

/// Returns the text of a key: as it is displayed for common types, and in the form of `Debug` for
/// others.
fn text_of_key<K: Key>(key: &K) -> String {
    let any: &dyn Any = key;
    let known = any.downcast_ref::<ObjectKey>().map(ToString::to_string);
    let known = known.or_else(|| any.downcast_ref::<String>().cloned());
    let mut text = known.unwrap_or_else(|| format!("{key:?}"));
    text.truncate(text.floor_char_boundary(KEY_LIMIT));
    text
}

#[cfg(test)]
mod tests {
    use dogwatch_workqueue::WorkQueue;

    use super::*;
    use crate::causes::Cause;

    #[test]
    fn the_causes_of_a_reconcile_are_known_while_it_runs_and_is_looked_at() {
        let queue = WorkQueue::builder().name("observed").build_with_notes::<Causes>();
        let (reconciles, key) = (Reconciles::default(), ObjectKey::namespaced("default", "web"));
        queue.add(key.clone());
        let item = queue.try_take().expect("it was added");
        let causes = |reconciles: &Reconciles<ObjectKey>| {
            let described = reconciles.describe(queue.snapshot(10));
            let key = described.keys.first().expect("the key is held");
            assert_eq!(key.key, "default/web");
            key.note.as_ref().map(ToString::to_string)
        };
        assert!(reconciles.begin(&key, &Cause::Stream.into()).is_none(), "there is no reader yet");
        assert_eq!(causes(&reconciles), None);
        let running = reconciles.begin(item.key(), &Cause::Stream.into());
        assert_eq!(causes(&reconciles).as_deref(), Some("yielded by a stream"));
        drop(running);
        assert_eq!(causes(&reconciles), None);
        assert!(reconciles.running.lock().is_empty());
    }

    #[test]
    fn keys_are_shown_as_their_owners_write_them() {
        assert_eq!(text_of_key(&ObjectKey::cluster("node-1")), "node-1");
        assert_eq!(text_of_key(&"plain".to_owned()), "plain");
        assert_eq!(text_of_key(&("shard", 7)), "(\"shard\", 7)");
        assert_eq!(text_of_key(&"\u{e9}".repeat(1000)).len(), KEY_LIMIT);
    }
}
