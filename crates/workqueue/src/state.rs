//! The state machine of a queue: which keys have outstanding work, which are ready, which are held,
//! which are delayed.
//!
//! ```text
//!              add                take                     finish
//!  (unknown) ───────► Ready ───────────────► Held ─────────────────────► (unknown)
//!      │                ▲                    │  ▲
//!      │ delay          │ due                add take
//!      ▼                │                    ▼  │ finish
//!   Resting ────────────┘             HeldAndDirty ─────► Ready
//! ```
//!
//! A delay is independent of these stages. There is no clock, no lock and no task here: the time is
//! an argument, and the results say how many waiters to wake. [`crate::shared_queue`] puts a lock
//! around it.

use std::time::Duration;

use crate::delays::Delays;
use crate::entries::{Delay, Entries, Id, List, Stage};
use crate::note::Note;
use crate::note_slots::NoteSlots;
use crate::ready::Ready;
use crate::snapshot::{KeySnapshot, KeyStage, QueueSnapshot, SCANNED};

/// The state of a queue. The stage of a key is its whole state: a key is ready if and only if it
/// has outstanding work and no worker holds it, and it is held at most once, because only
/// [`QueueState::take`] makes a key held, and it takes from the ready ones.
#[derive(Debug)]
pub(crate) struct QueueState<K, N = ()> {
    entries: Entries<K>,
    notes: NoteSlots<N>,
    /// Exactly the entries at `Stage::Ready`.
    ready: Ready,
    /// The number of entries at `Stage::Held` or `Stage::HeldAndDirty`.
    held: usize,
    /// The number of adds that were not merged into an earlier one.
    added: u64,
    /// The number of keys that were taken.
    taken: u64,
    /// Present in queues with metrics.
    measured: Option<Box<HeldTimes>>,
    delays: Delays,
    /// True if a key has at most one outstanding add: see
    /// [`crate::WorkQueueBuilder::earliest_wins`].
    earliest_wins: bool,
    stopping: bool,
}

/// The held keys by time, and the changes of the depths.
#[derive(Debug, Default)]
struct HeldTimes {
    /// Exactly the held entries, the longest-held first.
    held: List,
    /// The sum of `held_since` of all held keys.
    since: u128,
    /// The change of the number of keys with outstanding work for each priority, since the last
    /// report.
    depth: DepthChanges,
}

/// Priorities, with the change of the number of keys with outstanding work.
pub(crate) type DepthChanges = Vec<(i32, i64)>;

/// The parameters of an add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddRequest {
    pub(crate) hash: u64,
    /// Set in queues with groups.
    pub(crate) group: Option<u64>,
    pub(crate) priority: i32,
    /// The time; zero if neither metrics nor a delay need it.
    pub(crate) now: u64,
}

/// The result of an add.
#[derive(Debug)]
pub(crate) struct Added<K> {
    /// The key, if the queue did not need it. The caller drops it outside the lock.
    pub(crate) unused: Option<K>,
    /// True if the key has outstanding work now and had none before.
    pub(crate) is_new: bool,
    /// True if the key has become ready: one worker can be woken.
    pub(crate) readied: bool,
}

/// A key taken by a worker.
#[derive(Debug)]
pub(crate) struct Taken<K, N = ()> {
    pub(crate) id: Id,
    pub(crate) key: K,
    pub(crate) note: N,
    pub(crate) priority: i32,
    pub(crate) waiting_since: u64,
}

/// The result of finishing a key.
#[derive(Debug)]
pub(crate) struct Finished<K> {
    /// The key, if the queue no longer needs it.
    pub(crate) unused: Option<K>,
    /// True if the key was added meanwhile, and is ready again.
    pub(crate) readied: bool,
    pub(crate) held_since: u64,
}

impl<K: Eq + Clone, N: Note> QueueState<K, N> {
    /// Creates an empty state. With `measured`, it keeps the times for [`QueueState::unfinished`].
    pub(crate) fn new(ready: Ready, earliest_wins: bool, measured: bool) -> Self {
        Self {
            entries: Entries::new(),
            notes: NoteSlots::new(),
            ready,
            held: 0,
            added: 0,
            taken: 0,
            measured: measured.then(Box::default),
            delays: Delays::default(),
            earliest_wins,
            stopping: false,
        }
    }

