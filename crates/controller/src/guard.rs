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
//! [`Guard::run`], which the caches wake, puts it back. If the server's history is reset, the
//! versions of a cache show nothing until it has a list of the new history; writes from before the
//! reset are then over, as their versions may never come.
//!
//! A missing object brings the key back only if the object mapped to the key when it was written.
//! Otherwise a reconciler that writes objects of other keys at each call would be called for ever.
//! One written state brings it back at most once, and other states ever later: a cache that cannot
//! show what is written would otherwise cause calls without end.
//!
//! A key goes back with the causes of the reconcile that it waited for, so that none is lost.

mod cache_scope;
mod write_order;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{ObjectKey, ResourceVersion};
use dogwatch_informer::StoreProgress;
use dogwatch_workqueue::{AddOptions, Note};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::Counter;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::cache_scope::CacheScope;
use self::write_order::{WriteOrder, has_reached};
use crate::causes::{Cause, Causes, KeyQueue, ObjectCause, ObjectEvent};
use crate::reconciler::{Key, Write, Written};
use crate::source::Source;

type Sources<K> = [Box<dyn Source<K>>];

/// The number of times in a row that missing objects bring a key back at once.
const IMMEDIATE_RETURNS: u32 = 3;
/// The delay of the next such return, doubled each time.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The maximal delay of such a return.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The number of missing states that are remembered for a key.
const REMEMBERED: usize = 64;

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
    /// The keys that missing objects brought back, until a reconcile of the key misses none.
    returns: HashMap<K, Returns>,
    /// The deadlines after which waiting keys are reconciled anyway.
    limits: BTreeMap<(Instant, u64), K>,
    next: u64,
}

/// A write that a cache has yet to show.
#[derive(Debug)]
struct PendingWrite<K> {
    key: K,
    object: Option<Arc<Written>>,
    /// True if the object must then be in the cache, unless it was deleted.
    is_expected: bool,
    /// True if the object mapped to the key when it was written, and so must still do so.
    concerned: bool,
}

impl<K: Key> PendingWrite<K> {
    /// Returns true if the key must be reconciled again, given that the cache has reached the
    /// version.
    fn is_missing(&self, source: &dyn Source<K>) -> bool {
        let object = self.object.as_ref().filter(|_| self.is_expected);
        object.is_some_and(|it| !source.holds(it, self.concerned.then_some(&self.key)))
    }

    /// Returns the cause of a reconcile because the object is missing.
    fn missing_cause(&self, source: &dyn Source<K>) -> Causes {
        let cause = self.object.as_ref().map(|it| {
            let (kind, informer) = (source.kind().clone(), source.cache().name());
            Cause::Object(ObjectCause::new(kind, it.key.clone(), informer, ObjectEvent::Missing))
        });
        cause.map(Causes::from).unwrap_or_default()
    }
}

/// The missing objects that brought a key back, since a reconcile last missed none.
#[derive(Debug, Default)]
struct Returns {
    /// The source, object and version of each, oldest first.
    states: VecDeque<(usize, ObjectKey, ResourceVersion)>,
    count: u32,
}

impl Returns {
    /// Records a missing object. Returns the delay with which it brings the key back, or `None` if
    /// this very state already has: the reconciler has then seen the cache without it, and wrote
    /// nothing else.
    fn add(&mut self, source: usize, object: &Written) -> Option<Duration> {
        let state = (source, object.key.clone(), object.version.clone());
        if self.states.contains(&state) {
            return None;
        }
        if self.states.len() == REMEMBERED {
            self.states.pop_front();
        }
        self.states.push_back(state);
        self.count = self.count.saturating_add(1);
        let doublings = self.count.checked_sub(IMMEDIATE_RETURNS + 1);
        let delay = |it: u32| FIRST_DELAY.saturating_mul(2_u32.saturating_pow(it)).min(LONGEST_DELAY);
        Some(doublings.map_or(Duration::ZERO, delay))
    }
}

