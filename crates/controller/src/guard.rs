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
