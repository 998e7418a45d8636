//! The keys of a controller that are this replica's, where several replicas divide them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::reconciler::Key;
use crate::sharding::ShardMember;

/// A member, and the keys that it may yet have to work on.
pub(super) struct Shards<K> {
    member: ShardMember,
    /// The name of a key among the members.
    name: fn(&K) -> String,
    /// Keys that came while the members had not agreed on their owner. They are queued again when ownership changes: an object that was
    /// deleted meanwhile is in no cache, from which its key could be found.
    deferred: Mutex<HashSet<K>>,
}

impl<K: Key> Shards<K> {
    pub(super) fn new(member: ShardMember, name: fn(&K) -> String) -> Self {
        Self { member, name, deferred: Mutex::default() }
    }

    /// Whether this replica works on a key now. A key whose owner is not agreed on is kept until it is.
    pub(super) fn admits(&self, key: &K) -> bool {
        // Read first: if it is settled, and the key was another's after that, then the key is another's to work on.
        let settled = self.member.is_settled();
        let name = (self.name)(key);
        if self.member.owns(&name) {
            return true;
        }
        if settled {
            return false;
        }
        self.defer(key);
        // It may have become ours before it was kept, and nothing would take it out again.
        self.member.owns(&name)
    }

    /// Does the work on a key for as long as it is this replica's; `None` when that ended before the work did.
    pub(super) async fn while_owning<F: Future>(&self, key: &K, work: F) -> Option<F::Output> {
        let done = self.member.while_owning(&(self.name)(key), work).await;
        if done.is_none() {
            self.defer(key);
        }
        done
    }

    /// Changes when keys became this replica's or ceased to be.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.member.changes()
    }

    /// Takes the keys that were kept.
    pub(super) fn take_deferred(&self) -> HashSet<K> {
        std::mem::take(&mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn defer(&self, key: &K) {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
    }
}
