//! A list on its way in: only what differs from what is held is kept, until the list is whole.
//!
//! What is the same is dropped as it comes and leaves one bit behind; so a relist takes the memory of what changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};

use super::keys::KeyBuffer;
use super::lookup::KeyRange;
use super::state::{State, key_of};
use super::tree::Tree;

/// What a list brought so far. The part of the tree it is compared with must not change until it ends.
#[derive(Debug)]
pub(super) struct Relist<T> {
    /// What it is a list of.
    range: KeyRange,
    /// One bit for every object of the range that was held when the list began, in the order of the keys: whether the list has it.
    seen: Vec<u64>,
    /// What differs, in the order of the list, in portions: so the memory of a portion goes back as soon as it is in the tree, and none is
    /// ever copied to a larger place.
    staged: Vec<Vec<Staged<T>>>,
    /// Where the steps of each key are in `staged`, counted over all portions; made when something is first taken back, as that is
    /// rare. A search through all of `staged` each time took a list with many deletions quadratic time.
    places: Option<HashMap<ObjectKey, Vec<usize>>>,
    /// Whether an equal version proves nothing.
    rewound: bool,
    /// Whether an object that the list lacks may be there all the same.
    infers_nothing: bool,
}

/// How many steps are in a portion.
const PORTION: usize = 512;

/// One step from the state before the list to the state after it.
#[derive(Debug)]
pub(super) enum Staged<T> {
    Put(Arc<T>),
    Gone(Arc<T>),
    /// One that was taken back.
    Nothing,
}

impl<T: Object> Relist<T> {
    pub(super) fn new(held: &State<T>, range: &KeyRange, rewound: bool) -> Self {
        let seen = vec![0; held.count(range).div_ceil(64)];
        let (staged, range) = (Vec::new(), range.clone());
        Self { range, seen, staged, places: None, rewound, infers_nothing: false }
    }

    /// Has what the list lacks kept: it may be there without a name that can be read.
    pub(super) fn infer_nothing(&mut self) {
        self.infers_nothing = true;
    }

    /// Finds an object of the range, and its place among those of the range.
    fn locate<'t>(&self, held: &'t Tree<Arc<T>>, key: &[u8]) -> (usize, Option<&'t Arc<T>>) {
        let (rank, object) = held.locate(key);
        // Other parts of the tree may have changed since the list began; places within the range have not.
        let first = if self.range.from.is_empty() { 0 } else { held.locate(&self.range.from).0 };
        (rank.saturating_sub(first), object)
    }

    /// Compares an object of the list with what is held, and keeps it if it is another state.
    pub(super) fn add(&mut self, held: &Tree<Arc<T>>, object: T) {
        let Some(key) = self.key_within(&object) else { return };
        let (rank, before) = self.locate(held, &key);
        if let Some(before) = before {
            // One with another uid is another object: what is held is missing in the list, although its key is not.
            if is_same_object(&**before, &object) {
                self.seen[rank / 64] |= 1 << (rank % 64);
            }
            if !self.rewound && is_same_state(&**before, &object) {
                return;
            }
        }
        self.stage(Staged::Put(Arc::new(object)));
    }

    /// A deletion that was told while the list was under way.
    pub(super) fn remove(&mut self, held: &Tree<Arc<T>>, object: T) {
        let Some(key) = self.key_within(&object) else { return };
        if let (rank, Some(_)) = self.locate(held, &key) {
            self.seen[rank / 64] |= 1 << (rank % 64);
        }
        self.stage(Staged::Gone(Arc::new(object)));
    }

    /// The list told of it before, and it is not there any more.
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

    /// What is held, and neither in the list nor unreadable.
    pub(super) fn missing(
        &self,
        held: &Tree<Arc<T>>,
        unreadable: &[(ObjectKey, ResourceVersion)],
    ) -> Vec<Arc<T>> {
        if self.infers_nothing {
            return Vec::new();
        }
        let unreadable: HashSet<_> = unreadable.iter().map(|(key, _)| key.as_str().as_bytes()).collect();
        let is_seen = |rank: usize| self.seen[rank / 64] >> (rank % 64) & 1 == 1;
        let held = held.walk_from(&self.range.from).take_while(|(key, _)| self.range.has(key)).enumerate();
        let missing = held.filter(|(rank, (key, _))| !is_seen(*rank) && !unreadable.contains(key));
        missing.map(|(_, (_, object))| object.clone()).collect()
    }

    /// The key of an object of this list; what is of another namespace does not belong here.
    fn key_within(&self, object: &T) -> Option<KeyBuffer> {
        let key = usable_key(object)?;
        let is_within = self.range.has(&key);
        if !is_within {
            let header = object.header();
            tracing::warn!(
                name = header.name,
                namespace = header.namespace,
                "not of the namespace that was listed; left out"
            );
        }
        is_within.then_some(key)
    }

    /// How many steps there are.
    pub(super) fn steps(&self) -> usize {
        self.staged.iter().map(Vec::len).sum()
    }

    /// What differs, in the order of the list.
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

/// The key of an object, or `None`, which is told, where it has no usable one.
pub(super) fn usable_key(object: &impl Object) -> Option<KeyBuffer> {
    let header = object.header();
    let key = key_of(header.namespace, header.name);
    if key.is_none() {
        tracing::warn!(
            name = header.name,
            version = header.version,
            "an object without a usable name is left out"
        );
    }
    key
}

/// Whether these are states of one object. Where one of them does not tell its uid, the key has to do.
pub(super) fn is_same_object<T: Object>(one: &T, other: &T) -> bool {
    let (one, other) = (one.header().uid, other.header().uid);
    one == other || one.is_empty() || other.is_empty()
}

/// Whether these are one state of one object. Objects without a version are never known to be.
pub(super) fn is_same_state<T: Object>(one: &T, other: &T) -> bool {
    is_same_object(one, other)
        && !one.header().version.is_empty()
        && one.header().version == other.header().version
}
