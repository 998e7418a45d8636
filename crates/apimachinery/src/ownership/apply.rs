//! Server-side apply: sets the fields that a manager states, and removes those that it stated
//! before and no longer does.
//!
//! A field that another manager owns gets another value only with `force`. Fields that several
//! managers state with the same value are shared, and are removed when the last of them drops them.
//! The counterpart is sigs.k8s.io/structured-merge-diff v6.3.3 merge/update.go.
//!
//! ```text
//! live + applied --merge--> merged --minus fields without an owner--> new
//! live .. new --> changes --> conflicts, or fields that others lose
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use dogwatch_core::Reason;
use serde_json::Value;

use super::changes::Changes;
use super::check::{Duplicates, SchemaErrors, check};
use super::client_side_apply::{KUBECTL, left_as_applied, renew};
use super::element::same;
use super::field_set::{FieldSet, PathRoom};
use super::managed::{Managed, Manager, Operation, Owned, strip};
use super::merge::merge;
use super::pruning::{dropped, without};
use super::stated::fields_of;
use super::update::{manager_of, nothing, stamp, track, without_stripped};
use super::views::{owned_in, settle, view};
use super::{Target, Writer};
use crate::api_error::ApiError;

/// The manager of the fields that were written before the first apply (`skipnonapplied.go` in
/// k8s.io/apimachinery v0.36.4 pkg/util/managedfields/internal).
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The conflicts that are reported at most. All conflicts together can be longer than the object by
/// orders of magnitude: a path repeats the keys above a field.
const MOST_REPORTED: PathRoom = PathRoom { paths: 1_000, bytes: 1024 * 1024 };

/// Applies a configuration to a live object, or creates the object. The result has its
/// `managedFields` and is not defaulted yet. If nothing changes, the result is the live object; its
/// `managedFields` may still differ, because sharing a field does not change the object.
///
/// # Errors
/// 400 for another kind or version, and for `managedFields` in the configuration; 500 for fields
/// that are not in the schema; 409 for values of fields that others own with another value, unless
/// `force` is set.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    target: &Target<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    check_kind(applied, target)?;
    let (live, managed) = split_managed(live, target, writer)?;
    if applied.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    check_schema(applied, &live, target)?;

    let application = Application {
        live: &live,
        applied,
        target,
        manager: manager_of(writer, Operation::Apply, target),
        force,
        by_kubectl: writer.manager == KUBECTL,
    };
    let (new, mut managed) = application.settle(managed).map_err(|failure| match failure {
        ApplyFailure::Conflicts(conflicts) => refusal(conflicts),
        ApplyFailure::SchemaErrors(errors) => ApiError::unexplained(errors.to_string()),
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
        // Dropping all labels leaves null in their place, which no kind allows in metadata.
        metadata.retain(|_, value| !value.is_null());
    }
    managed.write(&mut result);
    Ok(result)
}

/// Returns the live object without its entries, and its owners. If it has none yet, its fields are
/// owned by the manager of writes before the first apply.
fn split_managed(
    live: Option<&Value>,
    target: &Target<'_>,
    writer: &Writer<'_>,
) -> Result<(Value, Managed), ApiError> {
    let managed = live
        .map_or_else(|| Ok(Managed::default()), Managed::of)
        .map_err(|cause| ApiError::unexplained(format!("failed to decode managed fields: {cause}")))?;
    let mut live = live.cloned().unwrap_or_else(|| nothing(target));
    strip(&mut live);
    if !managed.sets.is_empty() {
        return Ok((live, managed));
    }
    let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
    let managed = track(&nothing(target), &live, managed, target, &before).map_err(|errors| {
        ApiError::unexplained(format!("failed to create manager for existing fields: {errors}"))
    })?;
    Ok((live, managed))
}

fn check_kind(applied: &Value, target: &Target<'_>) -> Result<(), ApiError> {
    let stated = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    if (stated("apiVersion"), stated("kind")) == (target.api_version, target.kind) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("invalid object type: {}", kind_of(applied))))
}

fn check_schema(applied: &Value, live: &Value, target: &Target<'_>) -> Result<(), ApiError> {
    check(applied, target.schema, target.definitions, Duplicates::Refused).map_err(|errors| {
        let what = described(applied);
        ApiError::unexplained(format!("failed to create typed patch object ({what}): {errors}"))
    })?;
    check(live, target.schema, target.definitions, Duplicates::Allowed).map_err(|errors| {
        let what = described(live);
        ApiError::unexplained(format!("failed to create typed live object ({what}): {errors}"))
    })
}

