//! Events are deleted an hour after their last change.
//!
//! All have the same time to live, so they expire in the order in which they changed: a queue is all it takes. What was
//! there at the start begins its hour then.

use std::collections::VecDeque;
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

/// Events by the moment at which they expire.
#[derive(Debug, Default)]
struct Expiring {
    /// Oldest first. An event that has changed since is there again, further behind, at its new version.
    queue: VecDeque<(Instant, ObjectKey, u64)>,
}

impl Expiring {
    fn add(&mut self, event: &Encoded, now: Instant) {
        self.queue.push_back((time::after(now, TIME_TO_LIVE), event.key().clone(), event.version()));
    }

    fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(moment, ..)| *moment)
    }

    /// The next event whose time is up, at the version it had then.
    fn take(&mut self, now: Instant) -> Option<(ObjectKey, u64)> {
        let (_, key, version) = self.queue.pop_front_if(|(moment, ..)| *moment <= now)?;
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
                Step::Changed(_, change) => change.after.iter().for_each(|it| expiring.add(it, now)),
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
    async fn each_version_of_an_event_has_its_own_hour() {
        let event =
            |version| Draft::new(&json!({ "metadata": { "name": "a" } }), vec![]).unwrap().at(version);
        let mut expiring = Expiring::default();
        assert_eq!(expiring.next(), None);
        let start = Instant::now();
        expiring.add(&event(1), start);
        expiring.add(&event(2), start + Duration::from_secs(5));
        assert_eq!(expiring.next(), Some(start + TIME_TO_LIVE));
        assert_eq!(expiring.take(start + TIME_TO_LIVE - Duration::from_secs(1)), None);
        assert_eq!(expiring.take(start + TIME_TO_LIVE), Some((ObjectKey::cluster("a"), 1)));
        assert_eq!(expiring.take(start + TIME_TO_LIVE), None);
        assert_eq!(expiring.take(start + TIME_TO_LIVE * 2), Some((ObjectKey::cluster("a"), 2)));
    }
}
