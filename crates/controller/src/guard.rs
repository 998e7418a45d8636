//! The consistency guard: no reconcile from a cache that is older than what the reconciler itself wrote before.
//!
//! A reconciler that reads a stale cache creates what it has created already, or undoes what somebody did since. The version that a
//! write returned says how far the cache must have come.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dogwatch_core::ResourceVersion;

use crate::reconciler::{Key, Write};
use crate::source::Source;

/// What was written under each key and may not be in the caches yet. There is at most one entry for a key and a source.
#[derive(Debug)]
pub(crate) struct Guard<K> {
    patience: Duration,
    written: Mutex<HashMap<K, Vec<Awaited>>>,
}

/// A write that a cache is to show.
#[derive(Clone, Debug)]
struct Awaited {
    source: usize,
    version: ResourceVersion,
    /// How often the server's history had been taken back when it was written. What was written before it happens again may never
    /// be shown.
    rewinds: u64,
}

impl<K: Key> Guard<K> {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, written: Mutex::default() }
    }

    fn written(&self) -> MutexGuard<'_, HashMap<K, Vec<Awaited>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These were written under the key.
    pub(crate) fn record(&self, key: &K, writes: Vec<Write>, sources: &[Box<dyn Source<K>>]) {
        if writes.is_empty() {
            return;
        }
        let mut written = self.written();
        let awaited = written.entry(key.clone()).or_default();
        for Write { source, version } in writes {
            let rewinds = sources[source].health().rewinds;
            let write = Awaited { source, version, rewinds };
            match awaited.iter_mut().find(|it| it.source == source) {
                // Writes come in the order in which they were made, but of two objects the later need not be the newer.
                Some(known) if known.rewinds == rewinds && write.version.is_older_than(&known.version) => {}
                Some(known) => *known = write,
                None => awaited.push(write),
            }
        }
    }

    /// Waits until the caches show what was written under the key, but not for longer than the patience. The informer that is behind,
    /// if one still is then.
    pub(crate) async fn behind<'s>(&self, key: &K, sources: &'s [Box<dyn Source<K>>]) -> Option<&'s str> {
        let awaited = self.written().get(key).cloned()?;
        for write in &awaited {
            let source = &sources[write.source];
            let reached = tokio::time::timeout(self.patience, source.reached(&write.version)).await;
            // Versions that cannot be compared and stores that are closed give no answer by waiting.
            if reached.is_err() && source.health().rewinds == write.rewinds {
                return Some(source.informer());
            }
        }
        // The key is held by who asks, so nothing was recorded meanwhile.
        self.written().remove(key);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use dogwatch_core::Gvk;
    use dogwatch_informer::{Health, InformerStopped, Registration, WaitError};
    use dogwatch_workqueue::WorkQueue;
    use futures_core::future::BoxFuture;
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// A source whose store is at a version, and whose history was taken back so often.
    #[derive(Clone, Default)]
    struct At {
        version: Arc<AtomicU64>,
        rewinds: Arc<AtomicU64>,
    }

    impl Source<&'static str> for At {
        fn informer(&self) -> &str {
            "things"
        }

        fn kind(&self) -> &Gvk {
            unreachable!("nobody asks")
        }

        fn health(&self) -> Health {
            let mut health = Health::default();
            health.rewinds = self.rewinds.load(Ordering::Relaxed);
            health
        }

        fn start(&self, _: &str, _: &WorkQueue<&'static str>) -> Result<Registration, InformerStopped> {
            unreachable!("nobody starts it")
        }

        fn reached<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), WaitError>> {
            let now = ResourceVersion::from(self.version.load(Ordering::Relaxed).to_string());
            Box::pin(async move {
                match version.compare(&now) {
                    None => Err(WaitError::Incomparable),
                    Some(order) if order.is_le() => Ok(()),
                    Some(_) => std::future::pending().await,
                }
            })
        }
    }

    fn sources(all: &[&At]) -> Vec<Box<dyn Source<&'static str>>> {
        all.iter().map(|it| Box::new((*it).clone()) as Box<dyn Source<&'static str>>).collect()
    }

    fn write(source: usize, version: &str) -> Write {
        Write { source, version: version.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_for_what_was_written_under_it_and_no_other_does() {
        let (guard, at) = (Guard::new(PATIENCE), At::default());
        at.version.store(5, Ordering::Relaxed);
        let sources = sources(&[&at]);
        guard.record(&"a", vec![write(0, "7")], &sources);
        let begun = Instant::now();
        assert_eq!(guard.behind(&"b", &sources).await, None);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(guard.behind(&"a", &sources).await, Some("things"));
        assert_eq!(begun.elapsed(), PATIENCE);
        at.version.store(7, Ordering::Relaxed);
        assert_eq!(guard.behind(&"a", &sources).await, None);
        assert!(guard.written().is_empty(), "what was shown is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_writes_the_newest_of_each_source_counts() {
        let (guard, one, other) = (Guard::new(PATIENCE), At::default(), At::default());
        let sources = sources(&[&one, &other]);
        guard.record(&"a", vec![write(0, "10"), write(0, "9"), write(1, "8")], &sources);
        guard.record(&"a", vec![], &sources);
        one.version.store(9, Ordering::Relaxed);
        other.version.store(8, Ordering::Relaxed);
        assert_eq!(guard.behind(&"a", &sources).await, Some("things"));
        one.version.store(10, Ordering::Relaxed);
        assert_eq!(guard.behind(&"a", &sources).await, None);
    }

    /// A server that was restored from a backup gives versions anew; nobody may wait for those it took back.
    #[tokio::test(start_paused = true)]
    async fn what_was_written_before_the_history_was_taken_back_is_not_waited_for() {
        let (guard, at) = (Guard::new(PATIENCE), At::default());
        at.version.store(1, Ordering::Relaxed);
        let sources = sources(&[&at]);
        guard.record(&"a", vec![write(0, "1000")], &sources);
        assert_eq!(guard.behind(&"a", &sources).await, Some("things"));
        at.rewinds.store(1, Ordering::Relaxed);
        assert_eq!(guard.behind(&"a", &sources).await, None);
        guard.record(&"a", vec![write(0, "1000")], &sources);
        at.rewinds.store(2, Ordering::Relaxed);
        guard.record(&"a", vec![write(0, "3")], &sources);
        assert_eq!(guard.behind(&"a", &sources).await, Some("things"), "the newer history counts");
        at.version.store(3, Ordering::Relaxed);
        assert_eq!(guard.behind(&"a", &sources).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn versions_that_cannot_be_compared_are_not_waited_for() {
        let (guard, at) = (Guard::new(PATIENCE), At::default());
        at.version.store(1, Ordering::Relaxed);
        let sources = sources(&[&at]);
        guard.record(&"a", vec![write(0, "x7")], &sources);
        let begun = Instant::now();
        assert_eq!(guard.behind(&"a", &sources).await, None);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