/// The pending writes under one key. There is at most one for each source and object, so they are
/// bounded by what the key writes. A key may write thousands of objects: nothing here is searched
/// for one of them.
#[derive(Debug, Default)]
struct KeyWrites {
    /// The writes, by scope. No scope is empty.
    scopes: BTreeMap<CacheScope, ScopeWrites>,
    /// The deadline of the key; `None` once it no longer waits. A deadline beyond the range of the
    /// clock is never reached.
    until: Option<Limit>,
    /// Set when a worker has taken the key and returned it.
    parked: Option<Parked>,
    /// The delay with which the key goes back because an object is missing.
    missing: Option<Duration>,
    /// True if an object that the last reconcile wrote is missing, whether or not that brings the
    /// key back.
    misses: bool,
    /// The causes of the reconcile that the key waits for: those with which it was parked, and
    /// missing objects. Empty unless `parked` or `missing` is set.
    causes: Causes,
}

/// A key that a worker has taken and returned.
#[derive(Debug)]
struct Parked {
    /// The priority with which the key goes back.
    priority: i32,
    /// The name of the informer that was behind.
    informer: String,
}

/// A key that goes back into the queue.
#[derive(Debug)]
struct Return {
    options: AddOptions,
    causes: Causes,
}

/// The pending writes under one key in one scope.
#[derive(Debug, Default)]
struct ScopeWrites {
    /// Oldest first. The cache shows a write only after all earlier ones.
    orders: BTreeSet<WriteOrder>,
    /// The write of each object; that of `None` is one of which only the version is known.
    objects: HashMap<Option<ObjectKey>, WriteOrder>,
}

impl KeyWrites {
    fn insert(&mut self, scope: CacheScope, order: WriteOrder, object: Option<ObjectKey>) {
        let writes = self.scopes.entry(scope).or_default();
        writes.orders.insert(order.clone());
        writes.objects.insert(object, order);
    }

    fn remove(&mut self, scope: &CacheScope, order: &WriteOrder, object: Option<&Arc<Written>>) {
        let Some(writes) = self.scopes.get_mut(scope) else { return };
        writes.orders.remove(order);
        writes.objects.remove(&object.map(|it| it.key.clone()));
        if writes.orders.is_empty() {
            self.scopes.remove(scope);
        }
    }

    /// Takes the key's return into the queue, if it is to go back.
    fn take_return(&mut self) -> Option<Return> {
        let (parked, missing) = (self.parked.take(), self.missing.take());
        let causes = std::mem::take(&mut self.causes);
        let after = match parked {
            // A worker has already taken the key, so something else asked for the reconcile.
            Some(_) => Duration::ZERO,
            None => missing?,
        };
        let priority = parked.as_ref().map(|it| it.priority).max(missing.map(|_| 0)).unwrap_or_default();
        let options = AddOptions { priority, after, ..AddOptions::default() };
        let causes = match parked {
            Some(parked) => causes.put_back(&Arc::new(Cause::Deferred(parked.informer))),
            None => causes,
        };
        Some(Return { options, causes })
    }
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    At(Instant, u64),
    Never,
}

impl<K: Key> Guard<K> {
    pub(crate) fn new(limit: Duration, overdue: Counter) -> Self {
        let state = GuardState {
            scopes: BTreeMap::new(),
            keys: HashMap::new(),
            returns: HashMap::new(),
            limits: BTreeMap::new(),
            next: 0,
        };
        Self { limit, state: Mutex::new(state), recorded: Notify::new(), overdue }
    }

