//! The metadata that the collector reads of an object: its owners, its finalizers, and its
//! deletion.

use std::sync::Arc;

use dogwatch_core::{Header, Labels, Object};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The name of the collector, for logs, metrics and health checks.
pub(in crate::manager) const NAME: &str = "garbage-collector";
/// The finalizer that keeps an object until its blocking dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an object until its dependents no longer refer to it.
pub(super) const ORPHAN: &str = "orphan";

/// The uid of an object, unique over time.
pub(super) type Uid = Arc<str>;

/// An object as the caches hold it. There is one for each object of the cluster, so it has only
/// what the collector needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracked {
    name: Box<str>,
    /// Empty for cluster-scoped objects.
    namespace: Box<str>,
    pub(super) uid: Uid,
    version: Box<str>,
    pub(super) meta: OwnerMeta,
}

/// An object as the server has it now, with everything that a change of its owners or finalizers
/// has to keep.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Live {
    metadata: LiveMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LiveMeta {
    uid: String,
    resource_version: String,
    owner_references: Option<Vec<Value>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

/// The part of an object's metadata that is about owners and deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerMeta {
    pub(super) owners: Box<[OwnerRef]>,
    /// True if it is being deleted.
    pub(super) deleting: bool,
    /// True if it has the foreground finalizer, whether or not it is being deleted.
    pub(super) foreground: bool,
    /// True if it has the orphan finalizer, whether or not it is being deleted.
    pub(super) orphan: bool,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerRef {
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
    /// True if the owner has to wait for this dependent in a foreground deletion.
    pub(super) blocks: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawObject {
    metadata: RawMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    name: Option<Box<str>>,
    namespace: Option<Box<str>>,
    uid: Option<String>,
    resource_version: Option<Box<str>>,
    owner_references: Option<Vec<RawOwner>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawOwner {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: String,
    block_owner_deletion: Option<bool>,
}

impl From<RawOwner> for OwnerRef {
    fn from(raw: RawOwner) -> Self {
        let RawOwner { api_version, kind, name, uid, block_owner_deletion } = raw;
        Self { api_version, kind, name, uid: uid.into(), blocks: block_owner_deletion == Some(true) }
    }
}

impl<'de> Deserialize<'de> for Tracked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawObject { metadata: raw } = RawObject::deserialize(deserializer)?;
        let finalizers = raw.finalizers.unwrap_or_default();
        Ok(Self {
            name: raw.name.unwrap_or_default(),
            namespace: raw.namespace.unwrap_or_default(),
            uid: raw.uid.unwrap_or_default().into(),
            version: raw.resource_version.unwrap_or_default(),
            meta: OwnerMeta {
                owners: raw.owner_references.into_iter().flatten().map(OwnerRef::from).collect(),
                deleting: raw.deletion_timestamp.is_some(),
                foreground: finalizers.iter().any(|it| it == FOREGROUND),
                orphan: finalizers.iter().any(|it| it == ORPHAN),
            },
        })
    }
}

impl Object for Tracked {
    fn header(&self) -> Header<'_> {
        Header {
            name: &self.name,
            namespace: Some(&*self.namespace).filter(|it| !it.is_empty()),
            uid: &self.uid,
            version: &self.version,
            labels: Labels::EMPTY,
        }
    }
}

impl Tracked {
    /// Returns the revision of the object, if the server counts revisions.
    pub(super) fn revision(&self) -> Option<u64> {
        self.version.parse().ok()
    }

    pub(super) fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }

    #[cfg(test)]
    pub(super) fn test(uid: &str, version: u64, meta: OwnerMeta) -> Arc<Self> {
        let version = version.to_string().into();
        Arc::new(Self { name: uid.into(), namespace: "".into(), uid: uid.into(), version, meta })
    }
}

impl Live {
    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(super) fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// Returns the references to owners, with all their fields.
    pub(super) fn owners(&self) -> &[Value] {
        self.metadata.owner_references.as_deref().unwrap_or_default()
    }

    pub(super) fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    /// Returns the part that decisions depend on. A reference that cannot be decoded is none, so
    /// that nothing is deleted because of it.
    pub(super) fn meta(&self) -> OwnerMeta {
        let has = |finalizer: &str| self.finalizers().iter().any(|it| it == finalizer);
        let owners = self.owners().iter().filter_map(|it| RawOwner::deserialize(it).ok());
        OwnerMeta {
            owners: owners.map(OwnerRef::from).collect(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
        }
    }
}

impl OwnerMeta {
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
    /// Returns the API group of the owner; empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    #[cfg(test)]
    pub(super) fn to(uid: &str, blocks: bool) -> Self {
        Self { uid: uid.into(), blocks, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_finalizers_and_deletion_are_read_from_partial_objects() {
        let object = json!({ "kind": "Pod", "metadata": { "name": "a", "namespace": "n", "uid": "x",
            "resourceVersion": "7", "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "X", "name": "x",
                "uid": "u", "blockOwnerDeletion": true, "controller": true }, { "uid": "w" }],
            "finalizers": ["orphan"], "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "containers": [] } });
        let tracked = Tracked::deserialize(&object).unwrap();
        let owners: Vec<_> = tracked.meta.owners.iter().map(|it| (&*it.uid, it.group(), it.blocks)).collect();
        assert_eq!(owners, [("u", "apps", true), ("w", "", false)]);
        assert!(tracked.meta.orphans_dependents() && !tracked.meta.waits_for_dependents());
        assert_eq!((tracked.key().map(String::from).as_deref(), tracked.revision()), (Some("n/a"), Some(7)));
        let live = Live::deserialize(&object).unwrap();
        assert_eq!(live.meta(), tracked.meta);
        assert_eq!((live.uid(), live.version(), live.owners().len()), ("x", "7", 2));
        for nothing in [json!({}), json!({ "metadata": { "ownerReferences": null, "finalizers": null } })] {
            assert_eq!(Tracked::deserialize(&nothing).unwrap().meta, OwnerMeta::default());
            assert_eq!(Live::deserialize(&nothing).unwrap().meta(), OwnerMeta::default());
        }
    }
}
