//! Events are deleted an hour after their last change. What was there at the start begins its hour then.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use tokio::time::Instant;

use super::feed::{Feed, Step};
use super::part::{builtin, writer};
use crate::cluster::{Cluster, DeleteOptions, Place};
use crate::store::Encoded;
use crate::time;

/// How long an event lives after its last change: the default of the original.
const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The events that there are, by the moment at which they expire.
///
/// Invariant: both hold the same events, each once. An event that is counted up a thousand times takes no more room than one
/// that never changes.
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

    /// Forgets an event that is gone. Returns the version that it had.
    fn remove(&mut self, key: &ObjectKey) -> Option<u64> {
        let (key, (moment, version)) = self.events.remove_entry(key)?;
        self.moments.remove(&(moment, key));
        Some(version)
    }

    fn next(&self) -> Option<Instant> {
        self.moments.first().map(|(moment, _)| *moment)
    }

    /// The next event whose time is up, at the version it has.
    fn take(&mut self, now: Instant) -> Option<(ObjectKey, u64)> {
        let (_, key) = self.moments.first().filter(|(moment, _)| *moment <= now).cloned()?;
        let version = self.remove(&key)?;
        Some((key, version))
    }
}

/// Deletes old events. Never ends by itself; dropping the future stops it without harm.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let kind = builtin(&cluster, "", "v1", "events");
    let writer = writer("event-expiry", "kube-apiserver");
    let mut feed = Feed::new(cluster.store().clone());
    feed.follow(&kind.collection);
    let mut expiring = Expiring::default();
    loop {
        for step in feed.take() {
            let now = Instant::now();
            match step {
                Step::Listed(_, events) => events.iter().for_each(|it| expiring.add(it, now)),
                Step::Changed(_, change) => match (&change.after, &change.before) {
                    (Some(after), _) => expiring.add(after, now),
                    (None, Some(before)) => drop(expiring.remove(before.key())),
                    (None, None) => {}
                },
            }
        }
        while let Some((key, version)) = expiring.take(Instant::now()) {
            let options = DeleteOptions { version: Some(version.to_string()), ..DeleteOptions::default() };
            // One that is gone, or has changed since, is none of ours; nothing else can go wrong with an event.
            let _ = cluster.delete(&Place::of(&kind, &key), &options, &writer).await;
            tokio::task::yield_now().await;
        }
        let next = expiring.next();
        tokio::select! {
            // In this order, so that the same seed gives the same course of things.
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
    async fn an_event_has_an_hour_from_its_last_change_on_and_is_kept_once() {
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
