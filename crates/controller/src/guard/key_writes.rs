//! The pending writes under one key, and the way in which the key goes back into the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use dogwatch_workqueue::AddOptions;
use tokio::time::Instant;

use super::cache_scope::CacheScope;
use super::write_order::WriteOrder;
use crate::causes::{Cause, Causes};
use crate::reconciler::Written;

/// The pending writes under one key. There is at most one for each source and object, so they are
/// bounded by what the key writes. A key may write thousands of objects: nothing here is searched
/// for one of them.
#[derive(Debug, Default)]
pub(super) struct KeyWrites {
    /// The writes, by scope. No scope is empty.
    pub(super) scopes: BTreeMap<CacheScope, ScopeWrites>,
    /// The deadline of the key; `None` once it no longer waits. A deadline beyond the range of the
    /// clock is never reached.
    pub(super) until: Option<Limit>,
    /// Set when a worker has taken the key and returned it.
    pub(super) parked: Option<Parked>,
    /// The delay with which the key goes back because an object is missing.
    pub(super) missing: Option<Duration>,
    /// True if an object that the last reconcile wrote is missing, whether or not that brings the
    /// key back.
    pub(super) misses: bool,
    /// The causes of the reconcile that the key waits for: those with which it was parked, and
    /// missing objects. Empty unless `parked` or `missing` is set.
    pub(super) causes: Causes,
}

/// A key that a worker has taken and returned.
#[derive(Debug)]
pub(super) struct Parked {
    /// The priority with which the key goes back.
    pub(super) priority: i32,
    /// The name of the informer that was behind.
    pub(super) informer: String,
}

/// A key that goes back into the queue.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) options: AddOptions,
    pub(super) causes: Causes,
}

/// The pending writes under one key in one scope.
#[derive(Debug, Default)]
pub(super) struct ScopeWrites {
    /// Oldest first. The cache shows a write only after all earlier ones.
    pub(super) orders: BTreeSet<WriteOrder>,
    /// The write of each object; that of `None` is one of which only the version is known.
    pub(super) objects: HashMap<Option<ObjectKey>, WriteOrder>,
}

impl KeyWrites {
    pub(super) fn insert(&mut self, scope: CacheScope, order: WriteOrder, object: Option<ObjectKey>) {
        let writes = self.scopes.entry(scope).or_default();
        writes.orders.insert(order.clone());
        writes.objects.insert(object, order);
    }

    pub(super) fn remove(&mut self, scope: &CacheScope, order: &WriteOrder, object: Option<&Arc<Written>>) {
        let Some(writes) = self.scopes.get_mut(scope) else { return };
        writes.orders.remove(order);
        writes.objects.remove(&object.map(|it| it.key.clone()));
        if writes.orders.is_empty() {
            self.scopes.remove(scope);
        }
    }

    /// Takes the key's return into the queue, if it is to go back.
    pub(super) fn take_return(&mut self) -> Option<Return> {
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

/// The deadline of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    At(Instant, u64),
    Never,
}
