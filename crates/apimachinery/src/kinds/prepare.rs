//! The fields that the server itself sets before an object is stored: status, generation, and
//! everything it decides.
//!
//! Runs before validation, on objects that have their defaults: those are set once, when a request,
//! a patch or the result of a webhook is decoded. What depends on more than the object (addresses,
//! ports, priorities) is obtained from [`ClusterResources`]. What only some kinds need is in the
//! files of these kinds.

use serde_json::Value;

use crate::ApiError;
use crate::kinds::json_access::{at, entries, number, object};
use crate::kinds::rules::KindRules;
use crate::kinds::shape;
use crate::kinds::traits::StatusMetadata;

pub use crate::kinds::allocate::ClusterResources;

/// Prepares a new object of this version. Its uid must be set, since jobs select by it; `now` is
/// the time of creation.
pub fn for_create(
    rules: &KindRules,
    version: &str,
    value: &mut Value,
    now: &str,
    around: &mut dyn ClusterResources,
) -> Result<(), ApiError> {
    let traits = rules.traits;
    if let Some(map) = value.as_object_mut() {
        if traits.has_status && !rules.creates_status {
            map.remove("status");
            map.extend(
                shape::blank_status(rules.group, version, rules.kind).map(|it| ("status".to_owned(), it)),
            );
        }
        let meta = object(map, "metadata");
        if traits.has_generation {
            meta.insert("generation".to_owned(), 1.into());
        }
    }
    (rules.prepare_create)(value, now, around)
}

/// Prepares the new state of an object for a write to the object itself. The caller, which knows
/// both states, releases the addresses and ports that a service no longer uses.
pub fn for_update(
    rules: &KindRules,
    new: &mut Value,
    old: &Value,
    around: &mut dyn ClusterResources,
) -> Result<(), ApiError> {
    if rules.traits.has_status {
        copy(new, old, "status");
    }
    (rules.prepare_update)(new, old, around)?;
    keep_generation(rules, new, old);
    Ok(())
}

/// Prepares the new state of an object for a write to its `/status`.
pub fn for_status_update(rules: &KindRules, new: &mut Value, old: &Value) {
    let traits = rules.traits;
    let status = new.get("status").cloned();
    let mut meta = new.get("metadata").cloned().unwrap_or_default();
    let keep: &[&str] = match traits.status_metadata {
        StatusMetadata::All => &["generation"],
        StatusMetadata::AllButLabels => &["generation", "labels"],
        StatusMetadata::AllButOwners => &["generation", "ownerReferences", "deletionTimestamp"],
        StatusMetadata::Nothing => {
            &["generation", "ownerReferences", "deletionTimestamp", "labels", "annotations", "finalizers"]
        }
    };
    let old_meta = old.get("metadata").cloned().unwrap_or_default();
    for key in keep {
        copy(&mut meta, &old_meta, key);
    }
    let mut stored = old.clone();
    if let Some(map) = stored.as_object_mut() {
        map.insert("metadata".to_owned(), meta);
        match status {
            Some(status) => map.insert("status".to_owned(), status),
            None => map.remove("status"),
        };
    }
    // Also sets the defaults that depend on the spec, which is not the one that was decoded with
    // this status and these labels. kube-apiserver sets them again when it reads the stored object
    // (recorded in conformance/scenarios/status-others.json).
    (rules.prepare_status)(&mut stored, old);
    *new = stored;
}

/// Copies a field from the old state of an object, or removes it if the old state does not have it.
pub(in crate::kinds) fn copy(new: &mut Value, old: &Value, key: &str) {
    let Some(map) = new.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

fn keep_generation(rules: &KindRules, new: &mut Value, old: &Value) {
    if !rules.counts_updates.unwrap_or(rules.traits.has_generation) {
        if let Some(meta) = new.get_mut("metadata") {
            copy(meta, old.get("metadata").unwrap_or(&Value::Null), "generation");
        }
        return;
    }
    let counts_metadata = rules.generation_metadata;
    let wanted = |value: &Value| -> Vec<(String, Value)> {
        entries(value, "")
            .filter(|(key, _)| !matches!(*key, "metadata" | "status" | "kind" | "apiVersion"))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    };
    let changed =
        wanted(new) != wanted(old) || counts_metadata.iter().any(|field| at(new, field) != at(old, field));
    let generation = number(old, "/metadata/generation").unwrap_or(0).saturating_add(i64::from(changed));
    if let Some(map) = new.as_object_mut().filter(|_| generation > 0) {
        object(map, "metadata").insert("generation".to_owned(), generation.into());
    }
}