    /// Returns the number of ready keys.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn has_delays(&self) -> bool {
        !self.delays.is_empty()
    }

    pub(crate) fn delayed(&self) -> usize {
        self.delays.len()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Returns true if all accepted keys are finished.
    pub(crate) fn is_drained(&self) -> bool {
        self.stopping && self.held == 0 && self.ready.len() == 0
    }

    /// Returns the total time that the held keys have been held, and the longest.
    pub(crate) fn unfinished(&self, now: u64) -> (u128, u64) {
        let Some(HeldTimes { held, since, .. }) = self.measured.as_deref() else { return (0, 0) };
        let all = (held.len() as u128 * u128::from(now)).saturating_sub(*since);
        let longest = held.first().map_or(0, |id| now.saturating_sub(self.entries.cold(id).held_since));
        (all, longest)
    }

    /// Takes the changes of the depths since the last call. Empty in queues without metrics.
    #[inline]
    pub(crate) fn depth_changes(&mut self) -> DepthChanges {
        self.measured.as_mut().map_or(Vec::new(), |it| std::mem::take(&mut it.depth))
    }

    /// Takes the notes that are not needed any more. The caller drops them outside the lock.
    #[inline]
    pub(crate) fn take_discarded_notes(&mut self) -> Vec<N> {
        self.notes.take_discarded()
    }

    /// Adds a key now. The caller drops what is left in `note` outside the lock.
    #[inline]
    pub(crate) fn add_noted(&mut self, key: K, note: &mut N, mut request: AddRequest) -> Added<K> {
        if self.stopping {
            return Added { unused: Some(key), is_new: false, readied: false };
        }
        let (id, unused) = self.entries.find_or_insert(request.hash, key, request.group);
        let replaced = if self.earliest_wins { self.delays.cancel(&mut self.entries, id) } else { None };
        // This add takes the place of the delayed one, which may have had a higher priority.
        if let Some(delay) = &replaced {
            request.priority = request.priority.max(delay.priority);
        }
        let (is_new, readied) = self.mark_dirty(id, request.priority, request.now);
        if replaced.is_some() {
            self.notes.become_due(id, is_new);
        }
        self.notes.add(id, note);
        Added { unused, is_new, readied }
    }

    /// Adds a key at the time `at`. If it is already delayed, the earlier time applies, unless
    /// `replace` is set. The caller drops what is left in `note` outside the lock.
    pub(crate) fn delay_noted(
        &mut self,
        key: K,
        note: &mut N,
        request: AddRequest,
        at: u64,
        replace: bool,
    ) -> Option<K> {
        if self.stopping {
            return Some(key);
        }
        let (id, unused) = self.entries.find_or_insert(request.hash, key, request.group);
        if self.earliest_wins && matches!(self.entries[id].stage, Stage::Ready | Stage::HeldAndDirty) {
            self.mark_dirty(id, request.priority, request.now);
            self.notes.add(id, note);
            return unused;
        }
        match self.entries.delay(id) {
            Some(old) if !replace && old.at <= at => {
                let priority = old.priority.max(request.priority);
                self.entries.set_delay(id, Some(Delay { priority, ..old }));
            }
            old => {
                let priority = old.map_or(request.priority, |it| it.priority.max(request.priority));
                self.delays.set(&mut self.entries, id, at, priority);
            }
        }
        self.notes.delay(id, note, replace);
        unused
    }

    /// Cancels a pending delay. Returns true if there was one, and the key if its entry was
    /// removed.
    pub(crate) fn cancel(&mut self, hash: u64, key: &K) -> (bool, Option<K>) {
        let Some(id) = self.entries.find(hash, key) else { return (false, None) };
        let cancelled = self.delays.cancel(&mut self.entries, id).is_some();
        if cancelled {
            self.notes.discard_delayed(id);
        }
        let unused = match self.entries[id].stage {
            Stage::Resting => self.remove(id),
            _ => None,
        };
        (cancelled, unused)
    }

    /// Turns the delays that are due into adds. Returns the number of keys that have become ready,
    /// and the number with new work.
    pub(crate) fn advance(&mut self, now: u64) -> (usize, u64) {
        let (mut all_ready, mut all_new) = (0, 0);
        while let Some((id, delay)) = self.delays.pop_due(&mut self.entries, now) {
            let (is_new, readied) = self.mark_dirty(id, delay.priority, delay.at);
            self.notes.become_due(id, is_new);
            all_ready += usize::from(readied);
            all_new += u64::from(is_new);
        }
        (all_ready, all_new)
    }

    /// Returns the time of the next delay.
    pub(crate) fn next_due(&mut self) -> Option<u64> {
        self.delays.next(&self.entries)
    }

    /// Takes the next key. The caller has to [`finish`](Self::finish) it.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> Option<Taken<K, N>> {
        let id = self.ready.pop(&mut self.entries)?;
        self.held += 1;
        self.taken += 1;
        let entry = &mut self.entries[id];
        entry.stage = Stage::Held;
        let (key, priority) = (entry.key().clone(), entry.priority);
        let waiting_since = if self.measured.is_some() { self.measure_take(id, priority, now) } else { 0 };
        Some(Taken { id, key, note: self.notes.take(id), priority, waiting_since })
    }

    /// Returns true if a held key was added again.
    pub(crate) fn is_dirty(&self, id: Id) -> bool {
        self.entries[id].stage == Stage::HeldAndDirty
    }

    /// Finishes the work of a worker on its key.
    #[inline]
    pub(crate) fn finish(&mut self, id: Id) -> Finished<K> {
        self.held -= 1;
        let held_since = if self.measured.is_some() { self.measure_finish(id) } else { 0 };
        let entry = &mut self.entries[id];
        // Only now: a key that is ready while it is held would be given to a second worker.
        if entry.stage == Stage::HeldAndDirty {
            entry.stage = Stage::Ready;
            self.ready.push(&mut self.entries, id);
            return Finished { unused: None, readied: true, held_since };
        }
        entry.stage = Stage::Resting;
        // A delay refers to its key by the entry, which is reused once it is removed.
        let unused = if self.entries.delay(id).is_none() { self.remove(id) } else { None };
        Finished { unused, readied: false, held_since }
    }

    /// Records that a key is held, and returns since when it waited.
    #[cold]
    fn measure_take(&mut self, id: Id, priority: i32, now: u64) -> u64 {
        self.change_depth(priority, -1);
        let Some(measured) = &mut self.measured else { return 0 };
        measured.since += u128::from(now);
        measured.held.push_back(&mut self.entries, id);
        let cold = self.entries.cold_mut(id);
        cold.held_since = now;
        cold.waiting_since
    }

    /// Records that a key is no longer held, and returns since when it was.
    #[cold]
    fn measure_finish(&mut self, id: Id) -> u64 {
        let Some(measured) = &mut self.measured else { return 0 };
        let held_since = self.entries.cold(id).held_since;
        measured.held.unlink(&mut self.entries, id);
        measured.since -= u128::from(held_since);
        held_since
    }

    /// Stops accepting keys and drops all delays. Ready keys are still handed out. Returns the keys
    /// that are not needed any more.
    pub(crate) fn stop(&mut self) -> Vec<K> {
        self.stopping = true;
        if self.delays.is_empty() {
            return Vec::new();
        }
        self.delays.clear();
        // Entries that only a delay kept have no other owner, so all are visited.
        let ids: Vec<_> = self.entries.ids().collect();
        let mut unused = Vec::new();
        for id in ids {
            if self.entries.set_delay(id, None).is_some() {
                self.notes.discard_delayed(id);
            }
            if self.entries[id].stage == Stage::Resting {
                unused.extend(self.remove(id));
            }
        }
        unused
    }

    /// Returns the counts, and at most `limit` of the keys that are held or delayed. The caller
    /// adds what the limiter knows.
    pub(crate) fn snapshot(&self, limit: usize, now: u64) -> QueueSnapshot<K, N>
    where
        N: Clone,
    {
        let mut keys = self.held_keys(limit, now);
        for (id, at) in self.delays.upcoming(&self.entries, limit - keys.len()) {
            let stage = KeyStage::Delayed { due: Duration::from_nanos(at.saturating_sub(now)) };
            let (key, note) = (self.entries[id].key().clone(), self.notes.delayed(id).cloned());
            keys.push(KeySnapshot { key, stage, requeues: 0, note });
        }
        QueueSnapshot {
            ready: self.ready(),
            delayed: self.delayed(),
            held: self.held,
            added: self.added,
            taken: self.taken,
            shutting_down: self.stopping,
            keys,
        }
    }

    fn held_keys(&self, limit: usize, now: u64) -> Vec<KeySnapshot<K, N>>
    where
        N: Clone,
    {
        let key = |id: Id| {
            let (entry, times) = (&self.entries[id], self.measured.as_ref());
            let since = times.map(|_| self.entries.cold(id).held_since);
            let elapsed = since.map(|it| Duration::from_nanos(now.saturating_sub(it)));
            let again = entry.stage == Stage::HeldAndDirty;
            let stage = KeyStage::Held { elapsed, again };
            let note = if again { self.notes.outstanding(id).cloned() } else { None };
            KeySnapshot { key: entry.key().clone(), stage, requeues: 0, note }
        };
        let is_held = |id: &Id| matches!(self.entries[*id].stage, Stage::Held | Stage::HeldAndDirty);
        let limit = limit.min(self.held);
        match self.measured.as_deref() {
            Some(HeldTimes { held, .. }) => held.iter(&self.entries).take(limit).map(key).collect(),
            None => self.entries.first(SCANNED).filter(is_held).take(limit).map(key).collect(),
        }
    }

    #[cfg(test)]
    pub(crate) fn notes(&self) -> &NoteSlots<N> {
        &self.notes
    }

    /// Returns the memory allocated for keys and notes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.notes.bytes()
    }

    /// Removes an entry that is resting and without a delay, and returns its key. Both of its notes
    /// are the default by then.
    #[inline]
    fn remove(&mut self, id: Id) -> Option<K> {
        let key = self.entries.remove(id);
        if self.entries.is_released() {
            self.notes.release();
        }
        key
    }

    /// Marks a key as having outstanding work. Returns whether it had none before, and whether it
    /// has become ready.
    #[inline]
    fn mark_dirty(&mut self, id: Id, priority: i32, now: u64) -> (bool, bool) {
        let entry = &mut self.entries[id];
        match entry.stage {
            Stage::Resting => {
                (entry.stage, entry.priority) = (Stage::Ready, priority);
                self.added += 1;
                self.ready.push(&mut self.entries, id);
                self.begin_to_wait(id, priority, now);
                (true, true)
            }
            Stage::Held => {
                (entry.stage, entry.priority) = (Stage::HeldAndDirty, priority);
                self.added += 1;
                self.begin_to_wait(id, priority, now);
                (true, false)
            }
            Stage::HeldAndDirty | Stage::Ready if priority <= entry.priority => (false, false),
            Stage::HeldAndDirty => {
                let before = std::mem::replace(&mut entry.priority, priority);
                self.change_depth(before, -1);
                self.change_depth(priority, 1);
                (false, false)
            }
            Stage::Ready => {
                let before = entry.priority;
                // Each priority has a list of its own, so the key joins the end of another one.
                self.ready.unlink(&mut self.entries, id);
                self.entries[id].priority = priority;
                self.ready.push(&mut self.entries, id);
                self.change_depth(before, -1);
                self.change_depth(priority, 1);
                (false, false)
            }
        }
    }

    #[inline]
    fn begin_to_wait(&mut self, id: Id, priority: i32, now: u64) {
        if self.measured.is_some() {
            self.measure_add(id, priority, now);
        }
    }

    #[cold]
    fn measure_add(&mut self, id: Id, priority: i32, now: u64) {
        self.entries.cold_mut(id).waiting_since = now;
        self.change_depth(priority, 1);
    }

    #[cold]
    fn change_depth(&mut self, priority: i32, by: i64) {
        let Some(HeldTimes { depth, .. }) = self.measured.as_deref_mut() else { return };
        match depth.iter_mut().find(|(it, _)| *it == priority) {
            Some((_, change)) => *change += by,
            None => depth.push((priority, by)),
        }
    }
}

#[cfg(test)]
mod tests;