    fn state(&self) -> MutexGuard<'_, GuardState<K>> {
        self.state.lock()
    }

    /// Records the writes made under the key, which the caller holds.
    pub(crate) fn record(&self, key: &K, writes: Vec<Write>, sources: &Sources<K>, queue: &KeyQueue<K>) {
        let (mut pending, mut missing) = (Vec::new(), Vec::new());
        // The objects of `pending`, with their sources.
        let mut awaited_objects = HashSet::new();
        for write in writes {
            let source = &*sources[write.source];
            let admits = write.object.as_ref().map_or(Some(true), |it| source.admits(it));
            // A write that takes an object out of a source's selector is shown when the object has
            // left the cache. If the cache neither has it nor will, its version may never come.
            let is_leaving = |it: &Arc<Written>| {
                source.holds(it, None)
                    || awaited_objects.contains(&(write.source, it.key.clone()))
                    || self.state().awaits(key, write.source, &it.key)
            };
            if admits == Some(false) && !write.object.as_ref().is_some_and(is_leaving) {
                continue;
            }
            let progress = source.progress(write.object.as_ref().map(|it| &it.key));
            let reached = progress.as_ref().and_then(|it| has_reached(it, &write.version));
            let awaited = PendingWrite {
                key: key.clone(),
                is_expected: admits == Some(true) && write.concerns != Some(false),
                object: write.object,
                concerned: write.concerns == Some(true),
            };
            match reached {
                // The source does not cover the object, or the versions cannot be compared, and
                // waiting would never end.
                None => {}
                Some(true) => missing.extend(awaited.is_missing(source).then_some((write.source, awaited))),
                Some(false) => {
                    let object = awaited.object.as_ref().map(|it| &it.key);
                    awaited_objects.extend(object.map(|it| (write.source, it.clone())));
                    let rewinds = progress.map_or(0, |it| it.rewinds);
                    pending.push((CacheScope::new(write.source, object), write.version, rewinds, awaited));
                }
            }
        }
        let is_pending = !pending.is_empty();
        let mut state = self.state();
        let (mut after, mut causes) = (None, Causes::default());
        for (source, write) in &missing {
            if let Some(delay) = state.missed(*source, write) {
                after = after.into_iter().chain([delay]).min();
                causes.merge(&mut write.missing_cause(&*sources[*source]));
            }
        }
        for (scope, version, rewinds, awaited) in pending {
            state.insert(scope, &version, rewinds, awaited, self.limit);
        }
        state.reconciled(key, !missing.is_empty());
        drop(state);
        if is_pending {
            self.recorded.notify_one();
        }
        if let Some(after) = after {
            queue.add_with_note(key.clone(), AddOptions { after, ..AddOptions::default() }, causes);
        }
    }

    /// Returns `None` if a worker that has taken the key may reconcile it now. Otherwise returns
    /// the name of the informer that is behind; the key goes back into the queue when the cache has
    /// caught up.
    ///
    /// `causes` are those with which the key was taken. They go back with it; if the key may be
    /// reconciled, those with which it was parked before are added in front.
    pub(crate) fn park<'s>(
        &self,
        key: &K,
        priority: i32,
        causes: &mut Causes,
        sources: &'s Sources<K>,
    ) -> Option<&'s str> {
        let mut state = self.state();
        let waiting = state.keys.get(key)?;
        let behind = waiting.until.and_then(|_| {
            let is_behind = |(scope, writes): &(&CacheScope, &ScopeWrites)| {
                let progress = state.progress(scope, sources);
                // The newest write is the last to be shown.
                writes.orders.last().zip(progress).is_some_and(|(it, progress)| !it.is_over(&progress))
            };
            waiting.scopes.iter().find(is_behind).map(|(scope, _)| scope.source)
        });
        match behind {
            Some(source) => {
                let waiting = state.keys.get_mut(key)?;
                let informer = sources[source].cache().name();
                let priority = waiting.parked.as_ref().map_or(priority, |it| it.priority.max(priority));
                waiting.parked = Some(Parked { priority, informer: informer.to_owned() });
                waiting.causes.merge(&mut causes.clone());
                Some(informer)
            }
            None => {
                // The key is reconciled now, so writes that the caches show by now need not bring
                // it back.
                let mut earlier = state.forget_shown(key, sources);
                earlier.merge(causes);
                *causes = earlier;
                None
            }
        }
    }

    /// Forgets the missing objects that brought a key back, since another replica owns it now.
    pub(crate) fn forget_returns(&self, key: &K) {
        self.state().returns.remove(key);
    }

    /// Puts keys back as the caches advance. Never returns; one task runs it while the workers
    /// work.
    pub(crate) async fn run(&self, sources: &Sources<K>, queue: &KeyQueue<K>) {
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
    fn settle(&self, sources: &Sources<K>, queue: &KeyQueue<K>) -> Option<Instant> {
        let mut state = self.state();
        let mut back = Vec::new();
        let scopes: Vec<_> = state.scopes.keys().cloned().collect();
        for scope in scopes {
            let progress = state.progress(&scope, sources);
            while let Some(awaited) = state.pop_shown(&scope, progress.as_ref()) {
                let source = &*sources[scope.source];
                let misses = awaited.is_missing(source);
                let delay = misses.then(|| state.missed(scope.source, &awaited)).flatten();
                let missing = delay.map(|it| (it, awaited.missing_cause(source)));
                back.extend(state.shown(&awaited.key, misses, missing).map(|it| (awaited.key, it)));
            }
        }
        let now = Instant::now();
        while let Some(entry) = state.limits.first_entry().filter(|it| it.key().0 <= now) {
            let key = entry.remove();
            if let Some(waiting) = state.keys.get_mut(&key) {
                waiting.until = None;
                self.overdue.increment(1);
                tracing::warn!(?key, limit = ?self.limit, "the cache does not show the key's own writes in time; reconciling it anyway");
                back.extend(waiting.take_return().map(|it| (key, it)));
            }
        }
        let next = state.limits.first_key_value().map(|((at, _), _)| *at);
        drop(state);
        for (key, Return { options, causes }) in back {
            queue.add_with_note(key, options, causes);
        }
        next
    }
}

