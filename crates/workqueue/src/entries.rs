//! The keys that a queue knows, each of them once: a slab of entries, an index by key, and
//! intrusive lists through the slab.
//!
//! Fed by [`crate::state`], which decides what an entry means. It knows nothing about time, order
//! or workers.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

/// The index of an entry in the slab. It is valid until the entry is removed, and may be reused
/// afterwards.
pub(crate) type Id = u32;

/// The id of no entry.
const NONE: Id = Id::MAX;

/// The capacity up to which an empty queue keeps its memory.
const WORTH_KEEPING: usize = 4096;

/// The fields of a key that every add and take needs. It is kept small: the speed of a queue that
/// is used by many processors is bounded by the memory that moves between them.
#[derive(Debug)]
pub(crate) struct Entry<K> {
    /// `None` while the slot is free.
    key: Option<K>,
    /// Stored, so that the index can grow and remove entries without hashing the key.
    hash: u64,
    /// The neighbours in the one list that the entry may be in: a ready list or, in a queue with
    /// metrics, the list of held keys. In a free slot, `after` is the next free slot.
    before: Id,
    after: Id,
    /// The priority of the outstanding work; meaningless while there is none.
    pub(crate) priority: i32,
    pub(crate) stage: Stage,
    /// Set while a delayed add is pending: [`ColdFields::delay`].
    delayed: bool,
}

/// The fields of a key that only queues with delays, groups or metrics need.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColdFields {
    /// The group with which the key shares its turns.
    pub(crate) group: u64,
    delay: Delay,
    /// The times since when the outstanding work waits and the key is held. Only queues with a name
    /// maintain them.
    pub(crate) waiting_since: u64,
    pub(crate) held_since: u64,
}

/// A delayed add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delay {
    /// The time at which it becomes an add, on the queue's clock.
    pub(crate) at: u64,
    /// Distinguishes it from delays that were replaced.
    pub(crate) ticket: u32,
    pub(crate) priority: i32,
}

/// The stage of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No work is outstanding; the entry exists because of its delay.
    Resting,
    /// Work is outstanding and no worker holds the key: it is in a ready list.
    Ready,
    /// A worker holds it.
    Held,
    /// A worker holds it, and it was added again meanwhile.
    HeldAndDirty,
}

/// All entries.
///
/// A slot that becomes free keeps its fields and is reused first, so that a key that comes and goes
/// touches little memory.
#[derive(Debug)]
pub(crate) struct Entries<K> {
    slots: Vec<Entry<K>>,
    /// The rarely used fields of the first entries; as long as the highest index that was written.
    cold: Vec<ColdFields>,
    /// The free slot that is used next.
    free: Id,
    /// The number of slots in use.
    len: usize,
    /// Invariant: exactly the ids of the slots in use, under the hash of their keys.
    index: HashTable<Id>,
}

impl<K> Entry<K> {
    #[inline]
    pub(crate) fn key(&self) -> &K {
        self.key.as_ref().expect("only free slots have no key, and their ids are not in use")
    }
}

impl<K: Eq> Entries<K> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), cold: Vec::new(), free: NONE, len: 0, index: HashTable::new() }
    }

    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<Id> {
        self.index.find(hash, |id| is_it(&self.slots, *id, hash, key)).copied()
    }

    /// Returns the entry of a key, and the key if it was not needed. If there is no entry, creates
    /// a resting one that keeps the key.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u64, key: K, group: Option<u64>) -> (Id, Option<K>) {
        let Self { slots, free, len, index, .. } = self;
        let place = index.entry(hash, |id| is_it(slots, *id, hash, &key), |id| slots[*id as usize].hash);
        let vacant = match place {
            TableEntry::Occupied(found) => return (*found.get(), Some(key)),
            TableEntry::Vacant(vacant) => vacant,
        };
        if *free == NONE {
            *free = grow(slots);
        }
        let id = *free;
        vacant.insert(id);
        *len += 1;
        let entry = &mut slots[id as usize];
        *free = entry.after;
        (entry.key, entry.hash) = (Some(key), hash);
        if let Some(group) = group {
            self.cold_mut(id).group = group;
        }
        (id, None)
    }

    /// Removes an entry that is resting, without a delay and in no list, and returns its key so
    /// that the caller can drop it outside the lock.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) -> Option<K> {
        let entry = &mut self.slots[id as usize];
        debug_assert!(entry.stage == Stage::Resting && !entry.delayed, "an entry in use was removed");
        let key = entry.key.take();
        entry.after = self.free;
        self.free = id;
        self.len -= 1;
        if let Ok(found) = self.index.find_entry(entry.hash, |it| *it == id) {
            found.remove();
        }
        if self.len == 0 && self.slots.len() > WORTH_KEEPING {
            *self = Self::new();
        }
        key
    }

    /// Returns true if there is no slot, not even a free one.
    #[inline]
    pub(crate) fn is_released(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the ids of all entries, in no order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.index.iter().copied()
    }

    /// Returns the first slots that are in use, of at most this many slots.
    pub(crate) fn first(&self, slots: usize) -> impl Iterator<Item = Id> {
        let used = self.slots.iter().take(slots).enumerate().filter(|(_, it)| it.key.is_some());
        used.map(|(id, _)| id as Id)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory allocated by the structure itself.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Entry<K>>()
            + self.cold.capacity() * size_of::<ColdFields>()
            + self.index.allocation_size()
    }

    /// Returns the delayed add of an entry. The id may be stale: the slot may be free by now, or
    /// belong to another key.
    #[inline]
    pub(crate) fn delay(&self, id: Id) -> Option<Delay> {
        let delayed = self.slots.get(id as usize)?.delayed;
        if delayed { self.cold.get(id as usize).map(|it| it.delay) } else { None }
    }

    /// Sets the delayed add of an entry, and returns the previous one.
    pub(crate) fn set_delay(&mut self, id: Id, delay: Option<Delay>) -> Option<Delay> {
        let before = self.delay(id);
        self.slots[id as usize].delayed = delay.is_some();
        if let Some(delay) = delay {
            self.cold_mut(id).delay = delay;
        }
        before
    }
}

