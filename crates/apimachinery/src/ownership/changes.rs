//! The changes of a write in each version that has owners, and the fields that owners lose by it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Target;
use super::check::SchemaErrors;
use super::compare::{Comparison, compare};
use super::field_set::FieldSet;
use super::managed::{Managed, Manager};
use super::views::view;

/// The difference of two objects, by version; without versions that do not exist any more.
pub(super) struct Changes {
    by_version: BTreeMap<String, Difference>,
    /// The version that is written.
    here: String,
}

/// The difference of two objects, limited to the fields that an endpoint writes.
struct Difference {
    /// Fields that have another value, or are new.
    set: FieldSet,
    /// Fields that were removed.
    removed: FieldSet,
}

impl Difference {
    fn of(found: Comparison, target: &Target<'_>) -> Self {
        let Comparison { added, modified, removed } = found;
        Self { set: target.reset.filter(modified.joined(added)), removed: target.reset.filter(removed) }
    }
}

impl Changes {
    /// Compares both objects in the target's version and in those of all entries.
    pub(super) fn between(
        old: &Value,
        new: &Value,
        target: &Target<'_>,
        managed: &Managed,
    ) -> Result<Self, SchemaErrors> {
        let found = compare(old, new, target.schema, target.definitions);
        let here = target.api_version.to_owned();
        let mut by_version = BTreeMap::from([(here.clone(), Difference::of(found, target))]);
        for owned in managed.sets.values() {
            let version = &owned.api_version;
            if by_version.contains_key(version) {
                continue;
            }
            let old = view(old, version, target).map_err(|why| why.within("failed to convert old object"))?;
            let new = view(new, version, target).map_err(|why| why.within("failed to convert new object"))?;
            let (Some((old, schema)), Some((new, _))) = (old, new) else { continue };
            let found = compare(&old, &new, &schema, target.definitions);
            by_version.insert(version.clone(), Difference::of(found, target));
        }
        Ok(Self { by_version, here })
    }

    /// Returns the fields that are set, in the version that is written.
    pub(super) fn set_here(&self) -> &FieldSet {
        const NOTHING: &FieldSet = &FieldSet::new();
        self.by_version.get(&self.here).map_or(NOTHING, |it| &it.set)
    }

    /// Returns the fields with a new value that each manager other than `me` owns.
    pub(super) fn conflicts(&self, managed: &Managed, me: &Manager) -> BTreeMap<Manager, FieldSet> {
        let others = managed.sets.iter().filter(|(manager, _)| *manager != me);
        let lost = others.filter_map(|(manager, owned)| {
            let lost = owned.fields.intersection(&self.by_version.get(&owned.api_version)?.set);
            (!lost.is_empty()).then(|| (manager.clone(), lost))
        });
        lost.collect()
    }

    /// Takes the fields that were set or removed from all managers except `me`, and removes
    /// managers without any left.
    pub(super) fn take_from_others(&self, managed: &mut Managed, me: Option<&Manager>) {
        managed.sets.retain(|manager, owned| {
            if Some(manager) != me {
                let Some(Difference { set, removed }) = self.by_version.get(&owned.api_version) else {
                    return false;
                };
                owned.fields = owned.fields.difference(set).difference(removed);
            }
            !owned.fields.is_empty()
        });
    }
}
