//! The next step of a deletion: pure decisions about the stored form of an object.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::delete_options::{DeleteOptions, Propagation};
use super::object_fields::{metadata_mut, object_mut};
use crate::custom::{definition, names};
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::{DEFINITION, NAMESPACE};
use crate::registry::Kind;
use crate::time;

/// The finalizer of an object whose dependents are deleted first.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents lose their owner first.
const ORPHAN: &str = "orphan";

/// The next step of a deletion.
#[derive(Debug, PartialEq)]
pub(super) enum DeletionStep {
    /// Removes the object.
    Remove,
    /// Stores this state, and then removes the object if `then_remove` is set.
    Mark { object: Value, then_remove: bool },
    /// Changes nothing: the object is being deleted already.
    Wait,
}

/// Decides the next step of the deletion of an object. Works on the stored form.
pub(super) fn next_step(
    kind: &Kind,
    stored: &Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> DeletionStep {
    if kind.is(&NAMESPACE)
        && let Some(step) = step_of_namespace(stored, options, now)
    {
        return step;
    }
    if kind.is(&DEFINITION) && at(stored, "/metadata/deletionTimestamp").is_none() {
        let mut object = stored.clone();
        mark_deleting(&mut object, now, 0);
        add_finalizer(&mut object, definition::CLEANUP);
        names::mark_terminating(&mut object, &time::stamp(now));
        return DeletionStep::Mark { object, then_remove: false };
    }
    let mut object = stored.clone();
    let finalizers = finalizers_after(kind, stored, options);
    let refinalized = finalizers != items(stored, "/metadata/finalizers");
    set_finalizers(&mut object, &finalizers);
    let held = !finalizers.is_empty();
    match (at(stored, "/metadata/deletionTimestamp").is_some(), grace_of(kind, stored, options)) {
        (false, Some(grace)) => {
            mark_deleting(&mut object, now, grace);
            DeletionStep::Mark { object, then_remove: grace == 0 && !held }
        }
        (false, None) if held => {
            mark_deleting(&mut object, now, 0);
            DeletionStep::Mark { object, then_remove: false }
        }
        (false, None) => DeletionStep::Remove,
        (true, grace) => {
            let before = number(stored, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
            let shorter = grace.filter(|it| options.grace.is_some() && *it < before);
            if let Some(grace) = shorter {
                shorten(&mut object, now, before, grace);
                return DeletionStep::Mark { object, then_remove: grace == 0 && !held };
            }
            match (refinalized, held) {
                (true, true) => DeletionStep::Mark { object, then_remove: false },
                // A webhook may have given a grace period to a new object of a kind that has
                // none.
                (_, false) if grace.is_none() || is_to_be_removed(kind, &object) => DeletionStep::Remove,
                _ => DeletionStep::Wait,
            }
        }
    }
}

/// Decides the next step of the deletion of a namespace. Returns `None` if it is deleted like any
/// other object, since it is empty.
///
/// Mirrors `REST.Delete` in k8s.io/kubernetes v1.36.4
/// pkg/registry/core/namespace/storage/storage.go.
fn step_of_namespace(stored: &Value, options: &DeleteOptions, now: Timestamp) -> Option<DeletionStep> {
    if at(stored, "/metadata/deletionTimestamp").is_some() {
        let is_empty = items(stored, "/spec/finalizers").is_empty();
        return (!is_empty).then_some(DeletionStep::Wait);
    }
    let mut object = stored.clone();
    let before = items(stored, "/metadata/finalizers");
    let wanted = |name: &str, orphans: bool, policy: Propagation| match options.orphan_dependents {
        Some(orphan) => orphan == orphans,
        None => options.propagation.map_or_else(|| before.iter().any(|it| it == name), |it| it == policy),
    };
    let added = [(ORPHAN, true, Propagation::Orphan), (FOREGROUND, false, Propagation::Foreground)];
    let added = added.into_iter().filter(|(name, orphans, policy)| wanted(name, *orphans, *policy));
    let others = before.iter().filter(|it| *it != FOREGROUND && *it != ORPHAN).cloned();
    let finalizers: Vec<Value> = others.chain(added.map(|(name, ..)| name.into())).collect();
    set_finalizers(&mut object, &finalizers);
    metadata_mut(&mut object).insert("deletionTimestamp".to_owned(), time::stamp(now).into());
    object_mut(&mut object, "status").insert("phase".to_owned(), "Terminating".into());
    Some(DeletionStep::Mark { object, then_remove: false })
}

/// Sets the deletion timestamp of an object to `grace` seconds after `now`.
fn mark_deleting(object: &mut Value, now: Timestamp, grace: i64) {
    let end = time::seconds_after(now, grace);
    let generation = number(object, "/metadata/generation").unwrap_or(0);
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), time::stamp(end).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    if generation > 0 {
        metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
}

/// Moves the deletion timestamp of an object to an earlier time: `grace` seconds after the
/// deletion began.
fn shorten(object: &mut Value, now: Timestamp, before: i64, grace: i64) {
    let end = text(object, "/metadata/deletionTimestamp").parse::<Timestamp>();
    let earlier = grace.saturating_sub(before);
    let end = end.map_or_else(|_| now, |it| time::seconds_after(it, earlier));
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), time::stamp(end).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
}

/// Returns true if a state of an object means that it is to be removed: it is being deleted and
/// nothing holds it any more.
pub(super) fn is_to_be_removed(kind: &Kind, object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some()
        && items(object, "/metadata/finalizers").is_empty()
        && number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0
        && (!kind.is(&NAMESPACE) || items(object, "/spec/finalizers").is_empty())
}

/// Returns the grace period of a deletion; `None` for kinds without graceful deletion.
fn grace_of(kind: &Kind, object: &Value, options: &DeleteOptions) -> Option<i64> {
    if !kind.traits.graceful_deletion {
        return None;
    }
    let wanted = options.grace.or_else(|| number(object, "/spec/terminationGracePeriodSeconds")).unwrap_or(0);
    // k8s.io/apiserver v0.36.4 pkg/registry/rest/delete.go turns a negative grace period into one
    // second.
    let wanted = if wanted < 0 { 1 } else { wanted };
    let ended = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    Some(if ended || text(object, "/spec/nodeName").is_empty() { 0 } else { wanted })
}

/// Returns the finalizers of an object after a deletion with these options.
fn finalizers_after(kind: &Kind, object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let before = items(object, "/metadata/finalizers");
    let has = |name: &str| before.iter().any(|it| it == name);
    let collected = kind.rules.is_collected;
    let orphan = collected
        && match (options.orphan_dependents, options.propagation) {
            (Some(orphan), _) => orphan,
            (None, Some(policy)) => policy == Propagation::Orphan,
            (None, None) => has(ORPHAN) || (!has(FOREGROUND) && kind.traits.orphans_by_default),
        };
    let foreground = collected
        && match (options.orphan_dependents, options.propagation) {
            (Some(_), _) => false,
            (None, Some(policy)) => policy == Propagation::Foreground,
            (None, None) => has(FOREGROUND),
        };
    let others = before.iter().filter(|it| *it != FOREGROUND && *it != ORPHAN).cloned();
    let added = [(orphan, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(wanted, _)| *wanted);
    let after: Vec<Value> = others.chain(added.map(|(_, name)| Value::from(name))).collect();
    // The same finalizers in another order, or more often, are no change
    // (`deletionFinalizersForGarbageCollection` in k8s.io/apiserver v0.36.4
    // pkg/registry/generic/registry/store.go).
    let is_same = before.iter().collect::<HashSet<_>>() == after.iter().collect();
    if is_same { before.to_vec() } else { after }
}

fn set_finalizers(object: &mut Value, finalizers: &[Value]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

fn add_finalizer(object: &mut Value, name: &str) {
    let mut finalizers = items(object, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|it| it == name) {
        finalizers.push(name.into());
    }
    set_finalizers(object, &finalizers);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::registry::Registry;

    fn kind(name: &str) -> Arc<Kind> {
        let group = if name == "jobs" { "batch" } else { "" };
        Registry::default().catalog().kind(group, "v1", name).expect("a built-in kind")
    }

    /// Returns the step of a deletion at 12:00:00, as one line.
    fn step(kind: &Kind, stored: &Value, options: &DeleteOptions) -> String {
        let now = "2026-01-02T12:00:00Z".parse().expect("a time");
        let (object, then_remove) = match next_step(kind, stored, options, now) {
            DeletionStep::Remove => return "remove".to_owned(),
            DeletionStep::Wait => return "wait".to_owned(),
            DeletionStep::Mark { object, then_remove } => (object, then_remove),
        };
        let end = text(&object, "/metadata/deletionTimestamp");
        let end = end.strip_prefix("2026-01-02T").unwrap_or(end);
        let finalizers: Vec<_> =
            items(&object, "/metadata/finalizers").iter().filter_map(Value::as_str).collect();
        let then = if then_remove { ", then remove" } else { "" };
        format!("mark {end} [{}]{then}", finalizers.join(" "))
    }

    fn grace(seconds: i64) -> DeleteOptions {
        DeleteOptions { grace: Some(seconds), ..DeleteOptions::default() }
    }

    fn policy(propagation: Propagation) -> DeleteOptions {
        DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() }
    }

    #[test]
    fn finalizers_and_the_propagation_policy_decide_whether_an_object_is_removed_at_once() {
        let plain = DeleteOptions::default();
        let map = |finalizers: &[&str]| json!({ "metadata": { "name": "a", "finalizers": finalizers } });
        let terminating = |finalizers: &[&str]| {
            json!({ "metadata": { "name": "a", "finalizers": finalizers,
                "deletionTimestamp": "2026-01-02T11:00:00Z", "deletionGracePeriodSeconds": 0 } })
        };
        let (foreground, background, orphan) =
            (policy(Propagation::Foreground), policy(Propagation::Background), policy(Propagation::Orphan));
        for (name, stored, options, expected) in [
            ("configmaps", map(&[]), &plain, "remove"),
            ("configmaps", map(&[]), &grace(30), "remove"),
            ("configmaps", map(&["a/b"]), &plain, "mark 12:00:00Z [a/b]"),
            ("configmaps", map(&[]), &foreground, "mark 12:00:00Z [foregroundDeletion]"),
            ("configmaps", map(&["a/b"]), &orphan, "mark 12:00:00Z [a/b orphan]"),
            ("configmaps", map(&["orphan"]), &plain, "mark 12:00:00Z [orphan]"),
            ("configmaps", map(&["orphan"]), &background, "remove"),
            ("configmaps", terminating(&["a/b"]), &plain, "wait"),
            ("configmaps", terminating(&["a/b"]), &orphan, "mark 11:00:00Z [a/b orphan]"),
            ("configmaps", terminating(&["orphan"]), &background, "remove"),
            ("configmaps", terminating(&[]), &plain, "remove"),
            ("jobs", map(&[]), &plain, "mark 12:00:00Z [orphan]"),
            ("jobs", map(&[]), &background, "remove"),
        ] {
            assert_eq!(step(&kind(name), &stored, options), expected, "{name} {stored} {options:?}");
        }
    }

    #[test]
    fn a_running_pod_is_removed_after_its_grace_period_which_can_only_become_shorter() {
        let (pods, plain) = (kind("pods"), DeleteOptions::default());
        let pod = |metadata: Value, node: &str, phase: &str| {
            json!({ "metadata": metadata, "status": { "phase": phase },
                "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30 } })
        };
        let running = pod(json!({}), "node", "Running");
        let held = pod(json!({ "finalizers": ["a/b"] }), "node", "Running");
        let going = pod(
            json!({ "deletionTimestamp": "2026-01-02T12:00:20Z", "deletionGracePeriodSeconds": 30 }),
            "node",
            "Running",
        );
        for (stored, options, expected) in [
            (&running, &plain, "mark 12:00:30Z []"),
            (&running, &grace(5), "mark 12:00:05Z []"),
            (&running, &grace(-7), "mark 12:00:01Z []"),
            (&running, &grace(0), "mark 12:00:00Z [], then remove"),
            (&held, &grace(0), "mark 12:00:00Z [a/b]"),
            (&pod(json!({}), "", "Pending"), &plain, "mark 12:00:00Z [], then remove"),
            (&pod(json!({}), "node", "Failed"), &plain, "mark 12:00:00Z [], then remove"),
            (&going, &plain, "wait"),
            (&going, &grace(60), "wait"),
            (&going, &grace(10), "mark 12:00:00Z []"),
            (&going, &grace(0), "mark 11:59:50Z [], then remove"),
        ] {
            assert_eq!(step(&pods, stored, options), expected, "{stored} {options:?}");
        }
    }

    #[test]
    fn a_namespace_waits_until_it_is_empty() {
        let (namespaces, plain) = (kind("namespaces"), DeleteOptions::default());
        let namespace = |metadata: Value, finalizers: &[&str]| json!({ "metadata": metadata, "spec": { "finalizers": finalizers } });
        let terminating = || json!({ "deletionTimestamp": "2026-01-02T11:00:00Z" });
        for (stored, options, expected) in [
            (namespace(json!({}), &["kubernetes"]), &plain, "mark 12:00:00Z []"),
            (namespace(json!({}), &[]), &plain, "mark 12:00:00Z []"),
            (namespace(json!({}), &["kubernetes"]), &policy(Propagation::Orphan), "mark 12:00:00Z [orphan]"),
            (namespace(terminating(), &["kubernetes"]), &plain, "wait"),
            (namespace(terminating(), &[]), &plain, "remove"),
        ] {
            assert_eq!(step(&namespaces, &stored, options), expected, "{stored} {options:?}");
        }
    }
}
