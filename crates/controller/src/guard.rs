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
mod pending_write;
mod returns;
mod key_writes;
mod guard_state;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_workqueue::{AddOptions, Note};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::Counter;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::cache_scope::CacheScope;
use self::guard_state::GuardState;
use self::key_writes::{Parked, Return, ScopeWrites};
use self::pending_write::PendingWrite;
use self::write_order::has_reached;
use crate::causes::{Causes, KeyQueue};
use crate::reconciler::{Key, Write, Written};
use crate::source::Sources;

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

impl<K: Key> Guard<K> {
    pub(crate) fn new(limit: Duration, overdue: Counter) -> Self {
        Self { limit, state: Mutex::new(GuardState::new()), recorded: Notify::new(), overdue }
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

/// Sleeps until the time, or for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
