//! Deletes events an hour after their last change. Events that exist at the start expire an hour
//! after it.
//!
//! An event is removed as by the lease of etcd that kube-apiserver gives it (`TTLFunc` in
//! k8s.io/kubernetes v1.36.4 pkg/registry/core/event/storage/storage.go): without admission, and in
//! spite of finalizers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use tokio::time::Instant;

use super::background::builtin;
use super::feed::{Feed, FeedEvent};
use crate::cluster::Cluster;
use crate::store::{Encoded, Expect};
use crate::time;

/// The lifetime of an event after its last change: the default of `--event-ttl` in
/// k8s.io/kubernetes v1.36.4 pkg/controlplane/apiserver/options/options.go.
const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The existing events, by the moment at which they expire.
///
/// Invariant: both collections hold the same events, without duplicates. An event that is updated a
/// thousand times takes no more memory than one that never changes.
#[derive(Debug, Default)]
struct Expiring {
    moments: BTreeSet<(Instant, ObjectKey)>,
    /// The moment and the version of each.
    events: HashMap<ObjectKey, (Instant, u64)>,
}

impl Expiring {
    fn add(&mut self, event: &Encoded, now: Instant) {
        self.remove(event.key());
        let moment = time::after(now, TIME_TO_LIVE);
        self.moments.insert((moment, event.key().clone()));
        self.events.insert(event.key().clone(), (moment, event.version()));
    }

    /// Removes an event that is gone. Returns its version.
    fn remove(&mut self, key: &ObjectKey) -> Option<u64> {
        let (key, (moment, version)) = self.events.remove_entry(key)?;
        self.moments.remove(&(moment, key));
        Some(version)
    }

    fn next(&self) -> Option<Instant> {
        self.moments.first().map(|(moment, _)| *moment)
    }

    /// Takes the next expired event, with its version.
    fn take(&mut self, now: Instant) -> Option<(ObjectKey, u64)> {
        let (_, key) = self.moments.first().filter(|(moment, _)| *moment <= now).cloned()?;
        let version = self.remove(&key)?;
        Some((key, version))
    }
}

/// Deletes expired events. Never returns; dropping the future stops it safely.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let kind = builtin(&cluster, "", "v1", "events");
    let mut feed = Feed::new(cluster.store().clone());
    feed.follow(&kind.collection);
    let mut expiring = Expiring::default();
    loop {
        for step in feed.take() {
            let now = Instant::now();
            match step {
                FeedEvent::Listed(_, events) => events.iter().for_each(|it| expiring.add(it, now)),
                FeedEvent::Changed(_, change) => match (&change.after, &change.before) {
                    (Some(after), _) => expiring.add(after, now),
                    (None, Some(before)) => drop(expiring.remove(before.key())),
                    (None, None) => {}
                },
            }
        }
        while let Some((key, version)) = expiring.take(Instant::now()) {
            // An event that is gone, or has changed since, is not deleted: the feed reports the
            // change, and the event expires later.
            let expect = Expect::At(version);
            let _ = cluster.storage().commit(&kind.collection, &key, expect, None).await;
            tokio::task::yield_now().await;
        }
        let next = expiring.next();
        tokio::select! {
            // In fixed order, so that runs with the same seed are identical.
            biased;
            () = feed.wait() => {}
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Draft;

    #[tokio::test(start_paused = true)]
    async fn an_event_expires_an_hour_after_its_last_change_and_is_tracked_once() {
        let event = |name: &str, version| {
            Draft::new(&json!({ "metadata": { "name": name } }), vec![]).unwrap().at(version)
        };
        let mut expiring = Expiring::default();
        assert_eq!(expiring.next(), None);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        expiring.add(&event("a", 1), start);
        expiring.add(&event("gone", 2), start);
        expiring.add(&event("b", 3), after(3));
        for version in 4..1000 {
            expiring.add(&event("a", version), after(5));
        }
        assert_eq!(expiring.remove(&ObjectKey::cluster("gone")), Some(2));
        assert_eq!((expiring.moments.len(), expiring.events.len()), (2, 2));
        assert_eq!(expiring.next(), Some(after(3) + TIME_TO_LIVE));
        assert_eq!(expiring.take(after(2) + TIME_TO_LIVE), None);
        assert_eq!(expiring.take(after(4) + TIME_TO_LIVE), Some((ObjectKey::cluster("b"), 3)));
        assert_eq!(expiring.take(after(4) + TIME_TO_LIVE), None);
        assert_eq!(expiring.take(after(5) + TIME_TO_LIVE), Some((ObjectKey::cluster("a"), 999)));
        assert!(expiring.moments.is_empty() && expiring.events.is_empty());
    }
}
