//! The keys of a controller that this replica owns, when several replicas share them.

use parking_lot::Mutex;
use std::collections::HashMap;

use dogwatch_workqueue::Note;
use tokio::sync::watch;

use super::recent_keys::RecentKeys;
use crate::causes::Causes;
use crate::reconciler::Key;
use crate::sharding::{KeyOwner, ShardMember};

/// The number of distinct keys of streams that are remembered at least. Some 10 MB of object keys;
/// without a limit, a stream whose keys never repeat would fill the memory.
const STREAMED_KEYS: usize = 100_000;

/// A shard member, and the keys that it may still have to reconcile.
pub(super) struct Shards<K> {
    member: ShardMember,
    /// Returns the name of a key that is hashed to find its owner.
    name: fn(&K) -> String,
    /// Keys that arrived while the members had not agreed on their owner, with their causes. They
    /// are queued again when ownership changes: the key of an object that was deleted meanwhile
    /// cannot be found in a cache.
    deferred: Mutex<HashMap<K, Causes>>,
    /// The keys that streams yielded, whether or not this replica owns them. They are queued again
    /// when ownership changes: a stream yields a key once, and no object of a cache may map to it.
    streamed: Mutex<RecentKeys<K>>,
}

impl<K: Key> Shards<K> {
    pub(super) fn new(member: ShardMember, name: fn(&K) -> String) -> Self {
        let streamed = Mutex::new(RecentKeys::new(STREAMED_KEYS));
        Self { member, name, deferred: Mutex::default(), streamed }
    }

    /// Returns true if this replica reconciles the key now. A key without an agreed owner is
    /// deferred until there is one.
    pub(super) fn admits(&self, key: &K, causes: &Causes) -> bool {
        let name = (self.name)(key);
        match self.member.owner(&name) {
            KeyOwner::Us => true,
            // That member reconciles it.
            KeyOwner::Another => false,
            KeyOwner::Unknown => {
                self.defer(key, causes);
                // The key may have become ours before it was deferred, and then nothing would take
                // it out again.
                self.member.owns(&name)
            }
        }
    }

    /// Runs the work on a key while this replica owns it. Returns `None` if the replica lost the
    /// key first; the key is then deferred with its causes.
    pub(super) async fn while_owning<F: Future>(
        &self,
        key: &K,
        causes: &Causes,
        work: F,
    ) -> Option<F::Output> {
        let done = self.member.while_owning(&(self.name)(key), work).await;
        if done.is_none() {
            self.defer(key, causes);
        }
        done
    }

    /// Returns true if this replica owns the key.
    pub(super) fn owns(&self, key: &K) -> bool {
        self.member.owns(&(self.name)(key))
    }

    /// Returns a receiver that changes whenever this replica gains or loses keys.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.member.changes()
    }

    /// Takes the deferred keys, with the causes of the reconciles that they missed.
    pub(super) fn take_deferred(&self) -> HashMap<K, Causes> {
        std::mem::take(&mut *self.deferred.lock())
    }

    /// Remembers a key that a stream yielded. Must be called before the key is queued: a worker
    /// that drops it relies on [`Self::streamed`] for a later change of ownership.
    pub(super) fn remember(&self, key: &K) {
        if self.streamed.lock().insert(key) {
            tracing::warn!(
                limit = STREAMED_KEYS,
                "streams yielded many distinct keys; the oldest are not reconciled again after ownership changes"
            );
        }
    }

    /// Returns the keys that streams yielded.
    pub(super) fn streamed(&self) -> Vec<K> {
        self.streamed.lock().all()
    }

    fn defer(&self, key: &K, causes: &Causes) {
        self.deferred.lock().entry(key.clone()).or_default().merge(&mut causes.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::leader::clock::Clock;
    use crate::sharding::manual;

    /// The lease lapses between two readings of the clock, at each place where that is possible.
    #[tokio::test(start_paused = true)]
    async fn a_key_whose_lease_lapses_while_its_owner_is_looked_up_is_reconciled_or_deferred() {
        for readings in 0..8 {
            let mut clock = Clock::new();
            clock.skew.per_reading = Duration::from_secs(1);
            let member = manual::member(clock.clone());
            let until = clock.now() + Duration::from_secs(2 + readings);
            member.renew_until(until);
            let shards = Shards::new(member, |it: &&'static str| (*it).to_owned());
            let admitted = shards.admits(&"a", &Causes::default());
            let deferred = shards.take_deferred();
            assert!(admitted || deferred.contains_key("a"), "the key is lost: {readings}");
        }
    }
}
