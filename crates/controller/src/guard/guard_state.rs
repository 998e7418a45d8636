//! The state of a guard: the pending writes by scope and by key. It has no lock and no queue.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use dogwatch_core::{ObjectKey, ResourceVersion};
use dogwatch_informer::StoreProgress;
use dogwatch_workqueue::Note;
use tokio::time::Instant;

use super::cache_scope::CacheScope;
use super::key_writes::{KeyWrites, Limit, Return};
use super::pending_write::PendingWrite;
use super::returns::Returns;
use super::write_order::WriteOrder;
use crate::causes::Causes;
use crate::reconciler::Key;
use crate::source::Sources;

/// The pending writes, the keys that wait for them, and their deadlines.
#[derive(Debug)]
pub(super) struct GuardState<K> {
    /// The pending writes, one map for each source and namespace, ordered by version: the writes
    /// that a cache shows first come first. A `BTreeMap`, so that keys are put back in a
    /// deterministic order.
    pub(super) scopes: BTreeMap<CacheScope, BTreeMap<WriteOrder, PendingWrite<K>>>,
    pub(super) keys: HashMap<K, KeyWrites>,
    /// The keys that missing objects brought back, until a reconcile of the key misses none.
    pub(super) returns: HashMap<K, Returns>,
    /// The deadlines after which waiting keys are reconciled anyway.
    pub(super) limits: BTreeMap<(Instant, u64), K>,
    next: u64,
}

impl<K: Key> GuardState<K> {
    /// Creates a state without writes.
    pub(super) fn new() -> Self {
        Self {
            scopes: BTreeMap::new(),
            keys: HashMap::new(),
            returns: HashMap::new(),
            limits: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn insert(
        &mut self,
        scope: CacheScope,
        version: &ResourceVersion,
        rewinds: u64,
        awaited: PendingWrite<K>,
        limit: Duration,
    ) {
        self.next += 1;
        let (length, digits) = (version.as_str().len(), version.as_str().into());
        let order = WriteOrder { rewinds, length, digits, sequence: self.next };
        let object = awaited.object.as_ref().map(|it| it.key.clone());
        let key = awaited.key.clone();
        let waiting = self.keys.entry(key.clone()).or_default();
        let known = waiting.scopes.get(&scope).and_then(|it| it.objects.get(&object)).cloned();
        if let Some(known) = known {
            // Concurrent writes may be reported in any order. Versions from before and after a
            // rewind of the server's history cannot be compared; the later report wins then, and
            // its count of rewinds is higher.
            if known > order {
                return;
            }
            waiting.remove(&scope, &known, awaited.object.as_ref());
            remove(&mut self.scopes, &scope, &known);
        }
        waiting.insert(scope.clone(), order.clone(), object);
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

    /// Returns true if the key has a pending write of this object.
    pub(super) fn awaits(&self, key: &K, source: usize, object: &ObjectKey) -> bool {
        let scope = CacheScope::new(source, Some(object));
        let writes = self.keys.get(key).and_then(|it| it.scopes.get(&scope));
        writes.is_some_and(|it| it.objects.contains_key(&Some(object.clone())))
    }

    /// Records that the object of a write is missing. Returns the delay with which that brings the
    /// key back, if it does.
    pub(super) fn missed(&mut self, source: usize, write: &PendingWrite<K>) -> Option<Duration> {
        let object = write.object.as_ref()?;
        self.returns.entry(write.key.clone()).or_default().add(source, object)
    }

    /// Records the end of a reconcile, whose pending writes are recorded. `misses` is true if an
    /// object that it wrote is missing.
    pub(super) fn reconciled(&mut self, key: &K, misses: bool) {
        match self.keys.get_mut(key) {
            Some(waiting) => waiting.misses = misses,
            None if misses => {}
            None => drop(self.returns.remove(key)),
        }
    }

    /// Returns the indexes of the sources with pending writes.
    pub(super) fn awaited_sources(&self, count: usize) -> Vec<usize> {
        let mut awaited = vec![false; count];
        self.scopes.keys().for_each(|it| awaited[it.source] = true);
        (0..count).filter(|it| awaited[*it]).collect()
    }

    /// Returns the progress of the cache of a scope with pending writes, or `None` if it does not
    /// cover the namespace.
    pub(super) fn progress(&self, scope: &CacheScope, sources: &Sources<K>) -> Option<StoreProgress> {
        let (_, first) = self.scopes.get(scope)?.first_key_value()?;
        sources[scope.source].progress(first.object.as_ref().map(|it| &it.key))
    }

    /// Takes the first write of a scope, if a cache with this progress shows it or never will.
    pub(super) fn pop_shown(
        &mut self,
        scope: &CacheScope,
        progress: Option<&StoreProgress>,
    ) -> Option<PendingWrite<K>> {
        let (order, _) = self.scopes.get(scope)?.first_key_value()?;
        if progress.is_some_and(|it| !order.is_over(it)) {
            return None;
        }
        let order = order.clone();
        let awaited = remove(&mut self.scopes, scope, &order)?;
        if let Some(waiting) = self.keys.get_mut(&awaited.key) {
            waiting.remove(scope, &order, awaited.object.as_ref());
        }
        Some(awaited)
    }

    /// Handles that a cache has reached the version of a write of this key. `misses` is true if its
    /// object is missing, and `missing` is set if that brings the key back: the delay and the
    /// cause. Returns the key's return, if it is to be queued.
    pub(super) fn shown(
        &mut self,
        key: &K,
        misses: bool,
        missing: Option<(Duration, Causes)>,
    ) -> Option<Return> {
        let waiting = self.keys.get_mut(key)?;
        waiting.misses |= misses;
        if let Some((delay, mut causes)) = missing {
            waiting.missing = waiting.missing.into_iter().chain([delay]).min();
            waiting.causes.merge(&mut causes);
        }
        if waiting.scopes.is_empty() && !waiting.misses {
            self.returns.remove(key);
        }
        if waiting.until.is_some() && !waiting.scopes.is_empty() {
            return None;
        }
        let back = waiting.take_return();
        self.tidy(key);
        back
    }

    /// Removes the writes of a key that the caches show, and the key's return. Returns the causes
    /// of the return.
    pub(super) fn forget_shown(&mut self, key: &K, sources: &Sources<K>) -> Causes {
        let Some(waiting) = self.keys.get(key) else { return Causes::default() };
        let scopes: Vec<_> = waiting.scopes.keys().cloned().collect();
        let reached: Vec<_> = scopes.iter().map(|it| self.progress(it, sources)).collect();
        let Some(waiting) = self.keys.get_mut(key) else { return Causes::default() };
        (waiting.parked, waiting.missing) = (None, None);
        let causes = std::mem::take(&mut waiting.causes);
        for (scope, progress) in scopes.into_iter().zip(reached) {
            while let Some(order) = waiting.scopes.get(&scope).and_then(|it| it.orders.first()).cloned() {
                if progress.as_ref().is_some_and(|it| !order.is_over(it)) {
                    break;
                }
                let awaited = remove(&mut self.scopes, &scope, &order);
                waiting.remove(&scope, &order, awaited.as_ref().and_then(|it| it.object.as_ref()));
            }
        }
        self.tidy(key);
        causes
    }

    /// Removes a key without pending writes.
    fn tidy(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|it| it.scopes.is_empty())
            && let Some(KeyWrites { until: Some(Limit::At(at, number)), .. }) = self.keys.remove(key)
        {
            self.limits.remove(&(at, number));
        }
    }
}

/// Removes a write from its scope, and the scope with its last write.
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
