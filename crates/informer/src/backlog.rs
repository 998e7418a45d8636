//! The pending changes of one handler: batches shared with all handlers or, if the handler is
//! behind, merged changes.
//!
//! A handler that keeps up receives every change and never pays for merging: a batch is handed out
//! unchanged unless a second one arrives before the first was taken. Nothing here locks, waits or
//! calls a handler.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dogwatch_core::Object;
use tokio::time::Instant;

use crate::change::Change;
use crate::coalesce::MergedChanges;

/// The number of changes that may wait unmerged before the informer's task merges them, if the
/// reader does not do it. At most twice as many are kept in addition to the merged ones.
const UNMERGED: usize = 4096;

/// The hasher of object keys. All mailboxes of an informer use the same one, so that they can share
/// hashes.
pub(crate) type KeyHasher = hashbrown::DefaultHashBuilder;

/// Changes that were applied together, shared by the mailboxes that contain them.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    changes: Vec<Change<T>>,
    /// The time at which the store published them.
    since: Instant,
    hasher: KeyHasher,
    /// The hash of each object's key, computed by the first mailbox that merges the batch.
    hashes: OnceLock<Box<[u64]>>,
}

impl<T: Object> Batch<T> {
    pub(crate) fn new(changes: Vec<Change<T>>, since: Instant, hasher: KeyHasher) -> Self {
        Self { changes, since, hasher, hashes: OnceLock::new() }
    }

    /// Returns the number of changes.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    fn hashes(&self) -> &[u64] {
        self.hashes.get_or_init(|| {
            let hash = |change: &Change<T>| {
                let header = change.object().header();
                self.hasher.hash_one((header.namespace, header.name))
            };
            self.changes.iter().map(hash).collect()
        })
    }
}

/// The changes that a reader took, to be processed without a lock.
#[derive(Debug)]
pub(crate) struct TakenChanges<T> {
    shared: Option<(Arc<Batch<T>>, Range<usize>)>,
    own: Vec<Change<T>>,
    /// The number of changes that the reader had not processed when it took these, including these.
    pub(crate) waiting: usize,
}

impl<T> TakenChanges<T> {
    pub(crate) fn changes(&self) -> &[Change<T>] {
        match &self.shared {
            Some((batch, range)) => &batch.changes[range.clone()],
            None => &self.own,
        }
    }

    fn clear(&mut self) {
        self.shared = None;
        self.own.clear();
    }
}

impl<T> Default for TakenChanges<T> {
    fn default() -> Self {
        Self { shared: None, own: Vec::new(), waiting: 0 }
    }
}

/// The rest of a batch, starting with the first change that was not taken.
#[derive(Debug)]
struct Rest<T> {
    batch: Arc<Batch<T>>,
    from: usize,
    /// The sequence number of the first change of the batch.
    sequence: u64,
}

impl<T: Object> Rest<T> {
    fn len(&self) -> usize {
        self.batch.changes.len() - self.from
    }

    fn merge_into(self, merged: &mut MergedChanges<T>) {
        let hashes = self.batch.hashes();
        for (index, change) in self.batch.changes.iter().enumerate().skip(self.from) {
            let sequence = self.sequence + index as u64;
            merged.add(sequence, hashes[index], change, self.batch.since);
        }
    }
}

/// The pending changes, oldest first.
///
/// Everything in `merged` is older than everything in `arrived`.
#[derive(Debug)]
pub(crate) struct Backlog<T> {
    /// True if updates of one object are merged while they wait.
    coalesces: bool,
    merged: MergedChanges<T>,
    arrived: VecDeque<Rest<T>>,
    /// The number of changes in `arrived`.
    unmerged: usize,
    /// Set while a reader merges the changes without the lock: their number, and the time of the
    /// oldest.
    detached: Option<(usize, Instant)>,
    /// The sequence number of the next change.
    next_sequence: u64,
}

/// The result of asking for the next changes.
#[derive(Debug)]
pub(crate) enum Next<T> {
    Nothing,
    /// The changes were taken.
    Taken,
    /// The caller must merge this and give it back with [`Backlog::reattach`].
    Merge(DetachedChanges<T>),
}

/// Changes that were taken out to be merged without the lock.
#[derive(Debug)]
pub(crate) struct DetachedChanges<T> {
    merged: MergedChanges<T>,
    arrived: VecDeque<Rest<T>>,
}

