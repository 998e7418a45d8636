//! The changes that wait for one handler: batches that all handlers share or, where the handler is behind, merged changes.
//!
//! A handler that keeps up never pays for merging, and receives every change: a batch is handed out as it is unless a second one
//! comes before the first was taken. Nothing here locks, waits or calls a handler.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dogwatch_core::Object;
use tokio::time::Instant;

use crate::change::Change;
use crate::coalesce::Folded;

/// How many changes may wait unmerged before the informer's task merges them, when the reader does not come to do it. Twice that
/// is the most that is kept beyond what merging leaves.
const UNMERGED: usize = 4096;

/// How objects are told apart; one for all mailboxes of an informer, so that what it computes can be shared.
pub(crate) type KeyHasher = hashbrown::DefaultHashBuilder;

/// Changes that were made at once, shared by the mailboxes they were put into.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    changes: Vec<Change<T>>,
    /// When the store showed them.
    since: Instant,
    hasher: KeyHasher,
    /// The hash of each object's key, computed by the first mailbox that merges the batch.
    hashes: OnceLock<Box<[u64]>>,
}

impl<T: Object> Batch<T> {
    pub(crate) fn new(changes: Vec<Change<T>>, since: Instant, hasher: KeyHasher) -> Self {
        Self { changes, since, hasher, hashes: OnceLock::new() }
    }

    /// How many changes there are.
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

/// What a reader took, to be worked on without a lock.
#[derive(Debug)]
pub(crate) struct Hand<T> {
    shared: Option<(Arc<Batch<T>>, Range<usize>)>,
    own: Vec<Change<T>>,
    /// How many changes the reader had not been told of when it took these, including them.
    pub(crate) waiting: usize,
}

impl<T> Hand<T> {
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

impl<T> Default for Hand<T> {
    fn default() -> Self {
        Self { shared: None, own: Vec::new(), waiting: 0 }
    }
}

/// The rest of a batch, from the first change that was not taken.
#[derive(Debug)]
struct Rest<T> {
    batch: Arc<Batch<T>>,
    from: usize,
    /// The place of the first change of the batch in the line.
    place: u64,
}

impl<T: Object> Rest<T> {
    fn len(&self) -> usize {
        self.batch.changes.len() - self.from
    }

    fn fold_into(self, folded: &mut Folded<T>) {
        let hashes = self.batch.hashes();
        for (index, change) in self.batch.changes.iter().enumerate().skip(self.from) {
            let place = self.place + index as u64;
            folded.add(place, hashes[index], change, self.batch.since);
        }
    }
}

/// The changes that wait, oldest first.
///
/// Everything in `folded` is older than everything in `arrived`.
#[derive(Debug)]
pub(crate) struct Backlog<T> {
    /// Whether changes of one object are merged while they wait.
    merges: bool,
    folded: Folded<T>,
    arrived: VecDeque<Rest<T>>,
    /// How many changes are in `arrived`.
    unmerged: usize,
    /// What a reader carries away to merge it: how much, and since when the oldest waits.
    lifted: Option<(usize, Instant)>,
    /// The place in the line of the next change that comes.
    next_place: u64,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Next<T> {
    Nothing,
    /// The hand was filled.
    Taken,
    /// Merge this, and give it back.
    Fold(Lifted<T>),
}

/// What was lifted out to be merged without a lock.
#[derive(Debug)]
pub(crate) struct Lifted<T> {
    folded: Folded<T>,
    arrived: VecDeque<Rest<T>>,
}

impl<T: Object> Lifted<T> {
    pub(crate) fn fold(self) -> Folded<T> {
        let mut folded = self.folded;
        self.arrived.into_iter().for_each(|rest| rest.fold_into(&mut folded));
        folded
    }
}

impl<T: Object> Backlog<T> {
    /// An empty one. `before` is how many changes will be put before all others later.
    pub(crate) fn new(merges: bool, before: usize) -> Self {
        Self {
            merges,
            folded: Folded::default(),
            arrived: VecDeque::new(),
            unmerged: 0,
            lifted: None,
            next_place: before as u64,
        }
    }

    pub(crate) fn push(&mut self, batch: &Arc<Batch<T>>) {
        let rest = Rest { batch: Arc::clone(batch), from: 0, place: self.next_place };
        self.next_place += rest.len() as u64;
        self.unmerged += rest.len();
        self.arrived.push_back(rest);
        let first = self.arrived.front().map_or(0, Rest::len);
        let behind = self.unmerged - first > UNMERGED.max(self.folded.len()).max(first);
        if self.merges && behind && self.lifted.is_none() {
            let lifted = self.lift();
            self.lower(lifted.fold());
        }
    }

    /// Puts a batch before everything else; its places are those that were left free for it.
    pub(crate) fn prepend(&mut self, batch: Batch<T>) {
        let rest = Rest { batch: Arc::new(batch), from: 0, place: 0 };
        if self.folded.len() > 0 {
            let later = std::mem::take(&mut self.folded);
            rest.fold_into(&mut self.folded);
            self.folded.append(later);
        } else {
            self.unmerged += rest.len();
            self.arrived.push_front(rest);
        }
    }

    /// Fills an empty hand with up to `limit` of the oldest changes, or says what has to be done first.
    pub(crate) fn next(&mut self, limit: usize, hand: &mut Hand<T>) -> Next<T> {
        hand.clear();
        if self.folded.len() > 0 && self.arrived.is_empty() {
            self.folded.take(limit, &mut hand.own);
            return Next::Taken;
        }
        if self.arrived.is_empty() {
            return Next::Nothing;
        }
        if self.merges && (self.folded.len() > 0 || self.arrived.len() > 1) {
            return Next::Fold(self.lift());
        }
        self.share(limit, hand);
        Next::Taken
    }

    fn share(&mut self, limit: usize, hand: &mut Hand<T>) {
        let Some(first) = self.arrived.front_mut() else { return };
        let taken = first.from..first.batch.changes.len().min(first.from + limit);
        self.unmerged -= taken.len();
        first.from = taken.end;
        hand.shared = Some((Arc::clone(&first.batch), taken));
        if first.len() == 0 {
            self.arrived.pop_front();
        }
    }

    fn lift(&mut self) -> Lifted<T> {
        self.lifted = self.oldest().map(|since| (self.len(), since));
        self.unmerged = 0;
        Lifted { folded: std::mem::take(&mut self.folded), arrived: std::mem::take(&mut self.arrived) }
    }

    /// Gives back what was lifted, merged.
    pub(crate) fn lower(&mut self, folded: Folded<T>) {
        self.lifted = None;
        self.folded = folded;
    }

    /// How many changes wait.
    pub(crate) fn len(&self) -> usize {
        self.folded.len() + self.unmerged + self.lifted.map_or(0, |(count, _)| count)
    }

    /// Since when the oldest waits.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let lifted = self.lifted.map(|(_, since)| since);
        let folded = || self.folded.front().map(|(_, since)| since);
        lifted.or_else(folded).or_else(|| self.arrived.front().map(|it| it.batch.since))
    }

    /// The place of the oldest change, or of the next to come.
    pub(crate) fn front_place(&self) -> u64 {
        let folded = self.folded.front().map(|(place, _)| place);
        let arrived = || self.arrived.front().map(|it| it.place + it.from as u64);
        folded.or_else(arrived).unwrap_or(self.next_place)
    }

    /// The place of the next change that comes.
    pub(crate) fn next_place(&self) -> u64 {
        self.next_place
    }
}
