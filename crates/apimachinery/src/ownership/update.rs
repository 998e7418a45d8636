//! Ownership after an ordinary write: create, replace, and every patch except apply.
//!
//! The writer becomes the only owner of the fields it changes; other fields keep their owners.

use std::borrow::Cow;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::changes::Changes;
use super::check::{Duplicates, SchemaErrors, check};
use super::field_set::FieldSet;
use super::managed::{Managed, Manager, Operation, Owned, asks_for_reset, entries_of, strip};
use super::views::settle;
use super::{Target, Writer};

/// The fields without an owner, because the server or the path of the request sets them
/// (k8s.io/apimachinery v0.36.4 pkg/util/managedfields/internal/stripmeta.go).
const STRIPPED_FIELDS: [&str; 12] = [
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

static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(STRIPPED_FIELDS));

/// Updates the `managedFields` of `new` for a write that turns `live` into it. Without `live` it is
/// a creation.
///
/// Both are objects of the target's version, decoded and defaulted: the fields that a built-in kind
/// always shows, such as `resources: {}`, are present. `managedFields` in `new` replace those of
/// `live` if they can be decoded, an empty list resets all owners, and an object without owners
/// stays without them until it is applied. Through a subresource, the `managedFields` of `new` are
/// ignored. An object that does not match its schema ends up without `managedFields`.
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

/// Returns the owners after a write by an updater.
pub(super) fn track(
    live: &Value,
    new: &Value,
    mut managed: Managed,
    target: &Target<'_>,
    writer: &Writer<'_>,
) -> Result<Managed, SchemaErrors> {
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
    // Fields that the endpoint does not write are not among the changes.
    let gained = without_stripped(changes.set_here());
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

/// Returns the set without the fields that have no owner.
pub(super) fn without_stripped(set: &FieldSet) -> FieldSet {
    set.difference(&STRIPPED)
}

pub(super) fn manager_of(writer: &Writer<'_>, operation: Operation, target: &Target<'_>) -> Manager {
    let name = if writer.manager.is_empty() { "unknown" } else { writer.manager };
    Manager::new(name.to_owned(), operation, target.api_version, writer.subresource.to_owned())
}

/// Formats the time as entries hold it.
pub(super) fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Returns an object of the target's kind without any content.
pub(super) fn nothing(target: &Target<'_>) -> Value {
    let mut object = target.empty.clone();
    if !object.is_object() {
        object = json!({});
    }
    object["apiVersion"] = json!(target.api_version);
    object["kind"] = json!(target.kind);
    object
}
