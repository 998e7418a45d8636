//! One state of the store: its objects, its indexes and its version, and how one object changes all three.
//!
//! A published state never changes; the writer edits a clone, which shares everything that stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};

use super::keys::KeyBuffer;
use super::postings::Postings;
use super::tree::Tree;
use crate::index::{Index, IndexError, NAMESPACE_INDEX, Values};

#[derive(Debug)]
pub(super) struct State<T> {
    /// Every object at its key, which is the text of its [`ObjectKey`]: so the objects of one namespace are neighbours.
    pub(super) objects: Tree<Arc<T>>,
    pub(super) indexes: Vec<Indexed<T>>,
    /// Unset until the first list is whole.
    pub(super) version: ResourceVersion,
    /// The version of each namespace, behind the prefix of its keys, where several are written each by itself; empty where
    /// all keys are written as one.
    pub(super) parts: Arc<[(KeyBuffer, ResourceVersion)]>,
    /// Whether a list was whole once.
    pub(super) synced: bool,
    /// Whether the writer is gone.
    pub(super) closed: bool,
    /// How often an index function panicked.
    pub(super) index_panics: u64,
    /// The objects whose newest state could not be decoded, by key, with its version; unset where only a list had it.
    pub(super) unreadable: Arc<BTreeMap<ObjectKey, ResourceVersion>>,
}

/// An index and what it holds.
#[derive(Debug)]
pub(super) struct Indexed<T> {
    pub(super) index: Arc<Index<T>>,
    pub(super) postings: Postings,
}

/// The key of an object as the tree has it, or `None` where its name is not usable.
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

/// The key as a value of its own.
pub(super) fn object_key(key: &[u8]) -> ObjectKey {
    let key = str::from_utf8(key).expect("keys are put together from text");
    key.parse().expect("only usable keys are inserted")
}

impl<T: Object> State<T> {
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

    /// Adds an index and finds every object by it.
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

    /// Sets the object at a key, and returns the one before.
    pub(super) fn put(&mut self, key: &[u8], object: &Arc<T>) -> Option<Arc<T>> {
        let before = self.objects.insert(key, object.clone());
        self.reindex(key, before.as_deref(), Some(object));
        before
    }

    /// Removes the object at a key.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<Arc<T>> {
        let before = self.objects.remove(key);
        self.reindex(key, before.as_deref(), None);
        before
    }

    /// Takes note of whether the newest state of an object could be decoded; whether that is news.
    pub(super) fn set_unreadable(&mut self, key: &ObjectKey, version: Option<ResourceVersion>) -> bool {
        match version {
            Some(version) => {
                Arc::make_mut(&mut self.unreadable).insert(key.clone(), version);
                true
            }
            None => {
                self.unreadable.contains_key(key) && Arc::make_mut(&mut self.unreadable).remove(key).is_some()
            }
        }
    }

    fn reindex(&mut self, key: &[u8], before: Option<&T>, after: Option<&T>) {
        for Indexed { index, postings } in &mut self.indexes {
            // A panic about the state before was told when that state came.
            let old = before.and_then(|it| index.values(it)).unwrap_or_default();
            let new = after.map(|it| values_of(index, it, key, &mut self.index_panics)).unwrap_or_default();
            if old == new {
                continue;
            }
            old.iter().filter(|it| !new.contains(it)).for_each(|it| postings.remove(it, key));
            new.iter().filter(|it| !old.contains(it)).for_each(|it| postings.insert(it, key));
        }
    }
}

/// The values of an object; where the function panicked, none, and that is told.
fn values_of<T: Object>(index: &Index<T>, object: &T, key: &[u8], panics: &mut u64) -> Values {
    index.values(object).unwrap_or_else(|| {
        *panics += 1;
        let key = String::from_utf8_lossy(key);
        tracing::error!(index = index.name(), %key, "an index function panicked; the index does not find the object");
        Values::new()
    })
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            objects: Tree::default(),
            indexes: Vec::new(),
            version: ResourceVersion::UNSET,
            parts: Arc::default(),
            synced: false,
            closed: false,
            index_panics: 0,
            unreadable: Arc::default(),
        }
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            indexes: self.indexes.clone(),
            version: self.version.clone(),
            parts: Arc::clone(&self.parts),
            synced: self.synced,
            closed: self.closed,
            index_panics: self.index_panics,
            unreadable: Arc::clone(&self.unreadable),
        }
    }
}

impl<T> Clone for Indexed<T> {
    fn clone(&self) -> Self {
        Self { index: self.index.clone(), postings: self.postings.clone() }
    }
}
