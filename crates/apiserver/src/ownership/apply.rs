//! Server-side apply: what a manager states becomes so, what it stated before and no longer does goes.
//!
//! A field another manager owns is only given another value by force. Fields stated by several with one value are
//! shared, and go when the last one drops them.

use std::collections::BTreeMap;

use dogwatch_core::Reason;
use serde_json::Value;

use super::check::{Duplicates, Mistakes, check};
use super::compare::{Comparison, compare};
use super::element::{escape_html, same};
use super::extract::{fields_of, with_named_fields};
use super::field_set::{FieldSet, Path};
use super::managed::{Managed, Manager, Operation, Owned, strip};
use super::merge::{merge, remove};
use super::update::{Changes, manager_of, nothing, settle, stamp, track, view, without_nobodys};
use super::{Target, Writer};
use crate::refusal::Refusal;
use crate::schema::Schema;

/// Who owns the fields of objects that were written before anybody applied them.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager for which the annotation of client-side apply is read and kept up to date.
const KUBECTL: &str = "kubectl";

/// Where client-side apply keeps what it last applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How large all annotations of an object may be together, in bytes.
const MOST_ANNOTATIONS: usize = 256 * 1024;

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
    let mut managed = live
        .map_or_else(|| Ok(Managed::default()), Managed::of)
        .map_err(|cause| Refusal::unexplained(format!("failed to decode managed fields: {cause}")))?;
    let mut live = live.cloned().unwrap_or_else(|| nothing(target));
    strip(&mut live);
    if managed.sets.is_empty() {
        let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
        managed = track(&nothing(target), &live, managed, target, &before).map_err(|mistakes| {
            Refusal::unexplained(format!("failed to create manager for existing fields: {mistakes}"))
        })?;
    }
    if applied.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    refuse_mistakes(applied, &live, target)?;

    let manager = manager_of(writer, Operation::Apply, target);
    let attempt = |force| settle_apply(&live, applied, managed.clone(), target, &manager, force);
    let outcome = match attempt(force) {
        Err(Obstacle::Conflicts(conflicts)) if writer.manager == KUBECTL => {
            let allowed = last_applied_and_unchanged(&live, target).unwrap_or_default();
            let left: Vec<_> = conflicts.into_iter().filter(|(_, path)| !allowed.contains(&path.0)).collect();
            if left.is_empty() { attempt(true) } else { Err(Obstacle::Conflicts(left)) }
        }
        outcome => outcome,
    };
    let (changed, mut managed) = outcome.map_err(|obstacle| match obstacle {
        Obstacle::Conflicts(conflicts) => refusal(&conflicts),
        Obstacle::Mistakes(mistakes) => Refusal::unexplained(mistakes.to_string()),
    })?;
    if changed.is_some() {
        managed.times.insert(manager, stamp(writer.now));
    }
    let mut result = changed.unwrap_or(live);
    if writer.manager == KUBECTL {
        renew_last_applied(&mut result, applied);
    }
    if let Some(metadata) = result.get_mut("metadata").and_then(Value::as_object_mut) {
        // Taking all labels leaves null in their place, which metadata has no room for in any kind.
        metadata.retain(|_, value| !value.is_null());
    }
    managed.write(&mut result);
    Ok(result)
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

/// A conflict: who owns the field, and which it is.
type Conflict = (Manager, Path);

/// What keeps an object from being applied.
enum Obstacle {
    Conflicts(Vec<Conflict>),
    Mistakes(Mistakes),
}

impl From<Mistakes> for Obstacle {
    fn from(mistakes: Mistakes) -> Self {
        Self::Mistakes(mistakes)
    }
}

/// The object after applying, where it is another one, and its owners; or all conflicts.
fn settle_apply(
    live: &Value,
    applied: &Value,
    mut managed: Managed,
    target: &Target<'_>,
    manager: &Manager,
    force: bool,
) -> Result<(Option<Value>, Managed), Obstacle> {
    settle(live, &mut managed, target)?;
    let merged = merge(live, applied, target.schema, target.definitions);
    let stated = target.reset.filter(fields_of(applied, target.schema, target.definitions));
    let now = Owned { fields: stated, api_version: target.api_version.to_owned() };
    let last = managed.sets.insert(manager.clone(), now);
    let new = match last {
        Some(last) if !last.fields.is_empty() => {
            prune(merged, &managed, &last, target).map_err(|why| why.within("failed to prune fields"))?
        }
        _ => merged,
    };

    let changes = Changes::between(live, &new, target, &managed)?;
    if !force {
        let conflicts = changes.conflicts(&managed, manager);
        if !conflicts.is_empty() {
            return Err(Obstacle::Conflicts(listed(conflicts)));
        }
    }
    changes.take_from_others(&mut managed, Some(manager));
    if let Some(owned) = managed.sets.get_mut(manager) {
        owned.fields = without_nobodys(&owned.fields);
        if owned.fields.is_empty() {
            managed.sets.remove(manager);
        }
    }
    Ok((Some(new).filter(|new| !same(live, new)), managed))
}

