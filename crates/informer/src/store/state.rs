//! One state of the store: its objects, indexes and version, and the edits that keep them
//! consistent.
//!
//! A published state never changes; the writer edits a clone, which shares everything that stays
//! the same.

use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};

use super::keys::KeyBuffer;
use super::postings::Postings;
use super::tree::Tree;
use crate::index::{Index, IndexError, NAMESPACE_INDEX, Values};

pub(super) struct StoreState<T> {
    /// Every object by the text of its [`ObjectKey`], so the objects of one namespace are
    /// contiguous.
    pub(super) objects: Tree<Arc<T>>,
    pub(super) indexes: Vec<Indexed<T>>,
    /// Unset until the initial list is complete.
    pub(super) version: ResourceVersion,
    /// The number of rewinds before the lists that are shown, over all partitions.
    pub(super) rewinds: u64,
    /// The progress of each namespace, if several namespaces are written separately. Empty if all
    /// keys are written together.
    pub(super) parts: Arc<[Part]>,
    /// Set once an initial list was complete.
    pub(super) synced: bool,
    /// Set when the writer was dropped.
    pub(super) closed: bool,
    /// The number of times an index function panicked.
    pub(super) index_panics: u64,
    /// The objects whose newest state could not be decoded, by key, with the version of that state.
    /// The version is unset if the list did not give one.
    pub(super) undecodable: Tree<ResourceVersion>,
    /// The memory of all objects in bytes; `None` if it is not known.
    pub(super) memory: Option<usize>,
    /// Returns the memory of an object, if it does not know it itself.
    pub(super) measure: Option<Measure<T>>,
}

/// Returns the memory that an object takes, in bytes.
pub(crate) type Measure<T> = Arc<dyn Fn(&T) -> usize + Send + Sync>;

/// The progress of a namespace that is written separately.
#[derive(Debug)]
pub(super) struct Part {
    /// The prefix of its keys.
    pub(super) prefix: KeyBuffer,
    pub(super) version: ResourceVersion,
    /// The number of rewinds before the list that is shown.
    pub(super) rewinds: u64,
}

/// An index and its entries.
#[derive(Debug)]
pub(super) struct Indexed<T> {
    pub(super) index: Arc<Index<T>>,
    pub(super) postings: Postings,
}

/// Returns the key of an object as the tree stores it, or `None` if the name is not usable.
pub(super) fn key_of(namespace: Option<&str>, name: &str) -> Option<KeyBuffer> {
    let mut key = KeyBuffer::new();
    if let Some(namespace) = namespace.filter(|it| !it.is_empty()) {
        if namespace.contains('/') {
            return None;
        }
        key.extend_from_slice(namespace.as_bytes());
        key.push(b'/');
    }
    key.extend_from_slice(name.as_bytes());
    (!name.is_empty() && !name.contains('/')).then_some(key)
}

/// Converts a key of the tree into an owned key.
pub(super) fn object_key(key: &[u8]) -> ObjectKey {
    let key = str::from_utf8(key).expect("keys are built from strings");
    key.parse().expect("only usable keys are inserted")
}

