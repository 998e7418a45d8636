//! A list that is being received: objects that differ from the held ones are staged until the list
//! is complete.
//!
//! Objects that are unchanged are dropped on arrival and leave one bit behind, so a relist needs
//! memory only for the changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};

use super::keys::KeyBuffer;
use super::lookup::KeyRange;
use super::state::{StoreState, key_of};
use super::tree::Tree;

/// The contents of a list so far. The part of the tree that it is compared with must not change
/// until the list ends.
#[derive(Debug)]
pub(super) struct Relist<T> {
    /// The keys that the list covers.
    range: KeyRange,
    /// One bit for every object of the range that was held when the list began, in the order of the
    /// keys. Set if the list contains the object.
    seen: Vec<u64>,
    /// The differences, in the order of the list, in chunks: the memory of a chunk is freed as soon
    /// as it is in the tree, and no chunk is ever reallocated to grow.
    staged: Vec<Vec<Staged<T>>>,
    /// The positions of each key's steps in `staged`, counted over all chunks. Built when a step is
    /// first undone, which is rare. Without it, scanning `staged` made a list with many deletions
    /// take quadratic time.
    places: Option<HashMap<ObjectKey, Vec<usize>>>,
    /// The number of rewinds before the list began.
    pub(super) rewinds: u64,
    /// Set if equal versions do not prove equal states.
    rewound: bool,
    /// Set if an object that the list lacks may exist nevertheless.
    infers_nothing: bool,
}

/// The number of steps in a chunk.
const PORTION: usize = 512;

/// One step from the state before the list to the state after it.
#[derive(Debug)]
pub(super) enum Staged<T> {
    Put(Arc<T>),
    Gone(Arc<T>),
    /// A step that was undone.
    Nothing,
}

impl<T: Object> Relist<T> {
    /// Begins a list after this many rewinds. The held objects were listed after `held_rewinds`.
    pub(super) fn new(held: &StoreState<T>, range: &KeyRange, rewinds: u64, held_rewinds: u64) -> Self {
        let seen = vec![0; held.count(range).div_ceil(64)];
        let (staged, range) = (Vec::new(), range.clone());
        let rewound = rewinds != held_rewinds;
        Self { range, seen, staged, places: None, rewinds, rewound, infers_nothing: false }
    }

    /// Keeps the objects that the list lacks: one of them may be the object whose name could not be
    /// decoded.
    pub(super) fn infer_nothing(&mut self) {
        self.infers_nothing = true;
    }