impl<K: Key> GuardState<K> {
    fn insert(
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
    fn awaits(&self, key: &K, source: usize, object: &ObjectKey) -> bool {
        let scope = CacheScope::new(source, Some(object));
        let writes = self.keys.get(key).and_then(|it| it.scopes.get(&scope));
        writes.is_some_and(|it| it.objects.contains_key(&Some(object.clone())))
    }

    /// Records that the object of a write is missing. Returns the delay with which that brings the
    /// key back, if it does.
    fn missed(&mut self, source: usize, write: &PendingWrite<K>) -> Option<Duration> {
        let object = write.object.as_ref()?;
        self.returns.entry(write.key.clone()).or_default().add(source, object)
    }

    /// Records the end of a reconcile, whose pending writes are recorded. `misses` is true if an
    /// object that it wrote is missing.
    fn reconciled(&mut self, key: &K, misses: bool) {
        match self.keys.get_mut(key) {
            Some(waiting) => waiting.misses = misses,
            None if misses => {}
            None => drop(self.returns.remove(key)),
        }
    }

    /// Returns the indexes of the sources with pending writes.
    fn awaited_sources(&self, count: usize) -> Vec<usize> {
        let mut awaited = vec![false; count];
        self.scopes.keys().for_each(|it| awaited[it.source] = true);
        (0..count).filter(|it| awaited[*it]).collect()
    }

    /// Returns the progress of the cache of a scope with pending writes, or `None` if it does not
    /// cover the namespace.
    fn progress(&self, scope: &CacheScope, sources: &Sources<K>) -> Option<StoreProgress> {
        let (_, first) = self.scopes.get(scope)?.first_key_value()?;
        sources[scope.source].progress(first.object.as_ref().map(|it| &it.key))
    }

    /// Takes the first write of a scope, if a cache with this progress shows it or never will.
    fn pop_shown(&mut self, scope: &CacheScope, progress: Option<&StoreProgress>) -> Option<PendingWrite<K>> {
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
    /// object is missing, and `missing` is set if that brings the key back: the delay and the cause.
    /// Returns the key's return, if it is to be queued.
    fn shown(&mut self, key: &K, misses: bool, missing: Option<(Duration, Causes)>) -> Option<Return> {
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
    fn forget_shown(&mut self, key: &K, sources: &Sources<K>) -> Causes {
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

/// Sleeps until the time, or for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