impl<K> Entries<K> {
    /// Returns the rarely used fields. Only fields that were written since the entry was created
    /// are meaningful.
    pub(crate) fn cold(&self, id: Id) -> &ColdFields {
        &self.cold[id as usize]
    }

    pub(crate) fn cold_mut(&mut self, id: Id) -> &mut ColdFields {
        let place = id as usize;
        if place >= self.cold.len() {
            self.cold.resize(self.slots.len(), ColdFields::default());
        }
        &mut self.cold[place]
    }
}

#[inline]
fn is_it<K: Eq>(slots: &[Entry<K>], id: Id, hash: u64, key: &K) -> bool {
    let entry = &slots[id as usize];
    entry.hash == hash && entry.key() == key
}

/// Appends a free slot.
fn grow<K>(slots: &mut Vec<Entry<K>>) -> Id {
    assert!(slots.len() < NONE as usize, "a queue holds fewer than 2^32 keys");
    slots.push(Entry {
        key: None,
        hash: 0,
        before: NONE,
        after: NONE,
        priority: 0,
        stage: Stage::Resting,
        delayed: false,
    });
    (slots.len() - 1) as Id
}

impl<K> Index<Id> for Entries<K> {
    type Output = Entry<K>;

    #[inline]
    fn index(&self, id: Id) -> &Entry<K> {
        &self.slots[id as usize]
    }
}

impl<K> IndexMut<Id> for Entries<K> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut Entry<K> {
        &mut self.slots[id as usize]
    }
}

/// An intrusive list through the entries. An entry is in at most one list.
#[derive(Debug)]
pub(crate) struct List {
    first: Id,
    last: Id,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<Id> {
        (self.first != NONE).then_some(self.first)
    }

    /// Returns the entries of the list, in order.
    pub(crate) fn iter<K>(&self, entries: &Entries<K>) -> impl Iterator<Item = Id> {
        let next = move |id: &Id| Some(entries[*id].after).filter(|it| *it != NONE);
        std::iter::successors(self.first(), next)
    }

    #[inline]
    pub(crate) fn push_back<K>(&mut self, entries: &mut Entries<K>, id: Id) {
        let entry = &mut entries[id];
        (entry.before, entry.after) = (self.last, NONE);
        match self.last {
            NONE => self.first = id,
            last => entries[last].after = id,
        }
        self.last = id;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop_front<K>(&mut self, entries: &mut Entries<K>) -> Option<Id> {
        let first = self.first()?;
        self.unlink(entries, first);
        Some(first)
    }

    /// Removes an entry of this list, wherever it is.
    #[inline]
    pub(crate) fn unlink<K>(&mut self, entries: &mut Entries<K>, id: Id) {
        let Entry { before, after, .. } = entries[id];
        match before {
            NONE => self.first = after,
            before => entries[before].after = after,
        }
        match after {
            NONE => self.last = before,
            after => entries[after].before = before,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> (Entries<&'static str>, List, [Id; 3]) {
        let (mut entries, mut list) = (Entries::new(), List::new());
        let ids = ["a", "b", "c"].map(|key| entries.find_or_insert(7, key, None).0);
        for id in ids {
            list.push_back(&mut entries, id);
        }
        (entries, list, ids)
    }

    #[test]
    fn keys_with_the_same_hash_are_distinguished() {
        let (mut entries, _, [a, b, c]) = three();
        assert_eq!(["a", "b", "c"].map(|it| entries.find(7, &it)), [Some(a), Some(b), Some(c)]);
        assert_eq!(entries.find(8, &"a"), None);
        assert_eq!(entries.remove(b), Some("b"));
        assert_eq!(["a", "b", "c"].map(|it| entries.find(7, &it)), [Some(a), None, Some(c)]);
    }

    #[test]
    fn an_entry_can_be_unlinked_from_any_position() {
        for gone in 0..3 {
            let (mut entries, mut list, ids) = three();
            list.unlink(&mut entries, ids[gone]);
            let rest: Vec<_> = std::iter::from_fn(|| list.pop_front(&mut entries)).collect();
            let expected: Vec<_> = ids.into_iter().filter(|it| *it != ids[gone]).collect();
            assert_eq!(rest, expected);
            assert!(list.is_empty() && list.first().is_none());
        }
    }

    #[test]
    fn a_large_slab_is_released_when_the_last_entry_is_removed() {
        let mut entries = Entries::new();
        let ids: Vec<_> =
            (0..=WORTH_KEEPING).map(|it| entries.find_or_insert(it as u64, it, None).0).collect();
        for id in ids {
            entries.remove(id);
        }
        assert_eq!(entries.slots.capacity(), 0);
    }
}
