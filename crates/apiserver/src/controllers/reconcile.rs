//! The loop most controllers have: something changes, keys are looked at, one after the other.
//!
//! A [`Reconciler`] says what it follows, which keys a change is about, and what to do about a key. It does not know
//! cursors, bells, clocks or retries.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;

use super::feed::{Feed, Step};
use super::part::Running;
use super::pending::Pending;
use super::supervise;
use crate::cluster::Cluster;
use crate::panics::caught;
use crate::refusal::Refusal;
use crate::store::{CollectionName, Encoded};

/// How many keys are looked at before others get their turn. They find all that was done at once, so that a set of a
/// thousand pods is not counted a thousand times.
const TURN: usize = 64;

/// Brings what is in line with what should be, object by object.
pub(crate) trait Reconciler: Send {
    /// The name, for logs, metrics and health checks.
    fn name(&self) -> &'static str;

    /// The collections that are followed all the time.
    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName>;

    /// The keys that a change is about. `before` and `after` are the two sides of it; an object that was there from the
    /// beginning has only the second.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey>;

    /// Whether a change in a collection that a key waits for is about it.
    fn concerns(&self, waiting: &ObjectKey, changed: &ObjectKey) -> bool {
        let _ = (waiting, changed);
        true
    }

    /// Does what is to be done about a key. May be called at any time and for any key, also of objects that are gone.
    ///
    /// A refusal means that it is tried again, later each time.
    fn sync(
        &mut self,
        cluster: &Cluster,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Next, Refusal>> + Send;
}

/// When a key has to be looked at next, unless something touches it before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// After a while.
    pub(crate) after: Option<Duration>,
    /// When something changes in one of these collections that are not followed otherwise.
    pub(crate) waits_for: Vec<CollectionName>,
    /// The version from which on such a change counts.
    pub(crate) since: u64,
}

impl Next {
    /// When it is touched.
    pub(crate) fn touch() -> Self {
        Self::default()
    }

    /// After a while.
    pub(crate) fn after(delay: Duration) -> Self {
        Self { after: Some(delay), ..Self::default() }
    }
}

/// Runs what `make` makes, under supervision and under its own name.
pub(crate) fn supervised<R: Reconciler + 'static>(
    cluster: &Arc<Cluster>,
    mut make: impl FnMut() -> R + Send + 'static,
) -> Running {
    let name = make().name();
    supervise::supervised(name, cluster, move |it| Box::pin(run(it, make())))
}

/// The loop. Never ends by itself; dropping the future stops it without harm.
pub(crate) async fn run<R: Reconciler>(cluster: Arc<Cluster>, mut reconciler: R) {
    let mut runner = Runner::new(&cluster, &reconciler);
    let mut turn = 0;
    loop {
        runner.absorb(&cluster, &mut reconciler);
        if let Some(key) = runner.pending.take() {
            // A panic over one key is a failure of that key: the others would wait for as long as it is there.
            let outcome = caught(reconciler.sync(&cluster, &key)).await.unwrap_or_else(|panic| {
                let controller = reconciler.name();
                cluster.background().panicked(controller);
                tracing::error!(controller, %key, panic = panic.0, "a controller panicked over an object");
                Err(Refusal::internal(panic.0))
            });
            runner.settle(reconciler.name(), key, outcome);
            turn += 1;
            if turn % TURN == 0 {
                // The verbs are often ready at once: let others run as well.
                tokio::task::yield_now().await;
            }
            continue;
        }
        tokio::select! {
            // In this order, so that the same seed gives the same course of things.
            biased;
            () = runner.feed.wait() => {}
            () = runner.pending.due() => {}
        }
    }
}

#[derive(Debug)]
struct Runner {
    feed: Feed,
    pending: Pending<ObjectKey>,
    always: Vec<CollectionName>,
    /// The keys that wait for a change in a collection.
    waiting: BTreeMap<CollectionName, BTreeSet<ObjectKey>>,
}

impl Runner {
    fn new(cluster: &Cluster, reconciler: &impl Reconciler) -> Self {
        let mut feed = Feed::new(cluster.store().clone());
        let always = reconciler.follows(cluster);
        // A deletion that is missed would be missed for ever: `touched` says what an object that is gone was about.
        always.iter().for_each(|it| feed.follow_each(it));
        Self { feed, pending: Pending::default(), always, waiting: BTreeMap::new() }
    }

