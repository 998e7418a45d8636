//! Watching the health of a reflector, or of all reflectors of an informer as one, across restarts
//! of reflectors.
//!
//! A reflector publishes; readers poll or wait. The health of several reflectors is combined by the
//! reader, so that publishing costs nothing extra if no one reads.

use parking_lot::{Mutex, MutexGuard};
use std::future::pending;
use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use crate::health::{Health, HealthState};

/// Reads the [`Health`] of a reflector or an informer, and waits for it to change.
///
/// Clones watch independently. A watch does not keep the informer running, and stays readable after
/// the end. It is not a tokio receiver because it combines the reflectors of several namespaces,
/// which are replaced when they end; and it is not a stream because only the newest health matters.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HealthState, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let mut health = maps.health_watch();
/// maps.start();
/// let synced = health.wait_for(|it| it.synced).await;
/// assert!(synced.is_some(), "the informer did not end before");
///
/// maps.stop().await;
/// while health.changed().await {}
/// assert_eq!(health.get().state, HealthState::Stopped);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HealthWatch(Source);

#[derive(Clone, Debug)]
enum Source {
    Reflector(ReflectorHealth),
    Informer(CombinedWatch),
}

/// The health that one reflector publishes.
pub(crate) type ReflectorHealth = watch::Receiver<Health>;

/// Publishes the health of one reflector.
#[derive(Debug)]
pub(crate) struct HealthSender(watch::Sender<Health>);

/// The reflectors whose health is reported as one.
#[derive(Debug)]
pub(crate) struct CombinedHealth {
    /// One for each feed; it is replaced when a reflector has ended and another one starts. Never
    /// empty.
    each: Mutex<Vec<ReflectorHealth>>,
    /// True when all have ended for good. Also notified when one is replaced.
    ended: watch::Sender<bool>,
}

/// A watcher of the combined health.
#[derive(Clone, Debug)]
struct CombinedWatch {
    all: Arc<CombinedHealth>,
    /// The reflectors at the last look, each with the part that was seen.
    each: Vec<ReflectorHealth>,
    ended: watch::Receiver<bool>,
}

impl HealthWatch {
    /// Returns the current health.
    pub fn get(&self) -> Health {
        match &self.0 {
            Source::Reflector(health) => health.borrow().clone(),
            Source::Informer(combined) => combined.all.get(),
        }
    }

    /// Waits for the next significant change: of the state, the problem or the number of
    /// undecodable objects, and of the progress every few hundred objects.
    ///
    /// Versions and times of events do not wake the caller. Changes before the call count as one.
    /// Returns false when the reflector or informer has ended and there will be no more changes.
    /// The health itself is read with [`Self::get`], since it is assembled from all namespaces and
    /// a reader that only counts changes does not pay for it. Each change of the *objects* matters,
    /// so those are a stream: [`Changes`](crate::Changes).
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: the next call reports a change that it did not
    /// return.
    pub async fn changed(&mut self) -> bool {
        match &mut self.0 {
            Source::Reflector(health) => health.changed().await.is_ok(),
            Source::Informer(combined) => combined.changed().await,
        }
    }

    /// Waits until the health meets the condition, and returns it. Returns `None` if the reflector
    /// or informer ends before.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&Health) -> bool) -> Option<Health> {
        loop {
            let health = self.mark_seen();
            if condition(&health) {
                return Some(health);
            }
            if !self.changed().await {
                return None;
            }
        }
    }

    /// Returns the current health, and marks it as seen.
    fn mark_seen(&mut self) -> Health {
        match &mut self.0 {
            Source::Reflector(health) => health.borrow_and_update().clone(),
            Source::Informer(combined) => {
                combined.mark_seen();
                combined.all.get()
            }
        }
    }
}

impl HealthSender {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Health::default()))
    }

    pub(crate) fn watch(&self) -> HealthWatch {
        HealthWatch(Source::Reflector(self.subscribe()))
    }

    pub(crate) fn subscribe(&self) -> ReflectorHealth {
        self.0.subscribe()
    }

    /// Publishes everything, and wakes watchers.
    pub(crate) fn publish(&self, health: &Health) {
        self.0.send_replace(health.clone());
    }

    /// Publishes the fields that change with every event, without waking watchers.
    pub(crate) fn publish_progress(&self, health: &Health) {
        self.0.send_if_modified(|shown| {
            shown.state = health.state;
            shown.last_version.clone_from(&health.last_version);
            shown.last_event_at = health.last_event_at;
            false
        });
    }
}

/// Returns the health of a reflector that has ended, which does not change any more.
pub(crate) fn final_health(health: Health) -> ReflectorHealth {
    watch::channel(health).1
}

impl CombinedHealth {
    pub(crate) fn new(each: Vec<ReflectorHealth>) -> Self {
        Self { each: Mutex::new(each), ended: watch::Sender::new(false) }
    }

