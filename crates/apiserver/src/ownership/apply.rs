//! Server-side apply: what a manager states becomes so, what it stated before and no longer does goes.
//!
//! A field another manager owns is only given another value by force. Fields stated by several with one value are
//! shared, and go when the last one drops them.
//!
//! ```text
//! live + applied --merge--> merged --minus what nobody owns any more--> new
//! live .. new --> what changed --> who is in the way, or who loses what
//! ```

use std::collections::BTreeMap;

use dogwatch_core::Reason;
use serde_json::Value;

use super::changes::Changes;
use super::check::{Duplicates, Mistakes, check};
use super::client_side::{KUBECTL, left_as_applied, renew};
use super::dropping::{dropped, without};
use super::element::same;
use super::field_set::FieldSet;
use super::managed::{Managed, Manager, Operation, Owned, strip};
use super::merge::merge;
use super::stated::fields_of;
use super::update::{manager_of, nothing, stamp, track, without_nobodys};
use super::views::{owned_in, settle, view};
use super::{Target, Writer};
use crate::refusal::Refusal;

/// Who owns the fields of objects that were written before anybody applied them.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies an object to a live one, or creates it. The result carries its `managedFields` and is not defaulted yet.
///
/// Refuses another kind or version, `managedFields` in the applied object, fields that are not of the schema, and,
/// unless `force` is given, values for fields that others own with another value. Where nothing changes, the result is
/// the live object; its `managedFields` may still differ, because sharing a field is no change of the object.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    target: &Target<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Refusal> {
    refuse_strangers(applied, target)?;
    let (live, managed) = taken_apart(live, target, writer)?;
    if applied.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    refuse_mistakes(applied, &live, target)?;

    let application = Application {
        live: &live,
        applied,
        target,
        manager: manager_of(writer, Operation::Apply, target),
        force,
        by_kubectl: writer.manager == KUBECTL,
    };
    let (new, mut managed) = application.settle(managed).map_err(|obstacle| match obstacle {
        Obstacle::Conflicts(conflicts) => refusal(conflicts),
        Obstacle::Mistakes(mistakes) => Refusal::unexplained(mistakes.to_string()),
    })?;
    let mut result = new;
    if same(&live, &result) {
        result = live.clone();
    } else {
        managed.times.insert(application.manager, stamp(writer.now));
    }
    if application.by_kubectl {
        renew(&mut result, applied);
    }
    if let Some(metadata) = result.get_mut("metadata").and_then(Value::as_object_mut) {
        // Taking all labels leaves null in their place, which metadata has no room for in any kind.
        metadata.retain(|_, value| !value.is_null());
    }
    managed.write(&mut result);
    Ok(result)
}

/// The live object without its entries, and who owns what of it. One that nobody has owned so far is owned by whoever wrote it
/// before.
fn taken_apart(
    live: Option<&Value>,
    target: &Target<'_>,
    writer: &Writer<'_>,
) -> Result<(Value, Managed), Refusal> {
    let managed = live
        .map_or_else(|| Ok(Managed::default()), Managed::of)
        .map_err(|cause| Refusal::unexplained(format!("failed to decode managed fields: {cause}")))?;
    let mut live = live.cloned().unwrap_or_else(|| nothing(target));
    strip(&mut live);
    if !managed.sets.is_empty() {
        return Ok((live, managed));
    }
    let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
    let managed = track(&nothing(target), &live, managed, target, &before).map_err(|mistakes| {
        Refusal::unexplained(format!("failed to create manager for existing fields: {mistakes}"))
    })?;
    Ok((live, managed))
}

fn refuse_strangers(applied: &Value, target: &Target<'_>) -> Result<(), Refusal> {
    let stated = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    if (stated("apiVersion"), stated("kind")) == (target.api_version, target.kind) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("invalid object type: {}", kind_of(applied))))
}

fn refuse_mistakes(applied: &Value, live: &Value, target: &Target<'_>) -> Result<(), Refusal> {
    check(applied, target.schema, target.definitions, Duplicates::Refused).map_err(|mistakes| {
        let what = described(applied);
        Refusal::unexplained(format!("failed to create typed patch object ({what}): {mistakes}"))
    })?;
    check(live, target.schema, target.definitions, Duplicates::Allowed).map_err(|mistakes| {
        let what = described(live);
        Refusal::unexplained(format!("failed to create typed live object ({what}): {mistakes}"))
    })
}

/// One object that one manager applies to a live one.
struct Application<'a> {
    live: &'a Value,
    applied: &'a Value,
    target: &'a Target<'a>,
    manager: Manager,
    force: bool,
    by_kubectl: bool,
}

