//! The kinds whose definition was deleted after all their objects: the server cannot be asked for
//! them any more.

use std::collections::BTreeMap;

use super::tracked::OwnerRef;

/// The maximum number of deleted kinds that are remembered.
const MAX_DELETED_KINDS: usize = 1_000;

/// The kinds whose definition was deleted, by group and kind.
#[derive(Debug, Default)]
pub(super) struct DeletedKinds {
    kinds: BTreeMap<(String, String), DeletedKind>,
}

/// A kind whose definition was deleted.
#[derive(Debug)]
struct DeletedKind {
    namespaced: bool,
    /// The revision of the deletion.
    revision: u64,
}

impl DeletedKinds {
    /// Records that a definition was deleted.
    pub(super) fn insert(&mut self, group: &str, kind: &str, namespaced: bool, revision: u64) {
        self.kinds.insert((group.to_owned(), kind.to_owned()), DeletedKind { namespaced, revision });
        if self.kinds.len() > MAX_DELETED_KINDS {
            let oldest = self.kinds.iter().min_by_key(|(_, it)| it.revision).map(|(name, _)| name.clone());
            oldest.and_then(|it| self.kinds.remove(&it));
        }
    }

    /// Records that there is a definition of a kind again.
    pub(super) fn remove(&mut self, group: &str, kind: &str) {
        self.kinds.remove(&(group.to_owned(), kind.to_owned()));
    }

    /// Returns true if the deletion of the definition of a kind was observed.
    pub(super) fn contains(&self, group: &str, kind: &str) -> bool {
        self.kinds.contains_key(&(group.to_owned(), kind.to_owned()))
    }

    /// Returns `None` unless an owner is gone with its kind, and true if it was in a namespace.
    ///
    /// `since` is the revision of the reference: one that was written after the definition was
    /// deleted may name an object of another definition of the kind. Both are revisions of one
    /// storage, which counts the writes of all kinds; a server with several, or whose versions are
    /// not numbers, deletes such dependents later or not at all.
    pub(super) fn has(&self, owner: &OwnerRef, since: Option<u64>) -> Option<bool> {
        let deleted = self.kinds.get(&(owner.group().to_owned(), owner.kind.to_string()))?;
        (since? < deleted.revision).then_some(deleted.namespaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, kind: &str) -> OwnerRef {
        OwnerRef { api_version: api_version.into(), kind: kind.into(), ..OwnerRef::default() }
    }

    #[test]
    fn owners_are_gone_with_their_kind_if_they_were_named_before() {
        let mut deleted = DeletedKinds::default();
        deleted.insert("e.test", "A", false, 7);
        for (owner, since, expected) in [
            (owner("e.test/v1", "A"), Some(6), Some(false)),
            (owner("e.test/v2", "A"), Some(6), Some(false)),
            (owner("e.test/v1", "A"), Some(8), None),
            (owner("e.test/v1", "A"), None, None),
            (owner("e.test/v1", "B"), Some(6), None),
            (owner("v1", "A"), Some(6), None),
        ] {
            assert_eq!(deleted.has(&owner, since), expected, "{owner:?} {since:?}");
        }
    }

    #[test]
    fn the_oldest_deletions_are_forgotten() {
        let mut deleted = DeletedKinds::default();
        for at in 0..=MAX_DELETED_KINDS as u64 {
            deleted.insert("e.test", &format!("K{at}"), true, 10 + at);
        }
        assert_eq!(deleted.kinds.len(), MAX_DELETED_KINDS);
        assert_eq!(deleted.has(&owner("e.test/v1", "K0"), Some(1)), None);
        assert_eq!(deleted.has(&owner("e.test/v1", "K1"), Some(1)), Some(true));
    }
}