    fn each(&self) -> MutexGuard<'_, Vec<ReflectorHealth>> {
        self.each.lock()
    }

    /// Returns the combined health of all; when they have ended for good, their last health.
    pub(crate) fn get(&self) -> Health {
        let all: Vec<Health> = self.each().iter().map(|it| it.borrow().clone()).collect();
        let mut health = all.into_iter().reduce(combine).unwrap_or_default();
        if *self.ended.borrow() && health.state != HealthState::NotServed {
            health.state = HealthState::Stopped;
        }
        health
    }

    /// Replaces the reflector at this index.
    pub(crate) fn replace(&self, index: usize, health: ReflectorHealth) {
        if let Some(slot) = self.each().get_mut(index) {
            *slot = health;
        }
        self.ended.send_modify(|_| ());
    }

    /// Records that all have ended for good.
    pub(crate) fn end(&self) {
        self.ended.send_if_modified(|it| !std::mem::replace(it, true));
    }

    pub(crate) fn watch(self: &Arc<Self>) -> HealthWatch {
        let ended = self.ended.subscribe();
        let mut combined = CombinedWatch { all: Arc::clone(self), each: Vec::new(), ended };
        combined.mark_seen();
        HealthWatch(Source::Informer(combined))
    }
}

impl CombinedWatch {
    /// Marks everything as seen.
    fn mark_seen(&mut self) {
        // Marked before they are read: an update in between counts as a change, even if it was
        // already read.
        drop(self.ended.borrow_and_update());
        self.each.clone_from(&self.all.each());
        self.each.iter_mut().for_each(|it| drop(it.borrow_and_update()));
    }

    async fn changed(&mut self) -> bool {
        if *self.ended.borrow() && !self.ended.has_changed().unwrap_or(false) {
            return false;
        }
        let spoken = self.each.iter_mut().map(|it| {
            Box::pin(async move {
                // A reflector that has ended does not change: another one replaces it, or all have
                // ended.
                if it.changed().await.is_err() {
                    pending().await
                }
            })
        });
        let others = tokio::select! {
            biased;
            _ = self.ended.changed() => true,
            () = async { drop(select_all(spoken).await) } => false,
        };
        if others {
            self.mark_seen();
        }
        true
    }
}

/// Combines the health of two reflectors: a problem of either is a problem of both, and the older
/// version counts.
fn combine(one: Health, other: Health) -> Health {
    let state = if urgency(&one.state) >= urgency(&other.state) { one.state } else { other.state };
    let older = one.last_version.is_older_than(&other.last_version) || one.last_version.is_unset();
    Health {
        state,
        problem: one.problem.or(other.problem),
        synced: one.synced && other.synced,
        last_version: if older { one.last_version } else { other.last_version },
        last_event_at: one.last_event_at.max(other.last_event_at),
        relists: one.relists + other.relists,
        rewinds: one.rewinds + other.rewinds,
        decode_failures: one.decode_failures + other.decode_failures,
        last_decode_failure: one.last_decode_failure.or(other.last_decode_failure),
        undecodable: one.undecodable.saturating_add(other.undecodable),
    }
}

/// Returns the rank of a state: the higher one represents both.
fn urgency(state: &HealthState) -> u8 {
    match state {
        HealthState::Synced => 0,
        HealthState::Starting => 1,
        HealthState::Listing { .. } => 2,
        HealthState::Retrying { .. } => 3,
        HealthState::NotServed => 4,
        HealthState::Stopped => 5,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    fn at(state: HealthState) -> Health {
        Health { state, ..Health::default() }
    }

    #[tokio::test]
    async fn progress_is_readable_and_wakes_no_watcher() {
        let sender = HealthSender::new();
        let mut watch = sender.watch();
        let mut health = at(HealthState::Synced);
        sender.publish(&health);
        assert!(watch.changed().await);
        health.last_version = "7".into();
        sender.publish_progress(&health);
        assert_eq!(watch.get().last_version.as_str(), "7");
        let mut waiting = std::pin::pin!(watch.changed());
        assert!(poll!(waiting.as_mut()).is_pending());
        drop(sender);
        assert!(!waiting.await, "the end of the reflector wakes the watcher");
    }

    #[tokio::test]
    async fn a_watcher_of_several_is_woken_by_each_of_them_and_by_a_replacement() {
        let (one, two) = (HealthSender::new(), HealthSender::new());
        let all = Arc::new(CombinedHealth::new(vec![one.subscribe(), two.subscribe()]));
        one.publish(&at(HealthState::Synced));
        let mut watch = all.watch();
        assert!(poll!(std::pin::pin!(watch.changed())).is_pending(), "the existing health is not a change");
        two.publish(&at(HealthState::Synced));
        assert!(watch.changed().await);
        assert_eq!(watch.get().state, HealthState::Synced);

        let three = HealthSender::new();
        drop(one);
        assert!(
            poll!(std::pin::pin!(watch.changed())).is_pending(),
            "the end of one reflector is not the end of the informer"
        );
        all.replace(0, three.subscribe());
        assert!(watch.changed().await);
        assert_eq!(watch.get().state, HealthState::Starting);
        three.publish(&at(HealthState::NotServed));
        assert!(watch.changed().await);
        assert_eq!(watch.get().state, HealthState::NotServed);

        three.publish(&at(HealthState::Synced));
        all.end();
        assert!(watch.changed().await);
        assert_eq!(watch.get().state, HealthState::Stopped);
        assert!(!watch.changed().await);
        assert!(!all.watch().changed().await, "a later watcher learns of the end too");
    }
}
