//! Ownership after an ordinary write: create, replace, and every patch but apply.
//!
//! What a write changes it owns from then on, alone; what it does not change stays with its owners.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::check::{Duplicates, Mistakes, check};
use super::compare::{Comparison, compare};
use super::extract::settled;
use super::field_set::FieldSet;
use super::managed::{Managed, Manager, Operation, Owned, asks_for_reset, entries_of, strip};
use super::{Target, Writer};
use crate::schema::Schema;

/// The fields nobody owns, because the server or the path of the request sets them.
const OWNED_BY_NOBODY: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(OWNED_BY_NOBODY));

/// Brings `managedFields` of `new` up to date with a write that turns `live` into it. Without `live` it is a creation.
///
/// Both are objects of the target's version, decoded and defaulted: the fields a built-in kind always shows, such as
/// `resources: {}`, are there. `managedFields` in `new` replace those of `live` where they can be read, an empty list
/// forgets all owners, and an object without owners stays without them until it is applied. Through a subresource,
/// `managedFields` of `new` do not count. An object that is not of its schema ends without `managedFields`.
pub fn update(live: Option<&Value>, new: &mut Value, target: &Target<'_>, writer: &Writer<'_>) {
    let was = live.unwrap_or(target.empty);
    let managed = owners(was, new, !writer.subresource.is_empty());
    strip(new);
    let uid = was.get("metadata").and_then(|metadata| metadata.get("uid"));
    if managed.sets.is_empty() && uid.is_some_and(|uid| uid != "") {
        return;
    }
    if let Ok(mut managed) = track(was, new, managed, target, writer) {
        managed.cap();
        managed.write(new);
    }
}

fn owners(live: &Value, new: &Value, by_subresource: bool) -> Managed {
    if !by_subresource {
        if asks_for_reset(new) {
            return Managed::default();
        }
        if let Ok(managed) = Managed::of(new)
            && !managed.sets.is_empty()
        {
            return managed;
        }
    }
    Managed::of(live).unwrap_or_default()
}

/// The owners after a write by an updater.
pub(super) fn track(
    live: &Value,
    new: &Value,
    mut managed: Managed,
    target: &Target<'_>,
    writer: &Writer<'_>,
) -> Result<Managed, Mistakes> {
    let mut live = Cow::Borrowed(live);
    if entries_of(&live).is_some() {
        strip(live.to_mut());
    }
    for object in [new, &live] {
        check(object, target.schema, target.definitions, Duplicates::Allowed)?;
    }
    settle(&live, &mut managed, target)?;
    let changes = Changes::between(&live, new, target, &managed)?;
    changes.take_from_others(&mut managed, None);
    // What the endpoint does not write is not among the changes.
    let gained = without_nobodys(&changes.here.set);
    if gained.is_empty() {
        return Ok(managed);
    }
    let manager = manager_of(writer, Operation::Update, target);
    let api_version = target.api_version.to_owned();
    let fields = match managed.sets.remove(&manager) {
        Some(before) => before.fields.joined(gained),
        None => gained,
    };
    managed.sets.insert(manager.clone(), Owned { fields, api_version });
    managed.times.insert(manager, stamp(writer.now));
    Ok(managed)
}

/// The difference of two objects, in each version somebody wrote.
pub(super) struct Changes {
    /// The version that is written.
    version: String,
    /// The difference in it.
    here: Difference,
    /// By version, for the others; those that are gone are not there.
    elsewhere: BTreeMap<String, Difference>,
}

