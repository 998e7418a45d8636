//! The keys a queue knows, each of them once: a slab of entries, an index by key, and lists that run through the slab.
//!
//! Fed by [`crate::state`], which decides what an entry means. It knows nothing about time, order or workers.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use slab::Slab;

/// The place of an entry in the slab. It is valid until the entry is removed, and may then name another.
pub(crate) type Id = u32;

/// No entry.
const NONE: Id = Id::MAX;

/// A queue that has become empty gives its memory back if it has room for more entries than this.
const WORTH_KEEPING: usize = 4096;

/// What a queue knows about one key.
#[derive(Debug)]
pub(crate) struct Entry<K> {
    pub(crate) key: K,
    /// Kept, so that the index grows and forgets without asking the key.
    hash: u64,
    /// Which keys it shares its turns with.
    pub(crate) group: u64,
    /// The delayed add that is pending, if any.
    pub(crate) delay: Option<Delay>,
    pub(crate) stage: Stage,
    /// That of the work that is outstanding; without meaning while there is none.
    pub(crate) priority: i32,
    /// Neighbours in the one list it may be in: one of those that are ready, or, where it is measured, that of the held.
    before: Id,
    after: Id,
    /// Since when the outstanding work waits, and since when the key is held. Only queues with a name keep them.
    pub(crate) waiting_since: u64,
    pub(crate) held_since: u64,
}

/// A delayed add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    /// When it becomes an add, on the queue's clock.
    pub(crate) at: u64,
    /// Tells it from delays that were replaced.
    pub(crate) ticket: u32,
    pub(crate) priority: i32,
}

/// Where a key is between two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No work is outstanding; the entry is there for its delay.
    Resting,
    /// Work is outstanding and nobody holds the key: it is in a list of those that are ready.
    Ready,
    /// A worker holds it.
    Held,
    /// A worker holds it, and it has to be worked on once more.
    HeldAndDirty,
}

/// All entries.
#[derive(Debug)]
pub(crate) struct Entries<K> {
    slab: Slab<Entry<K>>,
    /// Invariant: exactly the ids in the slab, under the hash of their keys.
    index: HashTable<Id>,
}

impl<K: Eq> Entries<K> {
    pub(crate) fn new() -> Self {
        Self { slab: Slab::new(), index: HashTable::new() }
    }

    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<Id> {
        self.index.find(hash, |id| is_it(&self.slab, *id, hash, key)).copied()
    }

    /// The entry of a key, and the key again; where there is none, a resting one is made and the key is kept.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u64, key: K, group: u64) -> (Id, Option<K>) {
        let Self { slab, index } = self;
        let place = index.entry(hash, |id| is_it(slab, *id, hash, &key), |id| slab[*id as usize].hash);
        let vacant = match place {
            Place::Occupied(found) => return (*found.get(), Some(key)),
            Place::Vacant(vacant) => vacant,
        };
        let id = slab.vacant_key() as Id;
        assert!(slab.len() < NONE as usize, "a queue holds fewer than 2^32 keys");
        vacant.insert(id);
        slab.insert(Entry {
            key,
            hash,
            group,
            delay: None,
            stage: Stage::Resting,
            priority: 0,
            before: NONE,
            after: NONE,
            waiting_since: 0,
            held_since: 0,
        });
        (id, None)
    }

    /// Removes an entry that is in no list, and gives its key back so that it can be dropped elsewhere.
    pub(crate) fn remove(&mut self, id: Id) -> K {
        let entry = self.slab.remove(id as usize);
        if let Ok(found) = self.index.find_entry(entry.hash, |it| *it == id) {
            found.remove();
        }
        if self.slab.is_empty() && self.slab.capacity() > WORTH_KEEPING {
            *self = Self::new();
        }
        entry.key
    }

    /// The ids of all entries, in no order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.slab.iter().map(|(id, _)| id as Id)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The entry at `id`, where `id` may be out of date.
    pub(crate) fn get(&self, id: Id) -> Option<&Entry<K>> {
        self.slab.get(id as usize)
    }
}

fn is_it<K: Eq>(slab: &Slab<Entry<K>>, id: Id, hash: u64, key: &K) -> bool {
    let entry = &slab[id as usize];
    entry.hash == hash && entry.key == *key
}

impl<K> Index<Id> for Entries<K> {
    type Output = Entry<K>;

    fn index(&self, id: Id) -> &Entry<K> {
        &self.slab[id as usize]
    }
}

impl<K> IndexMut<Id> for Entries<K> {
    fn index_mut(&mut self, id: Id) -> &mut Entry<K> {
        &mut self.slab[id as usize]
    }
}

/// A list that runs through the entries themselves. An entry is in one list at most.
#[derive(Debug)]
pub(crate) struct List {
    first: Id,
    last: Id,
    len: usize,
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

    pub(crate) fn pop_front<K>(&mut self, entries: &mut Entries<K>) -> Option<Id> {
        let first = self.first()?;
        self.unlink(entries, first);
        Some(first)
    }

    /// Takes out an entry that is in this list, wherever it stands.
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
        let ids = ["a", "b", "c"].map(|key| entries.find_or_insert(7, key, 0).0);
        for id in ids {
            list.push_back(&mut entries, id);
        }
        (entries, list, ids)
    }

    #[test]
    fn keys_with_the_same_hash_are_told_apart() {
        let (mut entries, _, [a, b, c]) = three();
        assert_eq!(["a", "b", "c"].map(|it| entries.find(7, &it)), [Some(a), Some(b), Some(c)]);
        assert_eq!(entries.find(8, &"a"), None);
        assert_eq!(entries.remove(b), "b");
        assert_eq!(["a", "b", "c"].map(|it| entries.find(7, &it)), [Some(a), None, Some(c)]);
    }

    #[test]
    fn an_entry_leaves_a_list_from_any_place() {
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
    fn a_large_slab_is_given_back_when_the_last_entry_leaves() {
        let mut entries = Entries::new();
        let ids: Vec<_> = (0..=WORTH_KEEPING).map(|it| entries.find_or_insert(it as u64, it, 0).0).collect();
        for id in ids {
            entries.remove(id);
        }
        assert_eq!(entries.slab.capacity(), 0);
    }
}