/// What keeps an object from being applied.
enum Obstacle {
    /// What others own and would lose.
    Conflicts(BTreeMap<Manager, FieldSet>),
    Mistakes(Mistakes),
}

impl From<Mistakes> for Obstacle {
    fn from(mistakes: Mistakes) -> Self {
        Self::Mistakes(mistakes)
    }
}

impl Application<'_> {
    /// The object as it is to be, and its owners.
    fn settle(&self, mut managed: Managed) -> Result<(Value, Managed), Obstacle> {
        let Target { schema, definitions, .. } = *self.target;
        settle(self.live, &mut managed, self.target)?;
        let fields = self.target.reset.filter(fields_of(self.applied, schema, definitions));
        let now = Owned { fields, api_version: self.target.api_version.to_owned() };
        let before = managed.sets.insert(self.manager.clone(), now);

        let merged = merge(self.live, self.applied, schema, definitions);
        let new = match before.filter(|before| !before.fields.is_empty()) {
            Some(before) => self
                .without_dropped(merged, &before, &managed)
                .map_err(|why| why.within("failed to prune fields"))?,
            None => merged,
        };
        let changes = Changes::between(self.live, &new, self.target, &managed)?;
        self.refuse_conflicts(changes.conflicts(&managed, &self.manager))?;
        changes.take_from_others(&mut managed, Some(&self.manager));
        if let Some(owned) = managed.sets.get_mut(&self.manager) {
            owned.fields = without_nobodys(&owned.fields);
            if owned.fields.is_empty() {
                managed.sets.remove(&self.manager);
            }
        }
        Ok((new, managed))
    }

    /// The merged object without what the manager owned before and nobody owns now. It is looked at in the version in which
    /// the manager applied before, since that is what its fields are fields of.
    fn without_dropped(&self, merged: Value, before: &Owned, managed: &Managed) -> Result<Value, Mistakes> {
        let version = &before.api_version;
        let then = view(&merged, version, self.target)
            .map_err(|why| why.within("failed to convert merged object to last applied version"))?;
        let Some((then, schema)) = then else { return Ok(merged) };
        let owned = owned_in(version, &merged, managed, self.target)?;
        let definitions = self.target.definitions;
        let gone = dropped(&then, &before.fields, &owned, &schema, definitions);
        if gone.is_empty() {
            return Ok(merged);
        }
        let left = without(&then, &gone, &schema, definitions);
        Ok(view(&left, self.target.api_version, self.target)?.map_or(merged, |(left, _)| left))
    }

    /// Conflicts that stand in the way: none by force, and for kubectl not those about what is its own anyway.
    fn refuse_conflicts(&self, mut conflicts: BTreeMap<Manager, FieldSet>) -> Result<(), Obstacle> {
        if self.force || conflicts.is_empty() {
            return Ok(());
        }
        if self.by_kubectl {
            let own = left_as_applied(self.live, self.target);
            conflicts.retain(|_, fields| {
                *fields = fields.difference(&own);
                !fields.is_empty()
            });
        }
        if conflicts.is_empty() { Ok(()) } else { Err(Obstacle::Conflicts(conflicts)) }
    }
}

/// 409, with a cause for each field, sorted by manager.
fn refusal(conflicts: BTreeMap<Manager, FieldSet>) -> Refusal {
    let mut sorted: Vec<_> =
        conflicts.into_iter().map(|(manager, fields)| (manager, fields.paths())).collect();
    sorted.sort_by_cached_key(|(manager, _)| manager.identifier());
    let message = match sorted.as_slice() {
        [(manager, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0])
        }
        many => {
            let count: usize = many.iter().map(|(_, paths)| paths.len()).sum();
            let lines = many.iter().flat_map(|(manager, paths)| {
                let each = paths.iter().map(|path| format!("- {path}"));
                std::iter::once(format!("conflicts with {manager}:")).chain(each)
            });
            format!("Apply failed with {count} conflicts: {}", lines.collect::<Vec<_>>().join("\n"))
        }
    };
    let mut refusal = Refusal::new(Reason::Conflict, message);
    for (manager, paths) in &sorted {
        for path in paths {
            let with = format!("conflict with {manager}");
            refusal = refusal.cause("FieldManagerConflict", &with, &path.to_string());
        }
    }
    refusal
}

/// `namespace/name; group/version, Kind=kind`.
fn described(object: &Value) -> String {
    let meta = |name: &str| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
    let (namespace, name) = (meta("namespace").unwrap_or_default(), meta("name").unwrap_or_default());
    format!("{namespace}/{name}; {}", kind_of(object))
}

fn kind_of(object: &Value) -> String {
    let stated = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = stated("apiVersion").split_once('/').unwrap_or(("", stated("apiVersion")));
    format!("{group}/{version}, Kind={}", stated("kind"))
}
