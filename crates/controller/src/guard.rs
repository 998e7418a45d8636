//! The consistency guard: no reconcile from a cache that is older than the reconciler's own writes.
//!
//! ```text
//! a reconcile wrote ─► record ─► the cache reaches the version ─┬─► a parked key is queued again
//!                                                               └─► object missing: reconcile again
//! a worker takes the key earlier ─► park ───────────────────────► time limit: reconciled, and counted
//! ```
//!
//! A reconciler that reads a stale cache creates objects twice, or undoes what others did since.
//! The version that a write returned is the version that the cache must have reached in the
//! namespace of the object. A waiting key occupies no worker and does not count as a failure:
//! [`Guard::run`], which the caches wake, puts it back.
//!
//! A missing object brings the key back only if the object mapped to the key when it was written.
//! Otherwise a reconciler that writes objects of other keys at each call would be called for ever.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dogwatch_core::{ObjectKey, ResourceVersion};
use dogwatch_workqueue::{AddOptions, WorkQueue};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::Counter;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::reconciler::{Key, Write, Written};
use crate::source::Source;

type Sources<K> = [Box<dyn Source<K>>];

/// The writes that the caches do not show yet, by the key under which they were made.
#[derive(Debug)]
pub(crate) struct Guard<K> {
    /// The maximum time that a key waits for a cache.
    limit: Duration,
    state: Mutex<GuardState<K>>,
    /// Notified when there is another write to wait for.
    recorded: Notify,
    /// Counts the keys that were reconciled although a cache did not show their writes.
    overdue: Counter,
}

#[derive(Debug)]
struct GuardState<K> {
    /// The pending writes, one map for each source and namespace, ordered by version: the writes
    /// that a cache shows first come first. A `BTreeMap`, so that keys are put back in a
    /// deterministic order.
    scopes: BTreeMap<CacheScope, BTreeMap<WriteOrder, PendingWrite<K>>>,
    keys: HashMap<K, KeyWrites>,
    /// The deadlines after which waiting keys are reconciled anyway.
    limits: BTreeMap<(Instant, u64), K>,
    next: u64,
}

/// A source and the namespace that was written to: a source with several namespaces follows each on
/// its own. A write of which only the version is known waits for the whole source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CacheScope {
    source: usize,
    namespace: Option<String>,
    whole: bool,
}

/// The length of the version, its digits, and a sequence number: the tuples sort in version order.
type WriteOrder = (usize, String, u64);

/// A write that a cache has yet to show.
#[derive(Debug)]
struct PendingWrite<K> {
    key: K,
    object: Option<Arc<Written>>,
    /// True if the object must then be in the cache, unless it was deleted.
    is_expected: bool,
    /// True if the object mapped to the key when it was written, and so must still do so.
    concerned: bool,
    /// The number of times the server's history had been rewound when the object was written. A
    /// write from before another rewind may never be shown.
    rewinds: u64,
}

impl<K: Key> PendingWrite<K> {
    /// Returns true if the key must be reconciled again, given that the cache has reached the
    /// version.
    fn is_missing(&self, source: &dyn Source<K>) -> bool {
        let object = self.object.as_ref().filter(|_| self.is_expected);
        object.is_some_and(|it| !source.holds(it, self.concerned.then_some(&self.key)))
    }
}

/// The pending writes under one key. There is at most one for each source and object, so they are
/// bounded by what the key writes.
#[derive(Debug, Default)]
struct KeyWrites {
    writes: Vec<(CacheScope, WriteOrder, Option<ObjectKey>)>,
    /// The deadline of the key; `None` once it no longer waits. A deadline beyond the range of the
    /// clock is never reached.
    until: Option<Limit>,
    /// The priority with which the key goes back, set when a worker has taken the key and returned
    /// it.
    parked: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    At(Instant, u64),
    Never,
}

impl<K: Key> Guard<K> {
    pub(crate) fn new(limit: Duration, overdue: Counter) -> Self {
        let state =
            GuardState { scopes: BTreeMap::new(), keys: HashMap::new(), limits: BTreeMap::new(), next: 0 };
        Self { limit, state: Mutex::new(state), recorded: Notify::new(), overdue }
    }