impl<T: Object> DetachedChanges<T> {
    pub(crate) fn merge(self) -> MergedChanges<T> {
        let mut merged = self.merged;
        self.arrived.into_iter().for_each(|rest| rest.merge_into(&mut merged));
        merged
    }
}

impl<T: Object> Backlog<T> {
    /// Creates an empty backlog. `before` is the number of changes that [`Self::prepend`] will put
    /// before all others later.
    pub(crate) fn new(coalesces: bool, before: usize) -> Self {
        Self {
            coalesces,
            merged: MergedChanges::default(),
            arrived: VecDeque::new(),
            unmerged: 0,
            detached: None,
            next_sequence: before as u64,
        }
    }

    pub(crate) fn push(&mut self, batch: &Arc<Batch<T>>) {
        let rest = Rest { batch: Arc::clone(batch), from: 0, sequence: self.next_sequence };
        self.next_sequence += rest.len() as u64;
        self.unmerged += rest.len();
        self.arrived.push_back(rest);
        let first = self.arrived.front().map_or(0, Rest::len);
        let behind = self.unmerged - first > UNMERGED.max(self.merged.len()).max(first);
        if self.coalesces && behind && self.detached.is_none() {
            let detached = self.detach();
            self.reattach(detached.merge());
        }
    }

    /// Puts a batch before everything else; its sequence numbers were reserved for it.
    pub(crate) fn prepend(&mut self, batch: Batch<T>) {
        let rest = Rest { batch: Arc::new(batch), from: 0, sequence: 0 };
        if self.merged.len() > 0 {
            let later = std::mem::take(&mut self.merged);
            rest.merge_into(&mut self.merged);
            self.merged.append(later);
        } else {
            self.unmerged += rest.len();
            self.arrived.push_front(rest);
        }
    }

    /// Takes up to `limit` of the oldest changes into `current`, or returns what has to be done
    /// first.
    pub(crate) fn next(&mut self, limit: usize, current: &mut TakenChanges<T>) -> Next<T> {
        current.clear();
        if self.merged.len() > 0 && self.arrived.is_empty() {
            self.merged.take(limit, &mut current.own);
            return Next::Taken;
        }
        if self.arrived.is_empty() {
            return Next::Nothing;
        }
        if self.coalesces && (self.merged.len() > 0 || self.arrived.len() > 1) {
            return Next::Merge(self.detach());
        }
        self.share(limit, current);
        Next::Taken
    }

    fn share(&mut self, limit: usize, current: &mut TakenChanges<T>) {
        let Some(first) = self.arrived.front_mut() else { return };
        let taken = first.from..first.batch.changes.len().min(first.from + limit);
        self.unmerged -= taken.len();
        first.from = taken.end;
        current.shared = Some((Arc::clone(&first.batch), taken));
        if first.len() == 0 {
            self.arrived.pop_front();
        }
    }

    fn detach(&mut self) -> DetachedChanges<T> {
        self.detached = self.oldest().map(|since| (self.len(), since));
        self.unmerged = 0;
        DetachedChanges {
            merged: std::mem::take(&mut self.merged),
            arrived: std::mem::take(&mut self.arrived),
        }
    }

    /// Gives back the changes that were taken out, merged.
    pub(crate) fn reattach(&mut self, merged: MergedChanges<T>) {
        self.detached = None;
        self.merged = merged;
    }

    /// Returns the number of pending changes.
    pub(crate) fn len(&self) -> usize {
        self.merged.len() + self.unmerged + self.detached.map_or(0, |(count, _)| count)
    }

    /// Returns the time of the oldest pending change.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let detached = self.detached.map(|(_, since)| since);
        let merged = || self.merged.front().map(|(_, since)| since);
        detached.or_else(merged).or_else(|| self.arrived.front().map(|it| it.batch.since))
    }

    /// Returns the sequence number of the oldest pending change, or of the next one to come.
    pub(crate) fn front_sequence(&self) -> u64 {
        let merged = self.merged.front().map(|(sequence, _)| sequence);
        let arrived = || self.arrived.front().map(|it| it.sequence + it.from as u64);
        merged.or_else(arrived).unwrap_or(self.next_sequence)
    }

    /// Returns the sequence number of the next change to come.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}