/// A configuration that a manager applies to a live object.
struct Application<'a> {
    live: &'a Value,
    applied: &'a Value,
    target: &'a Target<'a>,
    manager: Manager,
    force: bool,
    by_kubectl: bool,
}

/// A failure to apply a configuration.
enum ApplyFailure {
    /// The fields that others own and would lose.
    Conflicts(BTreeMap<Manager, FieldSet>),
    SchemaErrors(SchemaErrors),
}

impl From<SchemaErrors> for ApplyFailure {
    fn from(errors: SchemaErrors) -> Self {
        Self::SchemaErrors(errors)
    }
}

impl Application<'_> {
    /// Returns the new object and its owners.
    fn settle(&self, mut managed: Managed) -> Result<(Value, Managed), ApplyFailure> {
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
            owned.fields = without_stripped(&owned.fields);
            if owned.fields.is_empty() {
                managed.sets.remove(&self.manager);
            }
        }
        Ok((new, managed))
    }

    /// Returns the merged object without the fields that the manager owned before and that have no
    /// owner now. The comparison is in the version in which the manager applied before, since its
    /// fields are those of that version.
    fn without_dropped(
        &self,
        merged: Value,
        before: &Owned,
        managed: &Managed,
    ) -> Result<Value, SchemaErrors> {
        let version = &before.api_version;
        let then = view(&merged, version, self.target)
            .map_err(|why| why.within("failed to convert merged object to last applied version"))?;
        let Some((then, schema)) = then else { return Ok(merged) };
        let owned = owned_in(version, &merged, managed, self.target)?;
        let definitions = self.target.definitions;
        let gone = dropped(&then, &before.fields, &owned, &schema, definitions);
        if gone.is_empty() {
            drop(then);
            return Ok(merged);
        }
        let left = without(&then, &gone, &schema, definitions);
        drop(then);
        let here = view(&left, self.target.api_version, self.target)?;
        Ok(match here {
            None => merged,
            Some((Cow::Owned(here), _)) => here,
            Some((Cow::Borrowed(_), _)) => left,
        })
    }

    /// Rejects conflicts, except with `force`, and for kubectl except those about fields that still
    /// have the value from its client-side apply.
    fn refuse_conflicts(&self, mut conflicts: BTreeMap<Manager, FieldSet>) -> Result<(), ApplyFailure> {
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
        if conflicts.is_empty() { Ok(()) } else { Err(ApplyFailure::Conflicts(conflicts)) }
    }
}

/// Returns the 409, with a cause for each field, sorted by manager (`NewConflictError` in
/// k8s.io/apimachinery v0.36.4 pkg/util/managedfields/internal/conflict.go). kube-apiserver reports
/// all conflicts; here the first ones are reported, and the number of the others.
fn refusal(conflicts: BTreeMap<Manager, FieldSet>) -> ApiError {
    let count: usize = conflicts.values().map(FieldSet::len).sum();
    let mut sorted: Vec<_> = conflicts.into_iter().collect();
    sorted.sort_by_cached_key(|(manager, _)| manager.identifier());
    let mut room = MOST_REPORTED;
    let sorted: Vec<(Manager, Vec<String>)> = sorted
        .into_iter()
        .map(|(manager, fields)| (manager, fields.first_paths(&mut room)))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    let left_out = count.saturating_sub(sorted.iter().map(|(_, paths)| paths.len()).sum());
    let message = match sorted.as_slice() {
        [(manager, paths)] if count == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0])
        }
        many => {
            let lines = many.iter().flat_map(|(manager, paths)| {
                let each = paths.iter().map(|path| format!("- {path}"));
                std::iter::once(format!("conflicts with {manager}:")).chain(each)
            });
            let more = (left_out > 0).then(|| format!("{left_out} more conflicts are not shown"));
            let lines: Vec<String> = lines.chain(more).collect();
            format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
        }
    };
    let mut refusal = ApiError::new(Reason::Conflict, message);
    for (manager, paths) in &sorted {
        let with = format!("conflict with {manager}");
        for path in paths {
            refusal = refusal.cause("FieldManagerConflict", &with, path);
        }
    }
    refusal
}

/// Formats `namespace/name; group/version, Kind=kind`.
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