    fn state(&self) -> MutexGuard<'_, GuardState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the writes made under the key, which the caller holds.
    pub(crate) fn record(&self, key: &K, writes: Vec<Write>, sources: &Sources<K>, queue: &WorkQueue<K>) {
        let mut is_missing = false;
        for write in writes {
            let source = &sources[write.source];
            let admits = write.object.as_ref().map_or(Some(true), |it| source.admits(it));
            if admits == Some(false) {
                continue;
            }
            let object_key = write.object.as_ref().map(|it| &it.key);
            let is_expected = admits == Some(true) && write.concerns != Some(false);
            let reached = source.version(object_key).map(|it| has_reached(&it, &write.version));
            let awaited = PendingWrite {
                key: key.clone(),
                object: write.object,
                is_expected,
                concerned: write.concerns == Some(true),
                rewinds: source.cache().health().rewinds,
            };
            match reached {
                // If versions cannot be compared, waiting would never end.
                None | Some(None) => {}
                Some(Some(true)) => is_missing |= awaited.is_missing(&**source),
                Some(Some(false)) => {
                    let object = awaited.object.as_ref();
                    let scope = CacheScope {
                        source: write.source,
                        namespace: object.and_then(|it| it.key.namespace()).map(str::to_owned),
                        whole: object.is_none(),
                    };
                    self.state().insert(scope, &write.version, awaited, self.limit);
                    self.recorded.notify_one();
                }
            }
        }
        if is_missing {
            queue.add(key.clone());
        }
    }

    /// Returns `None` if a worker that has taken the key may reconcile it now. Otherwise returns
    /// the name of the informer that is behind; the key goes back into the queue when the cache has
    /// caught up.
    pub(crate) fn park<'s>(&self, key: &K, priority: i32, sources: &'s Sources<K>) -> Option<&'s str> {
        let mut state = self.state();
        let waiting = state.keys.get(key)?;
        let behind = waiting.until.and_then(|_| {
            let mut writes = waiting.writes.iter();
            let (scope, ..) = writes
                .find(|(scope, order, object)| !state.is_over(scope, order, object.as_ref(), sources))?;
            Some(scope.source)
        });
        match behind {
            Some(source) => {
                let waiting = state.keys.get_mut(key)?;
                waiting.parked = Some(waiting.parked.map_or(priority, |it| it.max(priority)));
                Some(sources[source].cache().name())
            }
            None => {
                // The key is reconciled now, so writes that the caches show by now need not bring
                // it back.
                state.forget_shown(key, sources);
                None
            }
        }
    }

    /// Puts keys back as the caches advance. Never returns; one task runs it while the workers
    /// work.
    pub(crate) async fn run(&self, sources: &Sources<K>, queue: &WorkQueue<K>) {
        loop {
            // Subscribe before the caches are read, so that no change in between is missed.
            let awaited = self.state().awaited_sources(sources.len());
            let published = awaited.into_iter().map(|it| sources[it].published());
            let mut published: FuturesUnordered<_> = published.collect();
            let next = self.settle(sources, queue);
            tokio::select! {
                biased;
                Some(()) = published.next() => {}
                () = self.recorded.notified() => {}
                () = at(next) => {}
            }
        }
    }

    /// Puts back the keys that need not wait any more. Returns the next deadline.
    fn settle(&self, sources: &Sources<K>, queue: &WorkQueue<K>) -> Option<Instant> {
        let mut state = self.state();
        let mut back = Vec::new();
        let scopes: Vec<_> = state.scopes.keys().cloned().collect();
        for scope in scopes {
            while let Some(awaited) = state.pop_shown(&scope, sources) {
                let is_missing = awaited.is_missing(&*sources[scope.source]);
                back.extend(state.shown(&awaited.key, is_missing).map(|priority| (awaited.key, priority)));
            }
        }
        let now = Instant::now();
        while let Some(entry) = state.limits.first_entry().filter(|it| it.key().0 <= now) {
            let key = entry.remove();
            if let Some(waiting) = state.keys.get_mut(&key) {
                waiting.until = None;
                self.overdue.increment(1);
                tracing::warn!(?key, limit = ?self.limit, "the cache does not show the key's own writes in time; reconciling it anyway");
                back.extend(waiting.parked.take().map(|priority| (key, priority)));
            }
        }
        let next = state.limits.first_key_value().map(|((at, _), _)| *at);
        drop(state);
        for (key, priority) in back {
            queue.add_with(key, AddOptions { priority, ..AddOptions::default() });
        }
        next
    }
}

impl<K: Key> GuardState<K> {
    fn insert(
        &mut self,
        scope: CacheScope,
        version: &ResourceVersion,
        awaited: PendingWrite<K>,
        limit: Duration,
    ) {
        self.next += 1;
        let order = (version.as_str().len(), version.as_str().to_owned(), self.next);
        let object = awaited.object.as_ref().map(|it| it.key.clone());
        let key = awaited.key.clone();
        let waiting = self.keys.entry(key.clone()).or_default();
        let known = waiting.writes.iter().position(|(of, _, it)| *of == scope && *it == object);
        if let Some(known) = known {
            let (of, at, _) = &waiting.writes[known];
            let before = self.scopes.get(of).and_then(|it| it.get(at));
            // Concurrent writes may be reported in any order. Versions from before and after a
            // rewind of the server's history cannot be compared; the later report wins then.
            if before.is_some_and(|it| it.rewinds == awaited.rewinds) && *at > order {
                return;
            }
            let (scope, order, _) = waiting.writes.swap_remove(known);
            remove(&mut self.scopes, &scope, &order);
        }
        waiting.writes.push((scope.clone(), order.clone(), object));
        if let Some(Limit::At(at, number)) = waiting.until.take() {
            self.limits.remove(&(at, number));
        }
        waiting.until = Some(match Instant::now().checked_add(limit) {
            Some(at) => {
                self.limits.insert((at, self.next), key);
                Limit::At(at, self.next)
            }
            None => Limit::Never,
        });
        self.scopes.entry(scope).or_default().insert(order, awaited);
    }