impl<T: Object> StoreState<T> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.objects.get(key.as_str().as_bytes())
    }

    pub(super) fn get_named(&self, namespace: Option<&str>, name: &str) -> Option<&Arc<T>> {
        self.objects.get(&key_of(namespace, name)?)
    }

    pub(super) fn index(&self, name: &str) -> Result<&Indexed<T>, IndexError> {
        let found = self.indexes.iter().find(|it| it.index.name() == name);
        found.ok_or_else(|| IndexError::Unknown(name.to_owned()))
    }

    /// Adds an index and fills it with every object.
    pub(super) fn add_index(&mut self, index: Index<T>) -> Result<(), IndexError> {
        if index.name() == NAMESPACE_INDEX || self.index(index.name()).is_ok() {
            return Err(IndexError::Taken(index.name().to_owned()));
        }
        let mut postings = Postings::default();
        for (key, object) in self.objects.walk() {
            let values = values_of(&index, object, key, &mut self.index_panics);
            values.iter().for_each(|value| postings.insert(value, key));
        }
        self.indexes.push(Indexed { index: Arc::new(index), postings });
        Ok(())
    }

    pub(super) fn remove_index(&mut self, name: &str) -> Result<(), IndexError> {
        self.index(name)?;
        self.indexes.retain(|it| it.index.name() != name);
        Ok(())
    }

    /// Sets the object at a key, and returns the previous one.
    pub(super) fn put(&mut self, key: &[u8], object: &Arc<T>) -> Option<Arc<T>> {
        let before = self.objects.insert(key, object.clone());
        self.count_memory(before.as_deref(), Some(object));
        self.reindex(key, before.as_deref(), Some(object));
        before
    }

    /// Removes the object at a key.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<Arc<T>> {
        let before = self.objects.remove(key);
        self.count_memory(before.as_deref(), None);
        self.reindex(key, before.as_deref(), None);
        before
    }

    /// Records whether the newest state of an object could not be decoded (`Some`) or was decoded
    /// (`None`). Returns true if that changes anything.
    pub(super) fn set_unreadable(&mut self, key: &[u8], version: Option<ResourceVersion>) -> bool {
        match version {
            Some(version) => {
                let changes = self.undecodable.get(key) != Some(&version);
                if changes {
                    self.undecodable.insert(key, version);
                }
                changes
            }
            None => self.undecodable.remove(key).is_some(),
        }
    }

    /// Counts the memory of an object that takes the place of another.
    fn count_memory(&mut self, before: Option<&T>, after: Option<&T>) {
        let memory = |object: &T| match &self.measure {
            Some(measure) => Some(measure(object)),
            None => object.memory(),
        };
        let (freed, taken) = (before.and_then(memory), after.and_then(memory));
        if freed.is_some() || taken.is_some() {
            let total = self.memory.unwrap_or_default().saturating_sub(freed.unwrap_or_default());
            self.memory = Some(total.saturating_add(taken.unwrap_or_default()));
        }
    }

    fn reindex(&mut self, key: &[u8], before: Option<&T>, after: Option<&T>) {
        for Indexed { index, postings } in &mut self.indexes {
            // A panic on the old state was already reported when that state arrived.
            let old = before.and_then(|it| index.values(it)).unwrap_or_default();
            let new = after.map(|it| values_of(index, it, key, &mut self.index_panics)).unwrap_or_default();
            if old == new {
                continue;
            }
            difference(&old, &new).for_each(|it| postings.remove(it, key));
            difference(&new, &old).for_each(|it| postings.insert(it, key));
        }
    }
}

/// Returns the values that are in the first list and not in the second. Both are sorted and without
/// duplicates.
fn difference<'v, V: Ord>(values: &'v [V], others: &'v [V]) -> impl Iterator<Item = &'v V> {
    let mut others = others.iter().peekable();
    values.iter().filter(move |it| {
        while others.next_if(|other| other < it).is_some() {}
        others.next_if_eq(it).is_none()
    })
}

/// Returns the values of an object. If the index function panics, logs and counts that and returns
/// none.
fn values_of<T: Object>(index: &Index<T>, object: &T, key: &[u8], panics: &mut u64) -> Values {
    index.values(object).unwrap_or_else(|| {
        *panics += 1;
        let key = String::from_utf8_lossy(key);
        tracing::error!(index = index.name(), %key, "an index function panicked; the object is missing from the index");
        Values::new()
    })
}

impl<T> Default for StoreState<T> {
    fn default() -> Self {
        Self {
            objects: Tree::default(),
            indexes: Vec::new(),
            version: ResourceVersion::UNSET,
            rewinds: 0,
            parts: Arc::default(),
            synced: false,
            closed: false,
            index_panics: 0,
            undecodable: Tree::default(),
            memory: None,
            measure: None,
        }
    }
}

impl<T> Clone for StoreState<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            indexes: self.indexes.clone(),
            version: self.version.clone(),
            rewinds: self.rewinds,
            parts: Arc::clone(&self.parts),
            synced: self.synced,
            closed: self.closed,
            index_panics: self.index_panics,
            undecodable: self.undecodable.clone(),
            memory: self.memory,
            measure: self.measure.clone(),
        }
    }
}

impl<T> Clone for Indexed<T> {
    fn clone(&self) -> Self {
        Self { index: self.index.clone(), postings: self.postings.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A value that counts its comparisons.
    #[derive(Clone, Copy, Debug)]
    struct Counted<'c>(u32, &'c Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted<'_> {}

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    proptest! {
        #[test]
        fn the_difference_is_that_of_sets_and_compares_each_value_a_few_times(
            values in prop::collection::btree_set(0u32..400, 0..200),
            others in prop::collection::btree_set(0u32..400, 0..200),
        ) {
            let count = Cell::new(0);
            let list = |of: &BTreeSet<u32>| of.iter().map(|it| Counted(*it, &count)).collect::<Vec<_>>();
            let (left, right) = (list(&values), list(&others));
            let found: Vec<_> = difference(&left, &right).map(|it| it.0).collect();
            prop_assert_eq!(found, values.difference(&others).copied().collect::<Vec<_>>());
            prop_assert!(count.get() <= 2 * (left.len() + right.len()), "{} comparisons", count.get());
        }
    }
}
