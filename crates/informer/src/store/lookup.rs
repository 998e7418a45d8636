//! Reading a state by namespace and by index.
//!
//! There is no separate index by namespace: the keys of one namespace are contiguous in the tree of
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey};

use super::keys::KeyBuffer;
use super::state::{StoreState, object_key};
use crate::index::{IndexError, NAMESPACE_INDEX};

/// A contiguous range of keys.
#[derive(Clone, Debug)]
pub(super) struct KeyRange {
    /// The inclusive lower bound.
    pub(super) from: KeyBuffer,
    /// The exclusive upper bound; `None` is the end of all keys.
    pub(super) to: Option<KeyBuffer>,
}

/// A key after all keys: this byte never occurs in UTF-8.
const END: &[u8] = &[0xFF];

const SLASH: u8 = b'/';

impl KeyRange {
    /// Returns the range of one namespace, or of all keys.
    pub(super) fn new(namespace: Option<&str>) -> Self {
        let all = Self { from: KeyBuffer::new(), to: None };
        namespace.map_or(all, Self::of_namespace)
    }

    /// Returns the range of one namespace.
    pub(super) fn of_namespace(namespace: &str) -> Self {
        let bound = |last: u8| {
            let mut bound = KeyBuffer::from_slice(namespace.as_bytes());
            bound.push(last);
            bound
        };
        Self { from: bound(SLASH), to: Some(bound(SLASH + 1)) }
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_ref().is_none_or(|to| *key < **to)
    }
}

impl<T: Object> StoreState<T> {
    /// Returns the objects of a range, in as few slices as possible.
    #[inline]
    pub(super) fn slices<'s>(&'s self, range: &KeyRange) -> impl Iterator<Item = &'s [Arc<T>]> + use<'s, T> {
        self.objects.slices(&range.from, range.to.as_deref().unwrap_or(END))
    }

    pub(super) fn count(&self, range: &KeyRange) -> usize {
        self.objects.count(&range.from, range.to.as_deref().unwrap_or(END))
    }

    /// Returns the objects of a range.
    pub(super) fn range(&self, range: &KeyRange) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(self.count(range));
        self.slices(range).for_each(|it| objects.extend_from_slice(it));
        objects
    }

    /// Returns the objects with these keys, skipping those that do not exist.
    pub(super) fn fetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<Arc<T>> {
        keys.filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    pub(super) fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        Ok(match (index, value) {
            (NAMESPACE_INDEX, "") => self.fetch(self.cluster_scoped()),
            (NAMESPACE_INDEX, namespace) => self.range(&KeyRange::of_namespace(namespace)),
            _ => self.fetch(self.index(index)?.postings.keys(value, b"", None)),
        })
    }

    pub(super) fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        Ok(match (index, value) {
            (NAMESPACE_INDEX, "") => self.cluster_scoped().map(object_key).collect(),
            (NAMESPACE_INDEX, namespace) => {
                let KeyRange { from, .. } = KeyRange::of_namespace(namespace);
                let keys = self.objects.walk_from(&from).map(|(key, _)| key);
                keys.take_while(|it| it.starts_with(&from)).map(object_key).collect()
            }
            _ => self.index(index)?.postings.keys(value, b"", None).map(object_key).collect(),
        })
    }

    pub(super) fn index_values(&self, index: &str) -> Result<Vec<String>, IndexError> {
        if index == NAMESPACE_INDEX {
            let namespaces = self.first_keys().map(|key| namespace_of(key).unwrap_or_default());
            let namespaces: BTreeSet<_> = namespaces.map(String::from_utf8_lossy).collect();
            return Ok(namespaces.into_iter().map(Into::into).collect());
        }
        Ok(self.index(index)?.postings.values().map(Into::into).collect())
    }

    pub(super) fn sharing(&self, index: &str, object: &T) -> Result<Vec<Arc<T>>, IndexError> {
        if index == NAMESPACE_INDEX {
            return self.by_index(index, object.header().namespace.unwrap_or_default());
        }
        let found = self.index(index)?;
        let values = found.index.values(object).unwrap_or_default();
        let keys: BTreeSet<_> = values.iter().flat_map(|it| found.postings.keys(it, b"", None)).collect();
        Ok(self.fetch(keys.into_iter()))
    }

    fn cluster_scoped(&self) -> impl Iterator<Item = &[u8]> {
        self.first_keys().filter(|key| namespace_of(key).is_none())
    }

    /// Returns the first key of every namespace and every cluster-scoped key, seeking over the
    /// others.
    fn first_keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut walk = self.objects.walk();
        let mut skip: Option<KeyBuffer> = None;
        std::iter::from_fn(move || {
            if let Some(from) = skip.take() {
                walk = self.objects.walk_from(&from);
            }
            let (key, _) = walk.next()?;
            skip = namespace_of(key).map(|it| it.iter().copied().chain([SLASH + 1]).collect());
            Some(key)
        })
    }
}

fn namespace_of(key: &[u8]) -> Option<&[u8]> {
    key.iter().position(|it| *it == SLASH).map(|at| &key[..at])
}