    /// Returns the indexes of the sources with pending writes.
    fn awaited_sources(&self, count: usize) -> Vec<usize> {
        let mut awaited = vec![false; count];
        self.scopes.keys().for_each(|it| awaited[it.source] = true);
        (0..count).filter(|it| awaited[*it]).collect()
    }

    /// Returns true if a cache shows a write, or never will.
    fn is_over(
        &self,
        scope: &CacheScope,
        order: &WriteOrder,
        object: Option<&ObjectKey>,
        sources: &Sources<K>,
    ) -> bool {
        let source = &sources[scope.source];
        let version = ResourceVersion::new(&order.1);
        let is_shown = match source.version(object) {
            Some(reached) => has_reached(&reached, &version).unwrap_or(true),
            None => true,
        };
        is_shown || {
            let awaited = self.scopes.get(scope).and_then(|it| it.get(order));
            awaited.is_none_or(|it| source.cache().health().rewinds != it.rewinds)
        }
    }

    /// Takes the first write of a scope, if its cache shows it or never will.
    fn pop_shown(&mut self, scope: &CacheScope, sources: &Sources<K>) -> Option<PendingWrite<K>> {
        let (order, awaited) = self.scopes.get(scope)?.first_key_value()?;
        let (order, object) = (order.clone(), awaited.object.as_ref().map(|it| it.key.clone()));
        if !self.is_over(scope, &order, object.as_ref(), sources) {
            return None;
        }
        let awaited = remove(&mut self.scopes, scope, &order)?;
        if let Some(waiting) = self.keys.get_mut(&awaited.key) {
            waiting.writes.retain(|(of, at, _)| of != scope || *at != order);
        }
        Some(awaited)
    }

    /// Handles that a cache shows a write of this key. Returns the priority with which to queue the
    /// key, if it is to be queued.
    fn shown(&mut self, key: &K, is_missing: bool) -> Option<i32> {
        let waiting = self.keys.get_mut(key)?;
        if is_missing {
            waiting.parked = Some(waiting.parked.map_or(0, |it| it.max(0)));
        }
        if waiting.until.is_some() && !waiting.writes.is_empty() {
            return None;
        }
        let parked = waiting.parked.take();
        self.tidy(key);
        parked
    }

    /// Removes the writes of a key that the caches show.
    fn forget_shown(&mut self, key: &K, sources: &Sources<K>) {
        let Some(waiting) = self.keys.get(key) else { return };
        let (over, left): (Vec<_>, Vec<_>) = waiting
            .writes
            .iter()
            .cloned()
            .partition(|(scope, order, object)| self.is_over(scope, order, object.as_ref(), sources));
        over.iter().for_each(|(scope, order, _)| drop(remove(&mut self.scopes, scope, order)));
        if let Some(waiting) = self.keys.get_mut(key) {
            waiting.writes = left;
            waiting.parked = None;
        }
        self.tidy(key);
    }

    /// Removes a key without pending writes.
    fn tidy(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|it| it.writes.is_empty())
            && let Some(KeyWrites { until: Some(Limit::At(at, number)), .. }) = self.keys.remove(key)
        {
            self.limits.remove(&(at, number));
        }
    }
}

fn remove<K>(
    scopes: &mut BTreeMap<CacheScope, BTreeMap<WriteOrder, PendingWrite<K>>>,
    scope: &CacheScope,
    order: &WriteOrder,
) -> Option<PendingWrite<K>> {
    let writes = scopes.get_mut(scope)?;
    let removed = writes.remove(order);
    if writes.is_empty() {
        scopes.remove(scope);
    }
    removed
}

/// Returns true if a cache at version `reached` shows the write, or `None` if the versions cannot
/// be compared.
fn has_reached(reached: &ResourceVersion, written: &ResourceVersion) -> Option<bool> {
    if reached.is_unset() {
        return Some(false);
    }
    Some(written == reached || written.compare(reached)?.is_le())
}

/// Sleeps until the time, or for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
