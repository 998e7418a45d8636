//! The loop of most controllers: changes queue keys, which are processed one after the other.
//!
//! A [`Reconciler`] defines the collections it follows, the keys that a change affects, and the
//! processing of a key. It does not know cursors, notifications, clocks or retries.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use dogwatch_workqueue::WorkQueue;
use dogwatch_workqueue::limiter::ExponentialPerItem;

use super::background::Running;
use super::feed::{Feed, FeedEvent};
use super::supervise;
use crate::ApiError;
use crate::cluster::Cluster;
use crate::panics::caught;
use crate::store::{CollectionName, Encoded};

/// The number of keys that are processed before other tasks run. Those then see all changes at
/// once, so that a set of a thousand pods is not counted a thousand times.
const KEYS_PER_TURN: usize = 64;

/// The delay of the first retry, as in `DefaultTypedControllerRateLimiter` of client-go v0.36.4
/// util/workqueue/default_rate_limiters.go, and the longest delay of any.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Brings the actual state in line with the desired state, object by object.
pub(crate) trait Reconciler: Send {
    /// The name, for logs, metrics and health checks.
    fn name(&self) -> &'static str;

    /// The collections that are always followed.
    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName>;

    /// Returns the keys that a change affects. `before` and `after` are the two sides of the
    /// change; an object of the initial list has only the second.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey>;

    /// Returns true if a change in a collection that a key waits for affects the key. Defaults to
    /// true.
    fn concerns(&self, waiting: &ObjectKey, changed: &ObjectKey) -> bool {
        let _ = (waiting, changed);
        true
    }

    /// Processes a key. May be called at any time and for any key, also for objects that are gone.
    ///
    /// # Errors
    /// After an error the key is retried, with an exponential backoff.
    fn sync(
        &mut self,
        cluster: &Cluster,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Next, ApiError>> + Send;
}

/// The time at which a key is processed next, unless a change affects it earlier.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// After this delay.
    pub(crate) after: Option<Duration>,
    /// After a change in one of these collections, which are followed only for that.
    pub(crate) waits_for: Vec<CollectionName>,
    /// The version after which such a change counts.
    pub(crate) since: u64,
}

impl Next {
    /// Processes the key again after a change that affects it.
    pub(crate) fn touch() -> Self {
        Self::default()
    }

    /// Processes the key again after a delay.
    pub(crate) fn after(delay: Duration) -> Self {
        Self { after: Some(delay), ..Self::default() }
    }
}

/// Runs the reconciler that `make` creates, supervised, under its own name.
pub(crate) fn supervised<R: Reconciler + 'static>(
    cluster: &Arc<Cluster>,
    mut make: impl FnMut() -> R + Send + 'static,
) -> Running {
    let name = make().name();
    supervise::supervised(name, cluster, move |it| Box::pin(run(it, make())))
}

/// Runs the loop. Never returns; dropping the future stops it safely.
pub(crate) async fn run<R: Reconciler>(cluster: Arc<Cluster>, mut reconciler: R) {
    let mut runner = Runner::new(&cluster, &reconciler);
    let keys = runner.keys.clone();
    let (mut turn, mut due) = (0, None);
    loop {
        runner.absorb(&cluster, &mut reconciler);
        if let Some(item) = due.take().or_else(|| keys.try_take()) {
            let key = item.key().clone();
            // A panic is a failure of that key only: otherwise the others would be blocked for as
            // long as the object exists.
            let outcome = caught(reconciler.sync(&cluster, &key)).await.unwrap_or_else(|panic| {
                let controller = reconciler.name();
                cluster.background().panicked(controller);
                tracing::error!(controller, %key, panic = panic.0, "a controller panicked; the object will be retried");
                Err(ApiError::internal(panic.0))
            });
            runner.settle(reconciler.name(), key, outcome);
            turn += 1;
            if turn % KEYS_PER_TURN == 0 {
                // The verbs often complete without waiting: let other tasks run as well.
                tokio::task::yield_now().await;
            }
            continue;
        }
        tokio::select! {
            // In fixed order, so that runs with the same seed are identical.
            biased;
            () = runner.feed.wait() => {}
            item = keys.take() => due = item,
        }
    }
}

