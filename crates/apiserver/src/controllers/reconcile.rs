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
use super::pending::Pending;
use crate::cluster::Cluster;
use crate::refusal::Refusal;
use crate::store::{CollectionName, Encoded};

/// Brings what is in line with what should be, object by object.
pub(crate) trait Reconciler: Send {
    /// The name, for the log.
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

/// The loop. Never ends by itself; dropping the future stops it without harm.
pub(crate) async fn run<R: Reconciler>(cluster: Arc<Cluster>, mut reconciler: R) {
    let mut runner = Runner::new(&cluster, &reconciler);
    loop {
        runner.absorb(&cluster, &mut reconciler);
        if let Some(key) = runner.pending.take() {
            let outcome = reconciler.sync(&cluster, &key).await;
            runner.settle(reconciler.name(), key, outcome);
            // The verbs are often ready at once: let others run as well.
            tokio::task::yield_now().await;
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
        always.iter().for_each(|it| feed.follow(it));
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
        for key in self.waiting.get(collection).cloned().into_iter().flatten() {
            if reconciler.concerns(&key, changed) {
                self.wake(collection, &key);
            }
        }
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