/// The difference of two objects, as far as an endpoint writes it.
struct Difference {
    /// Fields that have another value, or have one at last.
    set: FieldSet,
    /// Fields that are no longer there.
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
    ) -> Result<Self, Mistakes> {
        let here = Difference::of(compare(old, new, target.schema, target.definitions), target);
        let mut changes = Self { version: target.api_version.to_owned(), here, elsewhere: BTreeMap::new() };
        for owned in managed.sets.values() {
            if changes.in_version(&owned.api_version).is_some() {
                continue;
            }
            let failed = |which: &'static str| {
                move |why: Mistakes| why.within(&format!("failed to convert {which} object"))
            };
            let Some((old, schema)) = view(old, &owned.api_version, target).map_err(failed("old"))? else {
                continue;
            };
            let Some((new, _)) = view(new, &owned.api_version, target).map_err(failed("new"))? else {
                continue;
            };
            let there = Difference::of(compare(&old, &new, &schema, target.definitions), target);
            changes.elsewhere.insert(owned.api_version.clone(), there);
        }
        Ok(changes)
    }

    fn in_version(&self, version: &str) -> Option<&Difference> {
        if version == self.version { Some(&self.here) } else { self.elsewhere.get(version) }
    }

    /// The fields each manager but `me` owns that were given another value.
    pub(super) fn conflicts(&self, managed: &Managed, me: &Manager) -> BTreeMap<Manager, FieldSet> {
        let mut conflicts = BTreeMap::new();
        for (manager, owned) in managed.sets.iter().filter(|(manager, _)| *manager != me) {
            let Some(difference) = self.in_version(&owned.api_version) else { continue };
            let lost = owned.fields.intersection(&difference.set);
            if !lost.is_empty() {
                conflicts.insert(manager.clone(), lost);
            }
        }
        conflicts
    }

    /// Takes what was changed or removed from all managers but `me`; those left with nothing go.
    pub(super) fn take_from_others(&self, managed: &mut Managed, me: Option<&Manager>) {
        managed.sets.retain(|manager, owned| {
            if Some(manager) != me {
                let Some(Difference { set, removed }) = self.in_version(&owned.api_version) else {
                    return false;
                };
                owned.fields = owned.fields.difference(set).difference(removed);
            }
            !owned.fields.is_empty()
        });
    }
}

/// The object as another version shows it; `None` where the version is gone. A version that does not know all fields of
/// the object cannot show it.
pub(super) fn view(
    object: &Value,
    api_version: &str,
    target: &Target<'_>,
) -> Result<Option<(Value, Schema)>, Mistakes> {
    if api_version == target.api_version && object.get("apiVersion").is_none_or(|it| it == api_version) {
        return Ok(Some((object.clone(), target.schema.clone())));
    }
    let Some((object, schema)) = target.versions.convert(object, api_version) else { return Ok(None) };
    check(&object, &schema, target.definitions, Duplicates::Refused)?;
    Ok(Some((object, schema)))
}

/// Reads all sets by the schemas of today; entries of versions that are gone go too.
pub(super) fn settle(live: &Value, managed: &mut Managed, target: &Target<'_>) -> Result<(), Mistakes> {
    let versions: BTreeSet<String> = managed.sets.values().map(|owned| owned.api_version.clone()).collect();
    for version in versions {
        let schema = if version == target.api_version {
            Some(target.schema.clone())
        } else {
            view(live, &version, target)?.map(|(_, schema)| schema)
        };
        managed.sets.retain(|_, owned| {
            if owned.api_version != version {
                return true;
            }
            let Some(schema) = &schema else { return false };
            owned.fields = settled(&owned.fields, schema, target.definitions);
            true
        });
    }
    Ok(())
}

/// The set without the fields nobody owns.
pub(super) fn without_nobodys(set: &FieldSet) -> FieldSet {
    set.difference(&NOBODYS)
}

pub(super) fn manager_of(writer: &Writer<'_>, operation: Operation, target: &Target<'_>) -> Manager {
    let name = if writer.manager.is_empty() { "unknown" } else { writer.manager };
    Manager::new(name.to_owned(), operation, target.api_version, writer.subresource.to_owned())
}

/// The time as entries hold it.
pub(super) fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// An object of the target's kind in which nothing is said.
pub(super) fn nothing(target: &Target<'_>) -> Value {
    let mut object = target.empty.clone();
    if !object.is_object() {
        object = json!({});
    }
    object["apiVersion"] = json!(target.api_version);
    object["kind"] = json!(target.kind);
    object
}