/// Takes out of the merged object what the manager owned and no longer states, unless somebody else owns it, or it
/// holds something that is owned or was never owned by this manager.
fn prune(merged: Value, managed: &Managed, last: &Owned, target: &Target<'_>) -> Result<Value, Mistakes> {
    let then = view(&merged, &last.api_version, target)
        .map_err(|why| why.within("failed to convert merged object to last applied version"))?;
    let Some((then, schema)) = then else { return Ok(merged) };
    let stated = |object: &Value| stated_with_names(object, &schema, target);
    let owned_before = with_named_fields(&last.fields, &schema, target.definitions);
    let pruned = remove(&then, &owned_before, &schema, target.definitions);
    let pruned = give_back(&merged, pruned, managed, last, target)
        .map_err(|why| why.within("failed add back owned items"))?;
    let pruned = view(&pruned, &last.api_version, target).map_err(|why| {
        why.within("failed add back dangling items: failed to convert pruned object to last applied version")
    })?;
    let Some((pruned, _)) = pruned else { return Ok(merged) };
    let gone = stated(&then).difference(&stated(&pruned)).intersection(&owned_before);
    let result = remove(&then, &gone, &schema, target.definitions);
    Ok(view(&result, target.api_version, target)?.map_or(merged, |(result, _)| result))
}

/// Puts back into the pruned object what anybody owns, version by version.
fn give_back(
    merged: &Value,
    mut pruned: Value,
    managed: &Managed,
    last: &Owned,
    target: &Target<'_>,
) -> Result<Value, Mistakes> {
    // The version of the last apply goes first, as the others may need its fields to be converted.
    let mut by_version: BTreeMap<(bool, &str), FieldSet> = BTreeMap::new();
    for owned in managed.sets.values() {
        let all = by_version.entry((owned.api_version != last.api_version, &owned.api_version)).or_default();
        *all = all.union(&owned.fields);
    }
    for ((another, version), owned) in by_version {
        let failed = |which: &str, why: Mistakes| {
            why.within(&format!("failed to convert {which} object at version {version}"))
        };
        let all = view(merged, version, target).map_err(|why| failed("merged", why))?;
        let Some((all, schema)) = all else { continue };
        if another {
            let converted = view(&pruned, version, target).map_err(|why| failed("pruned", why))?;
            let Some((converted, _)) = converted else { continue };
            pruned = converted;
        }
        let owned = with_named_fields(&owned, &schema, target.definitions);
        let keep = stated_with_names(&pruned, &schema, target).union(&owned);
        let gone = stated_with_names(&all, &schema, target).difference(&keep);
        pruned = remove(&all, &gone, &schema, target.definitions);
    }
    Ok(pruned)
}

fn stated_with_names(object: &Value, schema: &Schema, target: &Target<'_>) -> FieldSet {
    with_named_fields(&fields_of(object, schema, target.definitions), schema, target.definitions)
}

fn listed(conflicts: BTreeMap<Manager, FieldSet>) -> Vec<Conflict> {
    let mut sorted: Vec<_> = conflicts.into_iter().collect();
    sorted.sort_by_cached_key(|(manager, _)| manager.identifier());
    let each = sorted
        .into_iter()
        .flat_map(|(manager, fields)| fields.paths().into_iter().map(move |path| (manager.clone(), path)));
    each.collect()
}

/// 409, with a cause for each field. The conflicts are sorted by manager.
fn refusal(conflicts: &[Conflict]) -> Refusal {
    let message = match conflicts {
        [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
        many => {
            let mut lines = Vec::new();
            let mut last = None;
            for (manager, path) in many {
                if last != Some(manager) {
                    lines.push(format!("conflicts with {manager}:"));
                    last = Some(manager);
                }
                lines.push(format!("- {path}"));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    conflicts.iter().fold(Refusal::new(Reason::Conflict, message), |refusal, (manager, path)| {
        refusal.cause("FieldManagerConflict", &format!("conflict with {manager}"), &path.to_string())
    })
}

/// The fields that client-side apply last applied and that still are as it left them; these are kubectl's own.
fn last_applied_and_unchanged(live: &Value, target: &Target<'_>) -> Option<FieldSet> {
    let text = last_applied(live)?;
    let before: Value = serde_json::from_str(text).ok()?;
    if before.get("apiVersion").and_then(Value::as_str) != Some(target.api_version) {
        return None;
    }
    check(&before, target.schema, target.definitions, Duplicates::Refused).ok()?;
    let fields = fields_of(&before, target.schema, target.definitions);
    let Comparison { added, modified, removed } = compare(&before, live, target.schema, target.definitions);
    Some(fields.difference(&modified).difference(&added).difference(&removed))
}

fn last_applied(object: &Value) -> Option<&str> {
    let annotation = object.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    Some(annotation).filter(|annotation| !annotation.is_empty())
}

/// Writes what was applied into the annotation of client-side apply, where the object has one.
fn renew_last_applied(object: &mut Value, applied: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut stated = applied.clone();
    if let Some(annotations) = stated.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    // Go's encoder, which clients compare with, ends with a line feed.
    annotations.insert(LAST_APPLIED.to_owned(), format!("{}\n", escape_html(&stated.to_string())).into());
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MOST_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
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