    /// Finds an object of the range, and its rank within the range.
    fn locate<'t>(&self, held: &'t Tree<Arc<T>>, key: &[u8]) -> (usize, Option<&'t Arc<T>>) {
        let (rank, object) = held.locate(key);
        // Other parts of the tree may have changed since the list began; ranks within the range
        // have not.
        let first = if self.range.from.is_empty() { 0 } else { held.locate(&self.range.from).0 };
        (rank.saturating_sub(first), object)
    }

    /// Compares an object of the list with the held one, and stages it if the state differs.
    pub(super) fn add(&mut self, held: &Tree<Arc<T>>, object: T) {
        let Some(key) = self.key_within(&object) else { return };
        let (rank, before) = self.locate(held, &key);
        if let Some(before) = before {
            // An object with another uid is a different object: the held one is missing from the
            // list although its key is not.
            if is_same_object(&**before, &object) {
                self.seen[rank / 64] |= 1 << (rank % 64);
            }
            if !self.rewound && is_same_state(&**before, &object) {
                return;
            }
        }
        self.stage(Staged::Put(Arc::new(object)));
    }

    /// Records a deletion that was reported while the list was being received.
    pub(super) fn remove(&mut self, held: &Tree<Arc<T>>, object: T) {
        let Some(key) = self.key_within(&object) else { return };
        if let (rank, Some(_)) = self.locate(held, &key) {
            self.seen[rank / 64] |= 1 << (rank % 64);
        }
        self.stage(Staged::Gone(Arc::new(object)));
    }

    /// Undoes an earlier item of the list: the object does not exist any more.
    pub(super) fn forget(&mut self, held: &Tree<Arc<T>>, key: &ObjectKey) {
        let text = key.as_str().as_bytes();
        if !self.range.has(text) {
            return;
        }
        if let (rank, Some(_)) = self.locate(held, text) {
            self.seen[rank / 64] &= !(1 << (rank % 64));
        }
        let staged = &self.staged;
        let places = self.places.get_or_insert_with(|| {
            let mut places: HashMap<_, Vec<_>> = HashMap::new();
            for (place, step) in staged.iter().flatten().enumerate() {
                if let Some(key) = step.key() {
                    places.entry(key).or_default().push(place);
                }
            }
            places
        });
        for place in places.remove(key).unwrap_or_default() {
            self.staged[place / PORTION][place % PORTION] = Staged::Nothing;
        }
    }

    /// Returns the objects that are held, and neither in the list nor undecodable.
    pub(super) fn missing(
        &self,
        held: &Tree<Arc<T>>,
        undecodable: &[(ObjectKey, ResourceVersion)],
    ) -> Vec<Arc<T>> {
        if self.infers_nothing {
            return Vec::new();
        }
        let undecodable: HashSet<_> = undecodable.iter().map(|(key, _)| key.as_str().as_bytes()).collect();
        let is_seen = |rank: usize| self.seen[rank / 64] >> (rank % 64) & 1 == 1;
        let held = held.walk_from(&self.range.from).take_while(|(key, _)| self.range.has(key)).enumerate();
        let missing = held.filter(|(rank, (key, _))| !is_seen(*rank) && !undecodable.contains(key));
        missing.map(|(_, (_, object))| object.clone()).collect()
    }

    /// Returns the key of an object, or `None` if it is not in the range of this list.
    fn key_within(&self, object: &T) -> Option<KeyBuffer> {
        let key = usable_key(object)?;
        let is_within = self.range.has(&key);
        if !is_within {
            let header = object.header();
            tracing::warn!(
                name = header.name,
                namespace = header.namespace,
                "skipping an object that is not in the listed namespace"
            );
        }
        is_within.then_some(key)
    }

    /// Returns the number of staged steps.
    pub(super) fn steps(&self) -> usize {
        self.staged.iter().map(Vec::len).sum()
    }

    /// Returns the staged steps, in the order of the list.
    pub(super) fn into_staged(self) -> impl Iterator<Item = Staged<T>> {
        self.staged.into_iter().flatten()
    }

    fn stage(&mut self, step: Staged<T>) {
        if let Some(places) = &mut self.places
            && let Some(key) = step.key()
        {
            let place = match self.staged.split_last() {
                Some((last, before)) => before.len() * PORTION + last.len(),
                None => 0,
            };
            places.entry(key).or_default().push(place);
        }
        match self.staged.last_mut() {
            Some(portion) if portion.len() < PORTION => portion.push(step),
            _ => self.staged.push(vec![step]),
        }
    }
}

impl<T: Object> Staged<T> {
    fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Put(object) | Self::Gone(object) => object.key(),
            Self::Nothing => None,
        }
    }
}

/// Returns the key of an object. Logs a warning and returns `None` if the object has no usable
/// name.
pub(super) fn usable_key(object: &impl Object) -> Option<KeyBuffer> {
    let header = object.header();
    let key = key_of(header.namespace, header.name);
    if key.is_none() {
        tracing::warn!(
            name = header.name,
            version = header.version,
            "skipping an object without a usable name"
        );
    }
    key
}

/// Returns true if both are states of the same object. If one of them has no uid, the key decides.
pub(super) fn is_same_object<T: Object>(one: &T, other: &T) -> bool {
    let (one, other) = (one.header().uid, other.header().uid);
    one == other || one.is_empty() || other.is_empty()
}

/// Returns true if both are the same state of the same object. False for objects without a version.
pub(super) fn is_same_state<T: Object>(one: &T, other: &T) -> bool {
    is_same_object(one, other)
        && !one.header().version.is_empty()
        && one.header().version == other.header().version
}