    fn absorb(&mut self, cluster: &Cluster, reconciler: &mut impl Reconciler) {
        for step in self.feed.take() {
            match step {
                Step::Listed(collection, objects) => {
                    for object in &objects {
                        self.touch(cluster, reconciler, &collection, None, Some(object));
                    }
                    // What has gone meanwhile is in no list, so whoever waits for it looks again.
                    for key in self.waiting.get(&collection).cloned().into_iter().flatten() {
                        self.wake(&collection, &key);
                    }
                }
                Step::Changed(collection, change) => {
                    let (before, after) = (change.before.as_deref(), change.after.as_deref());
                    self.touch(cluster, reconciler, &collection, before, after);
                }
            }
        }
    }

    fn touch(
        &mut self,
        cluster: &Cluster,
        reconciler: &mut impl Reconciler,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) {
        if self.always.contains(collection) {
            let touched = reconciler.touched(cluster, collection, before, after);
            touched.into_iter().for_each(|it| self.pending.add(it));
        }
        let Some(changed) = after.or(before).map(Encoded::key) else { return };
        let waiting = self.waiting.get(collection).into_iter().flatten();
        let concerned: Vec<_> = waiting.filter(|it| reconciler.concerns(it, changed)).cloned().collect();
        concerned.iter().for_each(|it| self.wake(collection, it));
    }

    fn wake(&mut self, collection: &CollectionName, key: &ObjectKey) {
        if let Some(keys) = self.waiting.get_mut(collection) {
            keys.remove(key);
            if keys.is_empty() {
                self.waiting.remove(collection);
                if !self.always.contains(collection) {
                    self.feed.leave(collection);
                }
            }
        }
        self.pending.add(key.clone());
    }

    fn settle(&mut self, name: &str, key: ObjectKey, outcome: Result<Next, Refusal>) {
        let next = match outcome {
            Ok(next) => next,
            Err(refusal) => {
                tracing::debug!(controller = name, %key, %refusal, "will try again");
                return self.pending.retry(key);
            }
        };
        self.pending.forget(&key);
        if let Some(delay) = next.after {
            self.pending.add_after(key.clone(), delay);
        }
        for collection in next.waits_for {
            if self.feed.follow_from(&collection, next.since).is_err() {
                self.pending.add(key.clone());
            } else {
                self.waiting.entry(collection).or_default().insert(key.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{Source, Writer};
    use crate::controllers::together;

    /// Panics over one ConfigMap and notes the others.
    #[derive(Default)]
    struct Fussy {
        seen: Arc<std::sync::Mutex<Vec<String>>>,
    }

    impl Reconciler for Fussy {
        fn name(&self) -> &'static str {
            "fussy"
        }

        fn follows(&self, _: &Cluster) -> Vec<CollectionName> {
            vec!["/configmaps".into()]
        }

        fn touched(
            &mut self,
            _: &Cluster,
            _: &CollectionName,
            _: Option<&Encoded>,
            after: Option<&Encoded>,
        ) -> Vec<ObjectKey> {
            after.map(|it| it.key().clone()).into_iter().collect()
        }

        async fn sync(&mut self, _: &Cluster, key: &ObjectKey) -> Result<Next, Refusal> {
            assert_ne!(key.name(), "poison", "on purpose");
            self.seen.lock().expect("no panic while it is held").push(key.name().to_owned());
            Ok(Next::touch())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_makes_a_controller_panic_keeps_no_other_waiting() {
        let cluster = Arc::new(Cluster::new(Source::real()));
        cluster.bootstrap().await;
        for name in ["a", "poison", "z"] {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
            cluster.add(map, &Writer::server("test")).await.expect("created");
        }
        let seen: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let shared = Arc::clone(&seen);
        let fussy = supervised(&cluster, move || Fussy { seen: Arc::clone(&shared) });
        together(vec![fussy], tokio::time::sleep(Duration::from_secs(60))).await;
        let seen = seen.lock().expect("no panic while it is held");
        assert_eq!(seen.iter().filter(|it| ["a", "z"].contains(&it.as_str())).count(), 2, "{seen:?}");
        let health = cluster.background().loops()["fussy"].clone();
        assert!((5..30).contains(&health.panics), "it is tried again, later each time: {health:?}");
        assert_eq!(health.down, None);
    }
}