#[derive(Debug)]
struct Runner {
    feed: Feed,
    /// The keys to process: each once, at the earliest time for which it was added.
    keys: WorkQueue<ObjectKey>,
    always: Vec<CollectionName>,
    /// The keys that wait for a change in a collection.
    waiting: BTreeMap<CollectionName, BTreeSet<ObjectKey>>,
}

impl Runner {
    fn new(cluster: &Cluster, reconciler: &impl Reconciler) -> Self {
        let mut feed = Feed::new(cluster.store().clone());
        let always = reconciler.follows(cluster);
        // A missed deletion would never be noticed: `touched` needs the former state of an object
        // that is gone.
        always.iter().for_each(|it| feed.follow_each(it));
        let retries = ExponentialPerItem::new(FIRST_RETRY, LONGEST_RETRY);
        let keys = WorkQueue::builder().limiter(retries).earliest_wins().build();
        Self { feed, keys, always, waiting: BTreeMap::new() }
    }

    fn absorb(&mut self, cluster: &Cluster, reconciler: &mut impl Reconciler) {
        for step in self.feed.take() {
            match step {
                FeedEvent::Listed(collection, objects) => {
                    for object in &objects {
                        self.touch(cluster, reconciler, &collection, None, Some(object));
                    }
                    // A list does not show deletions, so all keys that wait for the collection are
                    // processed again.
                    for key in self.waiting.get(&collection).cloned().into_iter().flatten() {
                        self.wake(&collection, &key);
                    }
                }
                FeedEvent::Changed(collection, change) => {
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
            self.keys.add_all(touched);
        }
        let Some(changed) = after.or(before).map(Encoded::key) else { return };
        let waiting = self.waiting.get(collection).into_iter().flatten();
        let concerned: Vec<_> = waiting.filter(|it| reconciler.concerns(it, changed)).cloned().collect();
        concerned.iter().for_each(|it| self.wake(collection, it));
    }

    fn wake(&mut self, collection: &CollectionName, key: &ObjectKey) {
        self.stop_waiting(collection, key);
        self.keys.add(key.clone());
    }

    /// Removes a key from those that wait for a collection, which is left if it was the last.
    fn stop_waiting(&mut self, collection: &CollectionName, key: &ObjectKey) {
        let Some(keys) = self.waiting.get_mut(collection) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.waiting.remove(collection);
            if !self.always.contains(collection) {
                self.feed.leave(collection);
            }
        }
    }

    fn settle(&mut self, name: &str, key: ObjectKey, outcome: Result<Next, ApiError>) {
        let next = match outcome {
            Ok(next) => next,
            Err(refusal) => {
                tracing::debug!(controller = name, %key, %refusal, "failed; will retry");
                return self.keys.add_rate_limited(key);
            }
        };
        self.keys.forget(&key);
        if let Some(delay) = next.after {
            self.keys.add_after(key.clone(), delay);
        }
        // A key may wait since an earlier outcome. Without this, the keys of objects that are gone
        // would wait for ever, and the collections would be followed for nothing.
        let is_former = |it: &(&CollectionName, &BTreeSet<ObjectKey>)| {
            it.1.contains(&key) && !next.waits_for.contains(it.0)
        };
        let former: Vec<_> = self.waiting.iter().filter(is_former).map(|(it, _)| Arc::clone(it)).collect();
        former.iter().for_each(|it| self.stop_waiting(it, &key));
        for collection in next.waits_for {
            if self.feed.follow_from(&collection, next.since).is_err() {
                self.keys.add(key.clone());
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

    /// A reconciler that panics for one ConfigMap and records the others.
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

        async fn sync(&mut self, _: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
            assert_ne!(key.name(), "poison", "on purpose");
            self.seen.lock().expect("no panic while it is held").push(key.name().to_owned());
            Ok(Next::touch())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_makes_a_controller_panic_does_not_block_others() {
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
        assert!((5..30).contains(&health.panics), "it is retried with a backoff: {health:?}");
        assert_eq!(health.down, None);
    }

    /// A reconciler of ConfigMaps, each of which waits for the collections that it names.
    struct Waiter;

    impl Reconciler for Waiter {
        fn name(&self) -> &'static str {
            "waiter"
        }

        fn follows(&self, _: &Cluster) -> Vec<CollectionName> {
            vec!["/configmaps".into()]
        }

        fn touched(
            &mut self,
            _: &Cluster,
            _: &CollectionName,
            before: Option<&Encoded>,
            after: Option<&Encoded>,
        ) -> Vec<ObjectKey> {
            after.or(before).map(|it| it.key().clone()).into_iter().collect()
        }

        async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
            let since = cluster.store().revision();
            let Some(map) = cluster.store().get(&"/configmaps".into(), key) else { return Ok(Next::touch()) };
            let object = map.to_value();
            let waits_for = object["data"].as_object().into_iter().flatten();
            let waits_for = waits_for.map(|(name, _)| CollectionName::from(format!("/{name}")));
            Ok(Next { waits_for: waits_for.collect(), since, ..Next::default() })
        }
    }

    /// Regression test: a key left the set of a collection only after a change in it. The keys of
    /// objects that are gone stayed there, and the collections stayed followed.
    #[tokio::test(start_paused = true)]
    async fn a_key_waits_only_for_the_collections_of_its_last_outcome() {
        let cluster = Cluster::new(Source::real());
        cluster.bootstrap().await;
        let (writer, mut reconciler) = (Writer::server("test"), Waiter);
        let mut runner = Runner::new(&cluster, &reconciler);
        let map = |name: &str, data: serde_json::Value| {
            json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": "default" }, "data": data })
        };
        let kind = cluster.catalog().kind("", "v1", "configmaps").expect("built in");
        let places = ["default/a", "default/b"].map(|it| it.parse::<ObjectKey>().expect("a key"));
        let places = places.each_ref().map(|it| crate::cluster::ObjectRef::of(&kind, it));
        let mut waiting = Vec::new();
        for step in 0..4 {
            match step {
                0 => {
                    cluster
                        .add(map("a", json!({ "pods": "", "secrets": "" })), &writer)
                        .await
                        .expect("created");
                    cluster
                        .add(map("b", json!({ "pods": "", "configmaps": "" })), &writer)
                        .await
                        .expect("created");
                }
                1 => {
                    let object = map("a", json!({ "secrets": "", "services": "" }));
                    cluster.update(&places[0], object, &writer).await.expect("updated");
                }
                at => {
                    let options = crate::cluster::DeleteOptions::default();
                    cluster.delete(&places[at - 2], &options, &writer).await.expect("deleted");
                }
            }
            // The clock is paused: all notifiers have run when this returns.
            tokio::time::sleep(Duration::from_secs(1)).await;
            runner.absorb(&cluster, &mut reconciler);
            let keys = runner.keys.clone();
            while let Some(item) = keys.try_take() {
                let outcome = reconciler.sync(&cluster, item.key()).await;
                runner.settle(reconciler.name(), item.key().clone(), outcome);
            }
            let described = runner.waiting.iter().flat_map(|(collection, keys)| {
                keys.iter()
                    .filter(|it| it.namespace() == Some("default"))
                    .map(move |it| format!("{}{collection}", it.name()))
            });
            waiting.push(described.collect::<Vec<_>>().join(" "));
        }
        let expected = [
            "b/configmaps a/pods b/pods a/secrets",
            "b/configmaps b/pods a/secrets a/services",
            "b/configmaps b/pods",
            "",
        ];
        assert_eq!(waiting, expected);
        let followed = |it: &str| runner.feed.is_followed(&it.into());
        assert!(!["/pods", "/secrets", "/services"].into_iter().any(followed));
        assert!(followed("/configmaps"), "the reconciler always follows it");
    }
}
