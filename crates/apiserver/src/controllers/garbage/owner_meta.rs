//! The metadata that the collector reads of an object: its owners, its finalizers, and its
//! deletion.

use serde::Deserialize;

use crate::store::Encoded;

/// The finalizer that keeps an object until its blocking dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an object until its dependents no longer refer to it.
pub(super) const ORPHAN: &str = "orphan";

/// The part of an object's metadata that is about owners and deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerMeta {
    pub(super) owners: Vec<OwnerRef>,
    /// True if it is being deleted.
    pub(super) deleting: bool,
    /// True if it has the foreground finalizer, whether or not it is being deleted.
    pub(super) foreground: bool,
    /// True if it has the orphan finalizer, whether or not it is being deleted.
    pub(super) orphan: bool,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerRef {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    block_owner_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    owner_references: Option<Vec<OwnerRef>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

impl OwnerMeta {
    pub(super) fn read(stored: &Encoded) -> Self {
        if stored.is_tied() { Self::from_json(stored.json()) } else { Self::default() }
    }

    /// Reads the metadata from JSON. An object that cannot be decoded has no owners, so that
    /// nothing is deleted because of it.
    pub(super) fn from_json(json: &[u8]) -> Self {
        let Object { metadata } = serde_json::from_slice(json).unwrap_or_default();
        let finalizers = metadata.finalizers.unwrap_or_default();
        Self {
            owners: metadata.owner_references.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            foreground: finalizers.iter().any(|it| it == FOREGROUND),
            orphan: finalizers.iter().any(|it| it == ORPHAN),
        }
    }

    /// Returns true if it is being deleted and waits for its dependents.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.foreground
    }

    /// Returns true if it is being deleted and orphans its dependents.
    pub(super) fn orphans_dependents(&self) -> bool {
        self.deleting && self.orphan
    }
}

impl OwnerRef {
    /// Returns true if the owner has to wait for this dependent in a foreground deletion.
    pub(super) fn blocks(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }

    #[cfg(test)]
    pub(super) fn to(uid: &str, blocks: bool) -> Self {
        Self { uid: uid.to_owned(), block_owner_deletion: Some(blocks), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_finalizers_and_deletion_are_read_from_partial_objects() {
        let meta = OwnerMeta::from_json(
            br#"{"kind":"Pod","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x",
                "uid":"u","blockOwnerDeletion":true,"controller":true},{"uid":"w"}],"finalizers":["orphan"],
                "deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[]}}"#,
        );
        assert_eq!(
            meta.owners.iter().map(|it| (it.uid.as_str(), it.blocks())).collect::<Vec<_>>(),
            [("u", true), ("w", false)]
        );
        assert!(meta.orphans_dependents() && !meta.waits_for_dependents());
        for nothing in [&b"{}"[..], br#"{"metadata":{"ownerReferences":null,"finalizers":null}}"#, b"5"] {
            assert_eq!(OwnerMeta::from_json(nothing), OwnerMeta::default());
        }
    }
}
